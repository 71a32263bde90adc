//! `quorate certs`: an authority of one's own, a certificate per node, and one for clients; and certificates of further nodes later.
//!
//! A node's certificate carries its number as a name, so that no other holder of a certificate can
//! pass for it. Keys are readable by their owner only. Nothing that exists is overwritten.

use crate::directory;
use crate::error::CliError;
use crate::print;
use clap::Args;
use quorate_transport::{Tls, node_name};
use quorate_types::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What the authority's files are called.
const AUTHORITY: &str = "ca";

/// Years for which the authority is valid.
const AUTHORITY_YEARS: i32 = 10;

/// Years for which a node's or client's certificate is valid.
const CERTIFICATE_YEARS: i32 = 2;

/// Make an authority and certificates for the nodes and clients of a cluster, or with --node, for one more node.
#[derive(Args, Clone, Debug)]
pub(crate) struct CertsArgs {
    /// The directory for ca.pem, ca.key, node-N.pem, node-N.key, client.pem and client.key.
    #[arg(long)]
    dir: PathBuf,
    /// The number of nodes of a new authority.
    #[arg(long, default_value_t = 3, conflicts_with = "more", value_parser = clap::value_parser!(u16).range(1..64), allow_negative_numbers = true)]
    nodes: u16,
    /// Make the certificate of this node by the authority whose ca.pem and ca.key are in the directory; may be given several times.
    #[arg(long = "node", id = "more", value_name = "NODE", value_parser = clap::value_parser!(u16).range(0..64), allow_negative_numbers = true)]
    more: Vec<u16>,
    /// A name or address under which clients reach nodes; may be given several times.
    #[arg(long = "host", default_values_t = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()])]
    hosts: Vec<String>,
}

pub(crate) fn run(args: &CertsArgs, as_json: bool) -> Result<(), CliError> {
    let written = match args.more.is_empty() {
        true => make(&args.dir, args.nodes, &args.hosts)?,
        false => add(&args.dir, &args.more, &args.hosts)?,
    };
    if as_json {
        print::line(serde_json::json!({"dir": args.dir, "files": written}))?;
    } else {
        for path in written {
            print::line(path.display())?;
        }
    }
    Ok(())
}

/// A certificate and its key, as PEM, under the name of their files.
struct Made {
    name: String,
    pem: String,
    key: String,
}

/// Writes the files of `nodes` nodes and one client below `dir`; their paths.
pub(crate) fn make(dir: &Path, nodes: u16, hosts: &[String]) -> Result<Vec<PathBuf>, CliError> {
    std::fs::create_dir_all(dir).map_err(|error| directory::refused(dir, &error))?;
    let (issuer, pem, key) = authority()?;
    let name = AUTHORITY.to_owned();
    let mut made = vec![Made { name, pem, key }];
    for number in 1..=nodes {
        made.push(of_node(&issuer, number, hosts)?);
    }
    let usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let names = vec!["client.quorate".to_owned()];
    let (pem, key) = certify(&issuer, "quorate client", names, usages)?;
    let name = "client".to_owned();
    made.push(Made { name, pem, key });
    write_all(dir, &made)
}

/// Writes the files of further nodes, signed by the authority in `dir`; their paths.
fn add(dir: &Path, nodes: &[u16], hosts: &[String]) -> Result<Vec<PathBuf>, CliError> {
    let [ca, ca_key] = ["pem", "key"].map(|ending| dir.join(AUTHORITY).with_extension(ending));
    let (ca_pem, key_pem) = (read(&ca)?, read(&ca_key)?);
    let key = KeyPair::from_pem(&key_pem).map_err(|error| {
        CliError::usage(format!("{} is no key in PEM: {error}", ca_key.display()))
    })?;
    let issuer = Issuer::new(authority_params()?, key);
    let mut made = Vec::new();
    for number in nodes.iter().copied().collect::<BTreeSet<u16>>() {
        let node = of_node(&issuer, number, hosts)?;
        let [pem, key] = [&node.pem, &node.key].map(|text| text.as_bytes());
        let tls = Tls::from_pem(ca_pem.as_bytes(), pem, key);
        tls.and_then(|tls| tls.certified_nodes()).map_err(|error| {
            CliError::usage(format!(
                "{} does not sign for {}: {error}; nothing was written",
                ca_key.display(),
                ca.display()
            ))
            .advise("name the --dir in which quorate certs made both")
        })?;
        made.push(node);
    }
    write_all(dir, &made)
}

/// A file of the authority.
fn read(path: &Path) -> Result<String, CliError> {
    let shown = path.display();
    std::fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => CliError::not_found(format!(
            "there is no {shown}: only the authority of a cluster makes certificates for it, with its key"
        ))
        .advise("run it where the authority was made, and copy the node's files from there"),
        ErrorKind::InvalidData => CliError::usage(format!("{shown} is no text, and PEM is")),
        _ => CliError::usage(format!("cannot read {shown}: {error}")),
    })
}

fn of_node(
    issuer: &Issuer<'static, KeyPair>,
    number: u16,
    hosts: &[String],
) -> Result<Made, CliError> {
    let mut names = hosts.to_vec();
    names.push(node_name(NodeId(number)));
    let usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let (pem, key) = certify(issuer, &format!("quorate node {number}"), names, usages)?;
    let name = format!("node-{number}");
    Ok(Made { name, pem, key })
}

fn authority() -> Result<(Issuer<'static, KeyPair>, String, String), CliError> {
    let params = authority_params()?;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    let (pem, key_pem) = (certificate.pem(), key.serialize_pem());
    Ok((Issuer::new(params, key), pem, key_pem))
}

/// What an authority of this command says of itself: who has the key needs no more of it to sign.
fn authority_params() -> Result<CertificateParams, CliError> {
    let mut params = params("quorate authority", Vec::new(), AUTHORITY_YEARS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
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

/// Writes all files, or none where one of them exists; their paths.
fn write_all(dir: &Path, made: &[Made]) -> Result<Vec<PathBuf>, CliError> {
    let files = made.iter().flat_map(|made| {
        [(&made.pem, "pem", 0o644), (&made.key, "key", 0o600)].map(|(text, ending, mode)| {
            let path = dir.join(format!("{}.{ending}", made.name));
            (path, text, mode)
        })
    });
    let files: Vec<(PathBuf, &String, u32)> = files.collect();
    if let Some((there, ..)) = files
        .iter()
        .find(|(path, ..)| path.symlink_metadata().is_ok())
    {
        return Err(exists(there));
    }
    for (path, text, mode) in &files {
        write_new(path, text, *mode)?;
    }
    Ok(files.into_iter().map(|(path, ..)| path).collect())
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), CliError> {
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(path),
        _ => CliError::failed(format!("cannot write {}: {error}", path.display())),
    })
}

fn exists(path: &Path) -> CliError {
    CliError::conflict(format!("{} exists and is not overwritten", path.display())).advise(
        "move the certificates away that are there, or name another --dir; --node NODE makes those of one more node",
    )
}

fn failed(error: rcgen::Error) -> CliError {
    CliError::failed(format!("cannot make a certificate: {error}"))
}
