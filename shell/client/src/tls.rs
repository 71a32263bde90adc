//! A client's certificates, and which nodes it trusts.
//!
//! A client dials an address before it knows which node is there. So the handshake accepts any certificate
//! of the authority that names a node. When the node has said which one it is, the certificate must name
//! that node. A client's certificate names no node and is not accepted as a node's.

use crate::{ConnectError, TlsProblem};
use quorate_types::NodeId;
use quorate_wire::node_name;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};
use std::path::Path;
use std::sync::Arc;

/// Numbers that nodes may have: below this one.
const NODES: u16 = 64;

/// What a client needs to speak to nodes with certificates; shared by its connections.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

impl TlsClient {
    /// Reads PEM files: the cluster's authority, this client's certificate chain, and its key.
    ///
    /// # Errors
    /// [`ConnectError::Unreadable`] names the file and what is wrong with it.
    pub fn from_files(ca: &Path, cert: &Path, key: &Path) -> Result<TlsClient, ConnectError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            roots.add(certificate).map_err(|why| unreadable(ca, &why))?;
        }
        let chain = certificates(cert)?;
        let private = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|why| unreadable(key, &format!("no private key in PEM: {why}")))?;
        let provider = Arc::new(ring::default_provider());
        let verifier = AnyNode::new(roots, &provider);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| ConnectError::System(why.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(chain, private)
            .map_err(|why| unreadable(key, &format!("not the key of {}: {why}", cert.display())))?;
        // All nodes are dialled by one name: a session of one must not be taken up with another.
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(TlsClient {
            config: Arc::new(config),
        })
    }

    pub(crate) fn session(&self) -> Result<ClientConnection, TlsProblem> {
        let name = ServerName::try_from("node.quorate").expect("letters and a dot");
        ClientConnection::new(Arc::clone(&self.config), name).map_err(|error| (&error).into())
    }
}

/// Whether the certificate that the other side showed names it as `node`.
pub(crate) fn is_certified_as(session: &ClientConnection, node: NodeId) -> bool {
    let certificate = session.peer_certificates().and_then(<[_]>::first);
    let parsed = certificate.and_then(|der| ParsedCertificate::try_from(der).ok());
    parsed.is_some_and(|parsed| names(&parsed, node))
}

fn names(certificate: &ParsedCertificate<'_>, node: NodeId) -> bool {
    let name = ServerName::try_from(node_name(node)).expect("letters, digits and dots");
    verify_server_name(certificate, &name).is_ok()
}

/// Takes a certificate of the authority that names any node.
#[derive(Debug)]
struct AnyNode {
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyNode {
    fn new(roots: RootCertStore, provider: &CryptoProvider) -> AnyNode {
        AnyNode {
            roots,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ServerCertVerifier for AnyNode {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        if (0..NODES).any(|node| names(&parsed, NodeId(node))) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::NotValidForName.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|why| unreadable(path, &why))?;
    if found.is_empty() {
        return Err(unreadable(path, &"no certificate in PEM"));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, ConnectError> {
    std::fs::read(path).map_err(|why| unreadable(path, &why))
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> ConnectError {
    ConnectError::Unreadable {
        path: path.to_owned(),
        why: why.to_string(),
    }
}
