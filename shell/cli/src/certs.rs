//! `quorate certs`: an authority of one's own, a certificate per node, and one for clients.
//!
//! A node's certificate carries its number as a name, so that no other holder of a certificate can
//! pass for it. Keys are readable by their owner only. Nothing that exists is overwritten.

use crate::directory;
use crate::error::CliError;
use crate::print;
use clap::Args;
use quorate_transport::node_name;
use quorate_types::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Years for which the authority is valid.
const AUTHORITY_YEARS: i32 = 10;

/// Years for which a node's or client's certificate is valid.
const CERTIFICATE_YEARS: i32 = 2;

/// Make an authority and certificates for the nodes and clients of a cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct CertsArgs {
    /// The directory for ca.pem, ca.key, node-N.pem, node-N.key, client.pem and client.key.
    #[arg(long)]
    dir: PathBuf,
    /// The number of nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..64), allow_negative_numbers = true)]
    nodes: u16,
    /// A name or address under which clients reach nodes; may be given several times.
    #[arg(long = "host", default_values_t = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()])]
    hosts: Vec<String>,
}

pub(crate) fn run(args: &CertsArgs, as_json: bool) -> Result<(), CliError> {
    let written = make(&args.dir, args.nodes, &args.hosts)?;
    if as_json {
        print::line(serde_json::json!({"dir": args.dir, "files": written}))?;
    } else {
        for path in written {
            print::line(path.display())?;
        }
    }
    Ok(())
}

/// Writes the files of `nodes` nodes and one client below `dir`; their paths.
pub(crate) fn make(dir: &Path, nodes: u16, hosts: &[String]) -> Result<Vec<PathBuf>, CliError> {
    std::fs::create_dir_all(dir).map_err(|error| directory::refused(dir, &error))?;
    let mut written = Vec::new();
    let mut write = |name: &str, pem: &str, key: &str| -> Result<(), CliError> {
        for (ending, text, mode) in [("pem", pem, 0o644), ("key", key, 0o600)] {
            let path = dir.join(format!("{name}.{ending}"));
            write_new(&path, text, mode)?;
            written.push(path);
        }
        Ok(())
    };
    let (issuer, authority, authority_key) = authority()?;
    write("ca", &authority, &authority_key)?;
    for number in 1..=nodes {
        let mut names = hosts.to_vec();
        names.push(node_name(NodeId(number)));
        let usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let (pem, key) = certify(&issuer, &format!("quorate node {number}"), names, usages)?;
        write(&format!("node-{number}"), &pem, &key)?;
    }
    let usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let (pem, key) = certify(
        &issuer,
        "quorate client",
        vec!["client.quorate".to_owned()],
        usages,
    )?;
    write("client", &pem, &key)?;
    Ok(written)
}

fn authority() -> Result<(Issuer<'static, KeyPair>, String, String), CliError> {
    let mut params = params("quorate authority", Vec::new(), AUTHORITY_YEARS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    let (pem, key_pem) = (certificate.pem(), key.serialize_pem());
    Ok((Issuer::new(params, key), pem, key_pem))
}

fn certify(
    issuer: &Issuer<'static, KeyPair>,
    name: &str,
    names: Vec<String>,
    usages: Vec<ExtendedKeyUsagePurpose>,
) -> Result<(String, String), CliError> {
    let mut params = params(name, names, CERTIFICATE_YEARS)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages;
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, issuer).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn params(name: &str, names: Vec<String>, years: i32) -> Result<CertificateParams, CliError> {
    let mut params = CertificateParams::new(names)
        .map_err(|error| CliError::usage(format!("--host: {error}")))?;
    params.distinguished_name.push(DnType::CommonName, name);
    let year = year()?;
    // The first of January before and after: clocks of machines may differ by days.
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + years + 1, 1, 1);
    Ok(params)
}

fn year() -> Result<i32, CliError> {
    const SECONDS_PER_YEAR: u64 = 31_556_952;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.map_err(|_| CliError::failed("this machine's clock stands before 1970"))?;
    let years = i32::try_from(since.as_secs() / SECONDS_PER_YEAR).expect("a year of four digits");
    Ok(1970 + years)
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), CliError> {
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            CliError::conflict(format!("{} exists and is not overwritten", path.display()))
                .advise("remove the certificates that are there, or name another --dir")
        }
        _ => CliError::failed(format!("cannot write {}: {error}", path.display())),
    })
}

fn failed(error: rcgen::Error) -> CliError {
    CliError::failed(format!("cannot make a certificate: {error}"))
}
