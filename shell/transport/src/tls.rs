//! TLS 1.3 with certificates on both sides, over a non-blocking socket.
//!
//! A node's certificate names it as [`node_name`], so that not every certificate of the authority makes its
//! holder a member. The dialling side checks the name in the handshake, the accepting side when the Hello
//! names the node.

use mio::net::TcpStream;
use quorate_types::NodeId;
use quorate_wire::node_name;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

/// Bytes of the largest TLS record: a session gives no more at once.
const RECORD_BYTES: usize = 16 << 10;

/// Certificates as a transport uses them.
#[derive(Clone, Debug)]
pub struct Tls {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    pub(crate) roots: Arc<RootCertStore>,
    /// Invariant: not empty; this node's own certificate is first.
    pub(crate) chain: Arc<[CertificateDer<'static>]>,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct TlsError {
    what: &'static str,
    why: String,
}

impl TlsError {
    pub(crate) fn of_certificate(why: String) -> TlsError {
        let what = "tls.cert";
        TlsError { what, why }
    }
}

impl Tls {
    /// From PEM: the authority that signed everybody, this node's chain, and its key.
    ///
    /// # Errors
    /// Which of the three is wrong, and how.
    pub fn from_pem(ca: &[u8], chain: &[u8], key: &[u8]) -> Result<Tls, TlsError> {
        let wrong = |what, why: &dyn ToString| TlsError {
            what,
            why: why.to_string(),
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca).map_err(|why| wrong("tls.ca", &why))? {
            roots
                .add(certificate)
                .map_err(|why| wrong("tls.ca", &why))?;
        }
        let chain = certificates(chain).map_err(|why| wrong("tls.cert", &why))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|why| wrong("tls.key", &why))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|why| wrong("tls.ca", &why))?;
        let versions = &[&rustls::version::TLS13];
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|why| wrong("tls", &why))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|why| wrong("tls.cert", &why))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|why| wrong("tls", &why))?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain.clone(), key)
            .map_err(|why| wrong("tls.cert", &why))?;
        Ok(Tls {
            server: Arc::new(server),
            client: Arc::new(client),
            roots,
            chain: chain.into(),
        })
    }

    /// What a port that is not the transport's needs to ask for the same certificates.
    #[must_use]
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    pub(crate) fn accept(&self, socket: TcpStream) -> io::Result<TlsStream> {
        let session = ServerConnection::new(self.server.clone()).map_err(io::Error::other)?;
        Ok(TlsStream {
            socket,
            session: session.into(),
        })
    }

    pub(crate) fn dial(&self, socket: TcpStream, node: NodeId) -> io::Result<TlsStream> {
        let name = server_name(node);
        let session = ClientConnection::new(self.client.clone(), name).map_err(io::Error::other)?;
        Ok(TlsStream {
            socket,
            session: session.into(),
        })
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| error.to_string())?;
    if found.is_empty() {
        return Err("no certificate in it".to_owned());
    }
    Ok(found)
}

pub(crate) fn server_name(node: NodeId) -> ServerName<'static> {
    ServerName::try_from(node_name(node)).expect("letters, digits and dots")
}

/// A TLS session and the socket below it.
pub(crate) struct TlsStream {
    pub(crate) socket: TcpStream,
    session: Connection,
}

impl TlsStream {
    /// Reads plain bytes; as a socket does.
    pub(crate) fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(space) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            let processed = self.session.process_new_packets();
            // The other side is told even when its bytes are refused.
            self.push()?;
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }

    /// Appends plain bytes to `frame`, up to its capacity.
    pub(crate) fn read_to(&mut self, frame: &mut Vec<u8>) -> io::Result<usize> {
        let at = frame.len();
        frame.resize(frame.capacity().min(at + RECORD_BYTES), 0);
        let read = self.read(&mut frame[at..]);
        frame.truncate(at + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Takes some of `pieces`, and writes what is sealed.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = self.session.writer().write_vectored(pieces)?;
        self.push()?;
        if taken == 0 {
            taken = self.session.writer().write_vectored(pieces)?;
            self.push()?;
        }
        match taken {
            0 => Err(ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    /// Writes what is sealed, as far as the socket takes it.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether sealed bytes wait for the socket.
    pub(crate) fn is_sealed_waiting(&self) -> bool {
        self.session.wants_write()
    }

    /// Whether the other side's certificate names it as `node`.
    pub(crate) fn is_certified_as(&self, node: NodeId) -> bool {
        let certificate = self.session.peer_certificates().and_then(<[_]>::first);
        let parsed = certificate.and_then(|der| ParsedCertificate::try_from(der).ok());
        parsed.is_some_and(|parsed| verify_server_name(&parsed, &server_name(node)).is_ok())
    }
}
