//! The certificates that a command brings as a client: three files, or none.

use crate::error::CliError;
use clap::Args;
use quorate_client::TlsClient;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of every command that connects to nodes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TLS, for nodes with certificates (`quorate certs` makes the files)")]
pub(crate) struct TlsArgs {
    /// The authority that signed the nodes' certificates, PEM.
    #[arg(long, env = "QUORATE_TLS_CA", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// This client's certificate chain, PEM.
    #[arg(long, env = "QUORATE_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, env = "QUORATE_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Reads the files; `None` when no file is named.
    pub(crate) fn read(&self) -> Result<Option<Arc<TlsClient>>, CliError> {
        match (&self.tls_ca, &self.tls_cert, &self.tls_key) {
            (None, None, None) => Ok(None),
            (Some(ca), Some(cert), Some(key)) => {
                let read = TlsClient::from_files(ca, cert, key).map_err(CliError::connect)?;
                Ok(Some(Arc::new(read)))
            }
            (_, _, _) => Err(CliError::usage(
                "TLS takes three files: --tls-ca, --tls-cert and --tls-key",
            )),
        }
    }

    /// The same options as words, for a command that runs another.
    pub(crate) fn words(&self) -> Vec<std::ffi::OsString> {
        let named = [
            ("--tls-ca", &self.tls_ca),
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
        ];
        let given = named.into_iter().filter_map(|(option, path)| {
            let path = path.as_ref()?;
            Some([option.into(), path.clone().into_os_string()])
        });
        given.flatten().collect()
    }
}
