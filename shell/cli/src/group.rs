//! The group that a command is about: where its nodes are, and what this client shows them.

use crate::error::CliError;
use crate::groups;
use crate::tls::TlsArgs;
use crate::unserved;
use clap::Args;
use quorate_client::{Client, DriverOptions, Endpoint, TlsClient};
use quorate_node::NodeConfig;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The endpoint of commands that name none.
pub(crate) const USUAL_ENDPOINT: &str = "quorate://127.0.0.1:7400";

/// Options of every command about a group that runs.
#[derive(Args, Clone, Debug)]
pub(crate) struct GroupArgs {
    /// The group, for example quorate://127.0.0.1:7400.
    #[arg(long, env = "QUORATE_ENDPOINT", default_value = USUAL_ENDPOINT)]
    endpoint: String,
    /// A further group of the cluster, by its name. The same as --endpoint quorate://NAME@...
    #[arg(long = "group", value_name = "NAME")]
    group_name: Option<String>,
    #[command(flatten)]
    tls: TlsArgs,
}

/// A group as its options name it. No node was asked yet.
pub(crate) struct GroupAccess {
    /// Where its nodes are.
    pub(crate) endpoint: Endpoint,
    tls: Option<Arc<TlsClient>>,
}

impl GroupArgs {
    /// The paths of the certificates, of a node that shows others the same ones: authority, chain and key.
    pub(crate) fn tls_files(&self) -> Result<Option<[PathBuf; 3]>, CliError> {
        self.tls.read()?;
        let TlsArgs {
            tls_ca,
            tls_cert,
            tls_key,
        } = self.tls.clone();
        Ok(tls_ca
            .zip(tls_cert)
            .zip(tls_key)
            .map(|((ca, cert), key)| [ca, cert, key]))
    }

    /// Reads the endpoint and the certificates.
    pub(crate) fn read(&self) -> Result<GroupAccess, CliError> {
        let mut endpoint: Endpoint = self.endpoint.parse().map_err(CliError::endpoint)?;
        if let Some(name) = &self.group_name {
            let name = groups::named(name)?;
            if let Some(other) = endpoint.group.filter(|other| *other != name) {
                let text = format!("--endpoint names the group {other}, and --group {name}");
                return Err(CliError::usage(text).advise("leave one of them out"));
            }
            endpoint.group = Some(name);
        }
        Ok(GroupAccess {
            endpoint,
            tls: self.tls.read()?,
        })
    }
}

impl GroupAccess {
    /// A group of one node.
    pub(crate) fn of_node(address: &str, tls: Arc<TlsClient>) -> Result<GroupAccess, CliError> {
        let endpoint = format!("quorate://{address}");
        Ok(GroupAccess {
            endpoint: endpoint.parse().map_err(CliError::endpoint)?,
            tls: Some(tls),
        })
    }

    /// A group that a node asks which is a member, with its own certificates.
    pub(crate) fn of_member(endpoint: &str, config: &NodeConfig) -> Result<GroupAccess, CliError> {
        let tls = config.tls.as_ref();
        let tls = tls.map(|files| TlsClient::from_files(&files.ca, &files.cert, &files.key));
        Ok(GroupAccess {
            endpoint: endpoint.parse().map_err(CliError::endpoint)?,
            tls: tls.transpose().map_err(CliError::connect)?.map(Arc::new),
        })
    }

    /// Another group of the same cluster: the first one, or the one of this name.
    pub(crate) fn of_group(&self, name: Option<&str>) -> GroupAccess {
        GroupAccess {
            endpoint: Endpoint {
                group: name.map(str::to_owned),
                object: None,
                ..self.endpoint.clone()
            },
            tls: self.tls.clone(),
        }
    }

    /// The certificates, if there are any.
    pub(crate) fn tls(&self) -> Option<&TlsClient> {
        self.tls.as_deref()
    }

    /// A client of the group. It may take as long to connect as each of its calls may.
    pub(crate) fn connect(&self, timeout: Duration) -> Result<Client, CliError> {
        self.connected(timeout, false)
    }

    /// One that waits for no session, for reads of any state and requests of operators.
    pub(crate) fn connect_for_any_state(&self, timeout: Duration) -> Result<Client, CliError> {
        self.connected(timeout, true)
    }

    fn connected(&self, timeout: Duration, is_for_any_state: bool) -> Result<Client, CliError> {
        let options = DriverOptions {
            timeout,
            is_for_any_state,
            tls: self.tls.clone(),
            ..DriverOptions::default()
        };
        Client::connect(&self.endpoint, options, Some(timeout))
            .map_err(|error| unserved::told_of(error, &self.endpoint, self.tls()))
    }
}
