//! One node: the event loop that joins core, storage, transport and the objects' host.
//!
//! [`run`] takes a [`NodeConfig`] and returns when the node was asked to stop or had to stop. It decides
//! nothing that the core could decide. Only `quorate node run` and tests call it.
#![forbid(unsafe_code)]

mod admin;
mod admin_listener;
mod arguments;
mod awaited_answers;
mod backup_sources;
mod backups;
mod begun_ordering;
mod certificates;
mod client_debt;
mod client_line;
mod client_turns;
mod clock;
mod code_file;
mod config;
mod config_limits;
mod config_members;
mod descriptors;
mod died_file;
mod drift;
mod error;
mod executed_file;
mod first_view;
mod group_directory;
mod group_setup;
mod groups;
mod held_snapshots;
mod host_restore;
mod identify;
mod intake;
mod joining;
mod journal;
mod limits;
mod limits_status;
mod line_diff;
mod mailbox;
mod membership;
mod metrics;
mod multicasting;
mod node;
mod observing;
mod ordering_word;
mod perform;
mod poison_call;
mod quarantine_file;
mod questions;
mod quorums_word;
mod rebuild;
mod recover;
mod refused_opens;
mod restore;
mod rounds;
mod signals;
mod snapshot_thread;
mod snapshots;
mod start;
mod status;
mod stuck_call;
mod survivors;
mod timings;
mod unrecoverable;
mod verify;
mod worker;

pub use arguments::{constructor_arguments, value_of_json};
pub use backups::{AboutGroup, AboutObject, BackupAbout};
pub use certificates::certified_nodes;
pub use code_file::{OtherCode, refuse_other_code};
pub use config::{
    Hex, MemberConfig, NodeConfig, ObjectConfig, PersistConfig, ReadChecksConfig, SandboxConfig,
    SnapshotConfig, TlsConfig,
};
pub use config_limits::{FlowConfig, LimitsConfig};
pub use drift::DriftStatus;
pub use error::NodeError;
pub use group_setup::GroupSetup;
pub use groups::GroupStatus;
pub use identify::LostDirectory;
pub use joining::GroupConfiguration;
pub use limits_status::LimitsStatus;
pub use poison_call::{PoisonCallStatus, UNSAFE_SKIP_LOSES};
pub use quarantine_file::{digest_of_text, hex as digest_text};
pub use rebuild::{NotRebuilt, RebuiltNode, SoundDirectory, rebuild};
pub use recover::recover;
pub use restore::{Restored, restore};
pub use rounds::RoundsReport;
pub use start::run;
pub use status::{Counts, MemberStatus, NodeStatus, PeerLink, QuorumsStatus, ViewStatus};
pub use stuck_call::StuckCallStatus;
pub use survivors::Survivors;
pub use unrecoverable::Unrecoverable;
pub use verify::{
    BodyContent, StartsAs, VerifiedNode, VerifiedSnapshot, content_of, is_node_directory, nodes_of,
    verify_group, verify_node,
};
