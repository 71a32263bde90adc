//! The certificates of a node: read for its start, and judged before it wants to become a member.

use crate::{NodeError, TlsConfig};
use quorate_transport::Tls;
use quorate_types::NodeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The nodes that these certificates are good for, as others will judge them.
///
/// # Errors
/// [`NodeError::Tls`] with the file, and why it cannot be used.
pub fn certified_nodes(files: &TlsConfig) -> Result<NodeSet, NodeError> {
    let named = read_certificates(files)?.certified_nodes();
    named.map_err(|error| NodeError::Tls(format!("{error} ({})", files.cert.display())))
}

/// Reads what `[tls]` names. A key that others of this machine can read is refused.
pub(crate) fn read_certificates(files: &TlsConfig) -> Result<Tls, NodeError> {
    let read = |key: &str, path: &Path| {
        std::fs::read(path)
            .map_err(|error| NodeError::Tls(format!("tls.{key}: {}: {error}", path.display())))
    };
    let (ca, cert) = (read("ca", &files.ca)?, read("cert", &files.cert)?);
    let key = read("key", &files.key)?;
    let metadata = std::fs::metadata(&files.key)
        .map_err(|error| NodeError::Tls(format!("tls.key: {}: {error}", files.key.display())))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(NodeError::Tls(format!(
            "tls.key: {} can be read by others: run chmod 600 on it",
            files.key.display()
        )));
    }
    Tls::from_pem(&ca, &cert, &key).map_err(|error| NodeError::Tls(error.to_string()))
}
