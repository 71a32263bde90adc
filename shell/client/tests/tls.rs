//! Clients against nodes whose certificates are right, wrong, old, or somebody else's.
//!
//! A node here is a thread that seals its connections, says Welcome as the node it claims to be, and
//! gives an empty status.

use bytes::{Bytes, BytesMut};
use quorate_client::{Client, ConnectError, DriverOptions, Endpoint, TlsClient, TlsProblem};
use quorate_types::{ClusterId, GroupId, Incarnation, NodeId, ViewNumber};
use quorate_wire::{Kind, VERSION, Welcome, node_name, put_frame};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

struct Certificate {
    chain: String,
    key: String,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Authority { issuer, pem }
    }

    fn certify(&self, name: &str, until: i32) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let chain = params.signed_by(&key, &self.issuer).unwrap().pem();
        let key = key.serialize_pem();
        Certificate { chain, key }
    }

    fn node(&self, number: u16) -> Certificate {
        self.certify(&node_name(NodeId(number)), 4000)
    }
}

/// The address of a node that shows `certificate` and says to be node `number`.
fn serve(authority: &Authority, certificate: &Certificate, number: u16) -> String {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.chain.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, socket.unwrap());
            let mut out = BytesMut::new();
            put_frame(&mut out, Kind::Welcome, GroupId(1), |body| {
                welcome(number).put(body);
            });
            put_frame(&mut out, Kind::StatusReply, GroupId(1), |_| {});
            // A client that hangs up is what most of these tests are about.
            if stream.write_all(&out).and_then(|()| stream.flush()).is_ok() {
                drop(stream.read_to_end(&mut Vec::new()));
            }
        }
    });
    address
}

fn welcome(number: u16) -> Welcome {
    Welcome {
        version: VERSION,
        cluster: ClusterId(1),
        node: NodeId(number),
        incarnation: Incarnation(1),
        boot: 1,
        group: GroupId(1),
        view: ViewNumber(1),
        members: Vec::new(),
        objects: Vec::new(),
        leader: None,
    }
}

fn files(authority: &Authority, own: &Certificate) -> (tempfile::TempDir, [PathBuf; 3]) {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["ca.pem", "client.pem", "client.key"].map(|name| dir.path().join(name));
    for (path, text) in paths.iter().zip([&authority.pem, &own.chain, &own.key]) {
        std::fs::write(path, text).unwrap();
    }
    (dir, paths)
}

fn client(authority: &Authority, own: &Certificate) -> TlsClient {
    let (_dir, [ca, cert, key]) = files(authority, own);
    TlsClient::from_files(&ca, &cert, &key).unwrap()
}

fn ask(address: &str, tls: Option<&TlsClient>) -> Result<Bytes, ConnectError> {
    quorate_client::node_status(address, GroupId(1), PATIENCE, tls).map(|report| report.status)
}

/// What both the blocking question and the event-driven client say.
fn problem(address: &str, tls: Option<&TlsClient>) -> TlsProblem {
    let Err(ConnectError::Tls { problem, .. }) = ask(address, tls) else {
        panic!("the question was answered, or failed for another reason");
    };
    let endpoint: Endpoint = format!("quorate://{address}").parse().unwrap();
    let options = DriverOptions {
        tls: tls.cloned().map(Arc::new),
        ..DriverOptions::default()
    };
    match Client::connect(&endpoint, options, Some(PATIENCE)) {
        Err(ConnectError::Tls { problem: same, .. }) => assert_eq!(problem, same),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a session was opened"),
    }
    problem
}

#[test]
fn a_node_is_known_by_its_certificate() {
    let authority = Authority::new();
    let own = client(&authority, &authority.certify("client.quorate", 4000));
    let address = serve(&authority, &authority.node(3), 3);
    assert!(ask(&address, Some(&own)).is_ok());
    let address = serve(&authority, &authority.node(3), 2);
    let other = TlsProblem::OtherNode { node: NodeId(2) };
    assert_eq!(problem(&address, Some(&own)), other);
    let address = serve(&authority, &authority.certify("client.quorate", 4000), 1);
    assert_eq!(problem(&address, Some(&own)), TlsProblem::NamesNoNode);
}

#[test]
fn a_node_of_a_foreign_authority_or_with_an_old_certificate_is_not_trusted() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let own = client(&authority, &authority.certify("client.quorate", 4000));
    let address = serve(&authority, &foreign.node(1), 1);
    assert_eq!(problem(&address, Some(&own)), TlsProblem::ForeignAuthority);
    let old = authority.certify(&node_name(NodeId(1)), 2002);
    let address = serve(&authority, &old, 1);
    assert_eq!(problem(&address, Some(&own)), TlsProblem::Expired);
}

#[test]
fn a_node_says_that_it_takes_sealed_connections_only() {
    let authority = Authority::new();
    let address = serve(&authority, &authority.node(1), 1);
    assert_eq!(problem(&address, None), TlsProblem::Wanted);
}

#[test]
fn a_node_that_speaks_no_tls_is_told_from_one_that_died() {
    let authority = Authority::new();
    let own = client(&authority, &authority.certify("client.quorate", 4000));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            // What it reads is no frame, so it ends the connection.
            drop(socket.unwrap().read(&mut [0; 4096]));
        }
    });
    assert_eq!(problem(&address, Some(&own)), TlsProblem::Unspoken);
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let authority = Authority::new();
    let (dir, [ca, cert, key]) = files(&authority, &authority.certify("client.quorate", 4000));
    let unreadable = |ca: &PathBuf, cert: &PathBuf, key: &PathBuf| {
        let Err(ConnectError::Unreadable { path, .. }) = TlsClient::from_files(ca, cert, key)
        else {
            panic!("it was read");
        };
        path
    };
    let absent = dir.path().join("absent.key");
    assert_eq!(unreadable(&ca, &cert, &absent), absent);
    assert_eq!(
        unreadable(&ca, &cert, &cert),
        cert,
        "a certificate is no key"
    );
    assert_eq!(unreadable(&key, &cert, &key), key, "a key is no authority");
    let other = dir.path().join("other.key");
    std::fs::write(&other, authority.node(1).key).unwrap();
    assert_eq!(unreadable(&ca, &cert, &other), other, "another's key");
}
