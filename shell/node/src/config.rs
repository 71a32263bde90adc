//! `node.toml`: the whole configuration of a node, parsed once. An error names the wrong key.
//!
//! `quorate up` and people write it; only `quorate node run` and `quorate up` read it.

use crate::arguments::constructor_arguments;
use crate::config_members::check_members;
use crate::{LimitsConfig, NodeError, ordering_word, quorums_word};
use quorate_host::{HostConfig, PythonConfig, ReadChecks, Sandbox, UnkeptState};
use quorate_storage::Persist;
use quorate_types::{
    ClusterId, GroupId, Incarnation, Levels, Member, NodeId, ObjectId, ObjectSpec, OrderingName,
    QuorumRule, Slot,
};
use quorate_wire::SPEAKS;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The contents of `node.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// The cluster, 16 hexadecimal digits.
    pub cluster: Hex,
    /// The group.
    #[serde(default = "first_group")]
    pub group: u32,
    /// What clients call the group; the first one of a cluster has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// This node's number, below 64.
    pub node: u16,
    /// Whether the node has no objects: it joined as `acceptor` only. A build without witnesses refuses the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub witness: bool,
    /// The data directory, made by `quorate node init`.
    pub dir: PathBuf,
    /// Where peers and clients connect, `host:port` with a numeric host.
    pub listen: SocketAddr,
    /// Where the admin port listens; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<SocketAddr>,
    /// Whether acknowledged calls survive the loss of power on all nodes.
    #[serde(default)]
    pub persist: PersistConfig,
    /// ω: how many slots may run ahead of the applied ones.
    #[serde(default = "window")]
    pub window: u64,
    /// How the first view orders commands; later ones say it themselves. A build that knows one ordering only refuses the file.
    #[serde(
        default,
        skip_serializing_if = "ordering_word::is_default",
        with = "ordering_word"
    )]
    pub ordering: OrderingName,
    /// The level of the first view; absent: that of its ordering, as all builds take it. A build from before there was this key refuses
    /// the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u16>,
    /// How many acceptors elect a leader and decide in the first view; later ones say it themselves.
    #[serde(
        default,
        skip_serializing_if = "quorums_word::is_default",
        with = "quorums_word"
    )]
    pub quorums: QuorumRule,
    /// Whether other addresses than loopback may be used without TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Nothing is done outside, whatever objects ask for; never in the file.
    #[serde(skip)]
    pub keeps_inside: bool,
    /// The levels that the node speaks, those of its build unless told otherwise; never in the file.
    #[serde(skip, default = "speaks")]
    pub speaks: Levels,
    /// The Python interpreter of the object host; absent: QUORATE_PYTHON, then `python3` beside this program or on PATH.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,
    /// Seconds after which a call or a read that does not return has its host killed; `inf` for never.
    #[serde(default = "call_timeout")]
    pub call_timeout: f64,
    /// Bytes of address space that a host process may use; 0 for as much as there is.
    #[serde(default = "host_memory")]
    pub host_memory: u64,
    /// Packages beside the objects' own whose instances may be kept in the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Whether the host process is confined.
    #[serde(default)]
    pub sandbox: SandboxConfig,
    /// Which reads are checked for having changed nothing.
    #[serde(default)]
    pub check_reads: ReadChecksConfig,
    /// When snapshots are taken.
    #[serde(default)]
    pub snapshot: SnapshotConfig,
    /// Bounds of connections.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// Certificates; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsConfig>,
    /// The objects, in the order of their numbers.
    pub objects: Vec<ObjectConfig>,
    /// All members that the group was made with, this node among them unless it joined later.
    pub members: Vec<MemberConfig>,
    /// Of a node that joined later: the members at that time and itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<MemberConfig>,
    /// And the view in force then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub known_view: u64,
}

/// Whether votes are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PersistConfig {
    /// On disk before they are sent.
    #[default]
    Disk,
    /// In the memory of a majority of running nodes.
    Memory,
}

impl PersistConfig {
    /// The same for the data directory.
    pub fn as_storage(self) -> Persist {
        match self {
            PersistConfig::Disk => Persist::Disk,
            PersistConfig::Memory => Persist::Memory,
        }
    }
}

/// Whether the kernel keeps the host process from files, sockets, signals and programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxConfig {
    /// As far as the kernel can.
    #[default]
    On,
    /// Not at all, for objects that read files.
    Off,
}

/// Which reads of Python objects are checked by comparing their object before and after.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadChecksConfig {
    /// The first of each method, and as many as fit into a hundredth of the time.
    #[default]
    Sample,
    /// All, for tests.
    All,
}

/// When snapshots are taken.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotConfig {
    /// Whether any are; off for objects whose state cannot be encoded.
    pub enabled: bool,
    /// Commands after which one is due.
    pub commands: u64,
    /// Bytes of the log after which one is due.
    pub bytes: u64,
}

/// Where the certificates are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The authority that signed all nodes and clients, PEM.
    pub ca: PathBuf,
    /// This node's certificate chain, PEM.
    pub cert: PathBuf,
    /// Its key, PEM; readable by its owner only.
    pub key: PathBuf,
}

/// An object to replicate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectConfig {
    /// What clients call it.
    pub name: String,
    /// `module:Class`, or `rust:counter` and the like.
    pub class: String,
    /// Constructor arguments as a JSON list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// Constructor keyword arguments as a JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kwargs: Option<String>,
    /// Steps that one of its calls may take: rounds of loops and starts of functions; 0 for as many as it likes.
    #[serde(default = "budget")]
    pub budget: u64,
    /// Directories in which Python looks for the module.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathBuf>,
}

/// A member of the group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberConfig {
    /// Its number.
    pub node: u16,
    /// Its incarnation as `quorate node init` printed it, 16 hexadecimal digits.
    pub incarnation: Hex,
    /// Where peers and clients reach it, `host:port`.
    pub address: String,
    /// Where its admin port is, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<String>,
}

/// A random 64-bit number, written as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hex(pub u64);

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Hex, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u64::from_str_radix(&text, 16)
            .ok()
            .filter(|_| text.len() == 16);
        number.map(Hex).ok_or_else(|| {
            serde::de::Error::custom(format!("\"{text}\" is not 16 hexadecimal digits"))
        })
    }
}

impl Default for SnapshotConfig {
    fn default() -> SnapshotConfig {
        let policy = quorate_replica::CheckpointPolicy::default();
        SnapshotConfig {
            enabled: true,
            commands: policy.commands,
            bytes: policy.bytes,
        }
    }
}

/// An interpreter with a few modules.
const HOST_MEMORY_LEAST: u64 = 128 << 20;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn first_group() -> u32 {
    1
}

fn call_timeout() -> f64 {
    NodeConfig::CALL_TIMEOUT
}

fn host_memory() -> u64 {
    quorate_host::limits::HOST_MEMORY_BYTES
}

fn speaks() -> Levels {
    SPEAKS
}

fn budget() -> u64 {
    quorate_host::limits::BUDGET_STEPS
}

fn window() -> u64 {
    NodeConfig::WINDOW
}

impl NodeConfig {
    /// ω unless told otherwise: deep enough to hide a disk behind a network, small enough that what is
    /// in flight fits in memory with the largest batches.
    pub const WINDOW: u64 = 1024;

    /// Seconds that a call may take unless told otherwise.
    pub const CALL_TIMEOUT: f64 = quorate_host::limits::CALL_TIMEOUT.as_secs() as f64;

    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`NodeError::Config`] with the line or key that is wrong.
    pub fn read(path: &Path) -> Result<NodeConfig, NodeError> {
        let wrong = |reason: String| NodeError::Config {
            path: path.to_owned(),
            reason,
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        NodeConfig::parse(&text).map_err(wrong)
    }

    /// Parses and checks the text of a file.
    ///
    /// # Errors
    /// What is wrong, naming the key.
    pub fn parse(text: &str) -> Result<NodeConfig, String> {
        let config: NodeConfig = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    /// The file's text.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every field has a form in TOML")
    }

    fn check(&self) -> Result<(), String> {
        if self.members.is_empty() {
            return Err("members: a group needs at least one member".to_owned());
        }
        check_members("members", &self.members)?;
        check_members("known", &self.known)?;
        self.check_known()?;
        if self.own_member().is_none() {
            return Err(format!("node: {} is not one of members", self.node));
        }
        if self.objects.is_empty() {
            return Err("objects: a group needs at least one object".to_owned());
        }
        for (index, object) in self.objects.iter().enumerate() {
            if self.objects[..index]
                .iter()
                .any(|other| other.name == object.name)
            {
                return Err(format!(
                    "objects[{index}].name: \"{}\" appears twice",
                    object.name
                ));
            }
            if object.budget > i64::MAX.cast_unsigned() {
                return Err(format!("objects[{index}].budget: takes at most 2^63 - 1"));
            }
            object
                .arguments()
                .map_err(|error| format!("objects[{index}].{error}"))?;
        }
        self.check_first_view()?;
        if self.admin == Some(self.listen) && self.listen.port() != 0 {
            return Err(format!(
                "admin: {} is where the node listens: name another port",
                self.listen
            ));
        }
        if self.window == 0 {
            return Err("window: takes at least 1 slot".to_owned());
        }
        self.limits.check(self.tls.is_some())?;
        if (1..HOST_MEMORY_LEAST).contains(&self.host_memory) {
            return Err(format!(
                "host_memory: takes at least {HOST_MEMORY_LEAST} bytes, which the interpreter needs, or 0 for no limit"
            ));
        }
        if self.call_timeout.is_nan() || self.call_timeout <= 0.0 {
            return Err("call_timeout: takes seconds above 0, or inf for never".to_owned());
        }
        Ok(())
    }

    /// Refuses a listening address that other machines reach, without certificates and without `insecure`: that of the
    /// admin port as well.
    ///
    /// # Errors
    /// What to change.
    pub fn check_exposure(&self) -> Result<(), String> {
        if self.tls.is_some() || self.insecure {
            return Ok(());
        }
        let addresses = [("listen", Some(self.listen)), ("admin", self.admin)];
        let exposed = addresses.into_iter().find_map(|(key, address)| {
            let address = address.filter(|address| !address.ip().is_loopback())?;
            Some((key, address))
        });
        let Some((key, address)) = exposed else {
            return Ok(());
        };
        Err(format!(
            "{key}: {address} is reachable from other machines: name certificates under [tls] (quorate certs makes them), \
             or use --insecure"
        ))
    }

    /// The configuration of the objects' host.
    #[must_use]
    pub fn host_config(&self) -> HostConfig {
        let specs = self.objects.iter().map(ObjectConfig::spec);
        let objects = (0..)
            .zip(specs)
            .map(|(number, spec)| quorate_host::HostedObject {
                id: ObjectId(number),
                name: spec.name,
                class: spec.class,
                arguments: spec.arguments,
            });
        HostConfig {
            objects: objects.collect(),
            python: self.python_config(),
        }
    }

    fn python_config(&self) -> PythonConfig {
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in self.objects.iter().flat_map(|object| &object.path) {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        PythonConfig {
            interpreter: self.python.clone(),
            paths,
            scratch: self.dir.join("scratch"),
            seed: self.cluster.0 ^ u64::from(self.group),
            with_snapshots: self.snapshot.enabled,
            // A span beyond the clock's is as good as never.
            call_timeout: std::time::Duration::try_from_secs_f64(self.call_timeout).ok(),
            read_checks: match self.check_reads {
                ReadChecksConfig::Sample => ReadChecks::Sample,
                ReadChecksConfig::All => ReadChecks::All,
            },
            memory_bytes_max: (self.host_memory > 0).then_some(self.host_memory),
            budgets: (0..)
                .map(ObjectId)
                .zip(self.objects.iter().map(|object| object.budget))
                .collect(),
            allow: self.allow.clone(),
            sandbox: match self.sandbox {
                SandboxConfig::On => Sandbox::On,
                SandboxConfig::Off => Sandbox::Off,
            },
            quiet_upto: Slot::ZERO,
            unkept_state: UnkeptState::default(),
        }
    }

    /// The cluster as the core knows it.
    #[must_use]
    pub fn cluster_id(&self) -> ClusterId {
        ClusterId(self.cluster.0)
    }

    /// The group as the core knows it.
    #[must_use]
    pub fn group_id(&self) -> GroupId {
        GroupId(self.group)
    }

    /// This node as the core knows it.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        NodeId(self.node)
    }
}

impl ObjectConfig {
    fn arguments(&self) -> Result<bytes::Bytes, String> {
        constructor_arguments(self.args.as_deref(), self.kwargs.as_deref())
    }

    pub(crate) fn spec(&self) -> ObjectSpec {
        ObjectSpec {
            name: self.name.clone(),
            class: self.class.clone(),
            arguments: self.arguments().expect("checked when it was read"),
        }
    }
}

impl MemberConfig {
    pub(crate) fn member(&self) -> Member {
        Member {
            node: NodeId(self.node),
            incarnation: Incarnation(self.incarnation.0),
            address: self.address.clone(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One that can be read.
    pub(crate) fn good() -> NodeConfig {
        NodeConfig::parse(GOOD).expect("it is right")
    }

    const GOOD: &str = r#"
        cluster = "00000000000000aa"
        node = 1
        dir = "/var/lib/quorate/1"
        listen = "127.0.0.1:7400"

        [[objects]]
        name = "Account"
        class = "bank:Account"
        args = '["A-1", 100]'

        [[members]]
        node = 1
        incarnation = "0123456789abcdef"
        address = "127.0.0.1:7400"
    "#;

    fn error_of(change: (&str, &str)) -> String {
        NodeConfig::parse(&GOOD.replace(change.0, change.1)).expect_err("it is wrong")
    }

    #[test]
    fn a_written_configuration_reads_back_the_same() {
        let config = NodeConfig::parse(GOOD).expect("it is right");
        assert_eq!(
            NodeConfig::parse(&config.to_toml()).expect("written by us"),
            config
        );
        assert_eq!(config.view().quorums.phase2(), 1);
    }

    #[test]
    fn an_error_names_the_key() {
        assert!(error_of(("node = 1\n        dir", "node = 2\n        dir")).contains("node: 2"));
        assert!(error_of(("dir =", "dri =")).contains("dri"));
        assert!(error_of(("00aa", "00zz")).contains("cluster"));
        assert!(error_of(("100]'", "100'")).contains("objects[0].args"));
        let listen = "listen = \"127.0.0.1:7400\"";
        let twice = format!("{listen}\nadmin = \"127.0.0.1:7400\"");
        assert!(error_of((listen, &twice)).starts_with("admin: 127.0.0.1:7400"));
        assert!(error_of(("1:7400\"\n    ", "1\"\n    ")).contains("members[0].address"));
    }

    #[test]
    fn another_address_than_loopback_needs_certificates_or_the_operators_word() {
        let exposed = GOOD.replace("listen = \"127.0.0.1", "listen = \"10.0.0.1");
        let mut config = NodeConfig::parse(&exposed).expect("it can be read");
        assert!(
            config
                .check_exposure()
                .is_err_and(|text| text.contains("listen"))
        );
        config.insecure = true;
        assert_eq!(config.check_exposure(), Ok(()));
        let mut config = NodeConfig::parse(GOOD).expect("it can be read");
        assert_eq!(config.check_exposure(), Ok(()));
        config.admin = Some("10.0.0.1:7500".parse().expect("it is one"));
        assert!(
            config
                .check_exposure()
                .is_err_and(|text| text.starts_with("admin"))
        );
    }
}
