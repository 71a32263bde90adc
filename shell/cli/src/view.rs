//! `quorate view`: who belongs to a group, in which role, since which slot, and how that changes.

use crate::error::CliError;
use crate::group::GroupArgs;
use crate::leader::{self, MoveLeaderArgs};
use crate::limits;
use crate::print;
use crate::quorums::tolerated;
use crate::seconds;
use crate::status;
use crate::view_change::{self, Change};
use clap::{Args, Subcommand};
use quorate_node::{LimitsStatus, MemberStatus, QuorumsStatus};
use serde::Serialize;
use std::fmt::Write;

/// Show who belongs to a group, and change who votes.
#[derive(Args, Clone, Debug)]
pub(crate) struct ViewArgs {
    #[command(subcommand)]
    command: ViewCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum ViewCommand {
    Show(ShowArgs),
    MoveLeader(MoveLeaderArgs),
    #[command(flatten)]
    Change(Change),
}

/// Print the view in force, as the node tells it that has decided most: its number, the first slot that it governs, and its members.
#[derive(Args, Clone, Debug)]
struct ShowArgs {
    /// Seconds to wait for the answer of each node.
    #[arg(long, default_value_t = 2.0, value_parser = seconds::span, allow_negative_numbers = true)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

/// What scripts read.
#[derive(Serialize)]
struct Shown {
    number: u64,
    first_slot: u64,
    ordering: String,
    quorums: QuorumsStatus,
    limits: LimitsStatus,
    window: u64,
    level: u16,
    members: Vec<MemberStatus>,
}

/// Runs the command.
pub(crate) fn run(args: &ViewArgs, as_json: bool) -> Result<(), CliError> {
    match &args.command {
        ViewCommand::Show(args) => show(args, as_json),
        ViewCommand::MoveLeader(args) => leader::run(args, as_json),
        ViewCommand::Change(change) => view_change::run(change, as_json),
    }
}

fn show(args: &ShowArgs, as_json: bool) -> Result<(), CliError> {
    let access = args.group.read()?;
    let timeout = seconds::duration(args.timeout);
    let view = status::view_of_group(&access.endpoint, timeout, access.tls())?;
    let told = view.ordering.parse().ok().zip(view.counts());
    let told = told.map(|(ordering, quorums)| tolerated(ordering, quorums));
    let shown = Shown {
        number: view.number,
        first_slot: view.first_slot,
        ordering: view.ordering,
        quorums: view.quorums,
        limits: view.limits,
        window: view.window,
        level: view.level,
        members: view.members,
    };
    if !as_json {
        return print::line((table(&shown) + &told.unwrap_or_default()).trim_end());
    }
    let text = serde_json::to_string(&shown)
        .map_err(|error| CliError::failed(format!("the view cannot be written: {error}")))?;
    print::line(text)
}

fn table(view: &Shown) -> String {
    let mut text = format!(
        "view {}, from slot {} on, {}, window {}, level {}\n{:<5} {:<12} {:<18} address\n",
        view.number,
        view.first_slot,
        view.ordering,
        view.window,
        view.level,
        "node",
        "incarnation",
        "roles",
    );
    for member in &view.members {
        let MemberStatus {
            node,
            incarnation,
            roles,
            address,
        } = member;
        let roles = roles.join(" ");
        writeln!(text, "{node:<5} {incarnation:<12} {roles:<18} {address}")
            .expect("a string takes everything");
    }
    text + &limits::told(view.limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_member_below_the_view() {
        let member = |node: u16, roles: &[&str]| MemberStatus {
            node,
            incarnation: format!("{node}a0f"),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            address: format!("10.0.0.{node}:7400"),
        };
        let view = Shown {
            number: 3,
            first_slot: 1025,
            ordering: "paxos".to_owned(),
            quorums: QuorumsStatus::default(),
            limits: LimitsStatus::default(),
            window: 1024,
            level: 20,
            members: vec![
                member(1, &["replica", "acceptor"]),
                member(2, &["acceptor"]),
            ],
        };
        let expected = "\
view 3, from slot 1025 on, paxos, window 1024, level 20
node  incarnation  roles              address
1     1a0f         replica acceptor   10.0.0.1:7400
2     2a0f         acceptor           10.0.0.2:7400
";
        assert_eq!(table(&view), expected);
    }
}
