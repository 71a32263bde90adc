//! Problems with certificates between a client and a node; each says what to try.

use quorate_types::NodeId;
use quorate_wire::node_name;
use rustls::{AlertDescription, CertificateError};
use std::io;

/// Why a client and a node cannot agree on TLS.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TlsProblem {
    /// The node takes sealed connections only, and this client has no certificates.
    #[error(
        "it speaks TLS and this client does not: give --tls-ca, --tls-cert and --tls-key (in Python tls=quorate.Tls(...))"
    )]
    Wanted,
    /// The node takes plain connections only.
    #[error("it does not speak TLS: leave out the certificates, or start it with [tls]")]
    Unspoken,
    /// The node's certificate was signed by somebody else.
    #[error("its certificate is not signed by the authority given: use the ca.pem of its cluster")]
    ForeignAuthority,
    /// The node's certificate is too old, or from the future.
    #[error(
        "its certificate has expired or is not valid yet: renew it (quorate certs), or correct this machine's clock"
    )]
    Expired,
    /// The authority signed the certificate, and it is no node's.
    #[error("its certificate names no node: a node needs one for node-N.quorate")]
    NamesNoNode,
    /// The node says that it is one that its certificate does not name.
    #[error("it says that it is {node}, but its certificate does not name {}: give each node its own certificate", node_name(*node))]
    OtherNode {
        /// Who it says to be.
        node: NodeId,
    },
    /// The node does not trust this client's certificate.
    #[error(
        "it refuses this client's certificate: use one signed by the authority of its cluster, such as client.pem"
    )]
    Refused,
    /// This client's certificate is too old.
    #[error("it refuses this client's certificate, which has expired: renew it (quorate certs)")]
    OwnExpired,
    /// Something else in the handshake or after it.
    #[error("the TLS session failed: {0}")]
    Broken(String),
}

impl TlsProblem {
    /// What a failed read or write has of it.
    pub(crate) fn of(error: &io::Error) -> Option<&TlsProblem> {
        error.get_ref()?.downcast_ref()
    }

    /// Whether dialling again cannot help.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            TlsProblem::Wanted
            | TlsProblem::Unspoken
            | TlsProblem::ForeignAuthority
            | TlsProblem::Expired
            | TlsProblem::NamesNoNode
            | TlsProblem::OtherNode { .. }
            | TlsProblem::Refused
            | TlsProblem::OwnExpired => true,
            TlsProblem::Broken(_) => false,
        }
    }
}

impl From<TlsProblem> for io::Error {
    fn from(problem: TlsProblem) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, problem)
    }
}

impl From<&rustls::Error> for TlsProblem {
    fn from(error: &rustls::Error) -> TlsProblem {
        match error {
            rustls::Error::InvalidMessage(_) => TlsProblem::Unspoken,
            rustls::Error::InvalidCertificate(wrong) => match wrong {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    TlsProblem::ForeignAuthority
                }
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => TlsProblem::Expired,
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. }
                | CertificateError::InvalidPurpose
                | CertificateError::InvalidPurposeContext { .. } => TlsProblem::NamesNoNode,
                other => TlsProblem::Broken(other.to_string()),
            },
            rustls::Error::AlertReceived(alert) => match alert {
                AlertDescription::CertificateExpired => TlsProblem::OwnExpired,
                AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateRequired
                | AlertDescription::AccessDenied
                | AlertDescription::DecryptError => TlsProblem::Refused,
                other => TlsProblem::Broken(format!("the node said {other:?}")),
            },
            other => TlsProblem::Broken(other.to_string()),
        }
    }
}
