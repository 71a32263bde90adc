//! The certificates of a group on this machine: made with it, kept in its directory.

use crate::certs;
use crate::error::CliError;
use quorate_client::TlsClient;
use quorate_node::TlsConfig;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a client of the group brings.
pub(super) struct ClientFiles {
    pub(super) ca: PathBuf,
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
    pub(super) client: Arc<TlsClient>,
}

impl ClientFiles {
    /// Those of the group in `dir`.
    pub(super) fn of(dir: &Path) -> Result<ClientFiles, CliError> {
        let [ca, cert, key] = ["ca.pem", "client.pem", "client.key"].map(|name| file(dir, name));
        let client = TlsClient::from_files(&ca, &cert, &key).map_err(CliError::connect)?;
        Ok(ClientFiles {
            ca,
            cert,
            key,
            client: Arc::new(client),
        })
    }

    /// As options of the commands that connect.
    pub(super) fn words(&self) -> String {
        format!(
            "--tls-ca {} --tls-cert {} --tls-key {}",
            self.ca.display(),
            self.cert.display(),
            self.key.display()
        )
    }
}

/// Makes an authority and the certificates of all nodes and of one client.
pub(super) fn make(dir: &Path, nodes: u16) -> Result<(), CliError> {
    let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    certs::make(&dir.join("certs"), nodes, &hosts).map(drop)
}

/// Those of one node.
pub(super) fn node_files(dir: &Path, node: u16) -> TlsConfig {
    TlsConfig {
        ca: file(dir, "ca.pem"),
        cert: file(dir, &format!("node-{node}.pem")),
        key: file(dir, &format!("node-{node}.key")),
    }
}

fn file(dir: &Path, name: &str) -> PathBuf {
    dir.join("certs").join(name)
}
