//! Endpoints: `quorate://host:port,host:port/Object`, and `quorate://group@host:port/Object`.

use quorate_types::{GroupChange, GroupId};
use std::fmt;

/// Where a group is reached and which of its objects is meant.
///
/// ```
/// use quorate_client::Endpoint;
/// let endpoint: Endpoint = "quorate://127.0.0.1:7400,127.0.0.1:7401/Account".parse()?;
/// assert_eq!(endpoint.addresses, ["127.0.0.1:7400", "127.0.0.1:7401"]);
/// assert_eq!(endpoint.object.as_deref(), Some("Account"));
/// let orders: Endpoint = "quorate://orders@127.0.0.1:7400".parse()?;
/// assert_eq!(orders.group.as_deref(), Some("orders"));
/// # Ok::<(), quorate_client::EndpointError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Addresses to try, `host:port`.
    pub addresses: Vec<String>,
    /// The group's name, where the endpoint names one; else it is the first group of its cluster.
    pub group: Option<String>,
    /// The object's name, where the endpoint names one.
    pub object: Option<String>,
}

/// Why a text is not an endpoint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndpointError {
    /// The scheme is missing, or is not `quorate`.
    #[error("'{0}' is not an endpoint: write quorate://host:port/Object")]
    Scheme(String),
    /// What stands before the `@` names no group.
    #[error(
        "'{0}' is not the name of a group: it has 1 to 64 letters, digits, -, _ and ., the first no ."
    )]
    Group(String),
    /// An address lacks its port, or the port is not a number.
    #[error("'{0}' is not an address: write host:port")]
    Address(String),
    /// The port is a number that no port has.
    #[error("'{0}' is not an address: a port is a number up to 65535")]
    Port(String),
}

impl std::str::FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let rest = text
            .strip_prefix("quorate://")
            .ok_or_else(|| EndpointError::Scheme(text.to_string()))?;
        let (hosts, object) = match rest.split_once('/') {
            Some((hosts, object)) => (hosts, Some(object).filter(|name| !name.is_empty())),
            None => (rest, None),
        };
        let (group, hosts) = match hosts.split_once('@') {
            Some((group, _)) if !GroupChange::is_name(group) => {
                return Err(EndpointError::Group(group.to_string()));
            }
            Some((_, hosts)) if hosts.contains('@') => {
                return Err(EndpointError::Address(hosts.to_string()));
            }
            Some((group, hosts)) => (Some(group), hosts),
            None => (None, hosts),
        };
        let addresses: Vec<String> = hosts.split(',').map(str::to_string).collect();
        for address in &addresses {
            let port = address
                .rsplit_once(':')
                .filter(|(host, _)| !host.is_empty());
            let is_number =
                |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
            match port {
                Some((_, port)) if port.parse::<u16>().is_ok() => {}
                Some((_, port)) if is_number(port) => {
                    return Err(EndpointError::Port(address.clone()));
                }
                Some(_) | None => return Err(EndpointError::Address(address.clone())),
            }
        }
        Ok(Endpoint {
            addresses,
            group: group.map(str::to_string),
            object: object.map(str::to_string),
        })
    }
}

impl Endpoint {
    /// The number of the group.
    #[must_use]
    pub fn group_id(&self) -> GroupId {
        (self.group.as_deref()).map_or(GroupId::FIRST, GroupId::named)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("quorate://")?;
        if let Some(group) = &self.group {
            write!(f, "{group}@")?;
        }
        f.write_str(&self.addresses.join(","))?;
        match &self.object {
            Some(object) => write!(f, "/{object}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_survives_being_printed() {
        for text in [
            "quorate://a:1/X",
            "quorate://a:1,b:2,[::1]:3/Account",
            "quorate://h:9",
            "quorate://orders-2@h:9,i:8/X",
        ] {
            let endpoint: Endpoint = text.parse().expect("it is well formed");
            assert_eq!(endpoint.to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str| text.parse::<Endpoint>().expect_err("it is malformed");
        assert_eq!(
            wrong("http://a:1"),
            EndpointError::Scheme("http://a:1".into())
        );
        assert_eq!(wrong("quorate://a:1,b"), EndpointError::Address("b".into()));
        assert_eq!(wrong("quorate://:1/X"), EndpointError::Address(":1".into()));
        assert_eq!(
            wrong("quorate://a b@a:1"),
            EndpointError::Group("a b".into())
        );
        assert_eq!(wrong("quorate://a:x"), EndpointError::Address("a:x".into()));
        let port = wrong("quorate://a:99999/X");
        assert_eq!(port, EndpointError::Port("a:99999".into()));
        assert!(port.to_string().contains("up to 65535"), "{port}");
    }
}
