//! `quorate view add`, `remove`, `replace`, `set`, `switch`: a group changes who votes, who belongs to it, how far slots may run
//! ahead, and how commands are ordered, while it runs.

mod settings;

use self::settings::{Setting, setting};
use crate::error::CliError;
use crate::group::{GroupAccess, GroupArgs};
use crate::level::LevelPlan;
use crate::limits::LimitPlan;
use crate::ordering::{OrderingArg, OrderingPlan};
use crate::print;
use crate::quorums::{QuorumsPlan, tolerated, voting};
use crate::seconds;
use crate::serving::NewServer;
use crate::status;
use crate::view_deciding::{ANSWER_MAX, perform};
use crate::view_setting::{self, Manner, SettingPlan};
use clap::{Args, Subcommand, ValueEnum};
use quorate_client::Operation;
use quorate_node::{GroupStatus, ViewStatus};
use quorate_types::{FastQuorums, NodeId, NodeSet, OrderingName, Quorums, ViewChange, ViewNumber};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What is changed.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Change {
    /// Let a node vote that does not.
    ///
    /// A node votes in the new view only once it has everything that was decided before it. Majorities of the new acceptors decide
    /// from then on: a group of 4 that was one of 3 stands the loss of one node, as before. Where other quorums were asked for, as many
    /// acceptors as before decide, and one more is needed to elect a leader: see docs/orderings.md.
    Add {
        /// The node, a member of the group.
        node: u16,
        #[command(flatten)]
        how: HowArgs,
    },
    /// Let a member leave the group, or with --role acceptor, only vote no more.
    ///
    /// The node ends and does not start again from its directory. Who is to come instead joins as a new one: quorate node invite,
    /// quorate node join.
    Remove {
        /// The node.
        node: u16,
        #[command(flatten)]
        left: LeftArgs,
        #[command(flatten)]
        how: HowArgs,
    },
    /// Let one node vote instead of another, which leaves, in one change.
    Replace {
        /// The node that leaves the group, or with --role acceptor, only votes no more.
        old: u16,
        /// The node that votes from then on.
        new: u16,
        #[command(flatten)]
        left: LeftArgs,
        #[command(flatten)]
        how: HowArgs,
    },
    /// Change a setting of the view: window=SLOTS, how many slots may run ahead of what the replicas have applied, 1 to 16384;
    /// level=N, what every member must speak; quorums=PHASE1,PHASE2, how many acceptors elect a leader and how many decide; sessions=COUNT,
    /// how many sessions may be open; or replies=BYTES, how much the sessions keep of large replies together.
    ///
    /// Of five acceptors, quorums=4,2 lets calls go on while three are gone, as long as the leader is not one of them; another leader is
    /// elected by four. fast_paxos takes a third number, for fast rounds: quorums=4,2,5. quorums=majority is what every group has at first.
    /// Where more sessions are open than may be from then on, none is closed, and none opened until there are fewer. Large replies that have
    /// no room any more are dropped with the next call: a client that asks for one again is told that it was executed.
    /// A level is set only where all members are up and speak it; see docs/upgrades.md. The command ends when no node asks for another
    /// level any more: with a lower one than before, that is once what was decided at the higher one is in snapshots.
    Set {
        /// For example window=64.
        #[arg(value_name = "NAME=VALUE", value_parser = setting)]
        setting: Setting,
        #[command(flatten)]
        how: HowArgs,
    },
    /// Order commands in another way from then on, while the group runs: see docs/orderings.md.
    ///
    /// Every other ordering than paxos takes a group at level 21, fast_paxos one at level 23 with four acceptors or more: quorate view
    /// set level=23. A group of that level can be switched to and fro.
    Switch {
        /// The ordering from then on.
        #[arg(long, value_enum)]
        ordering: OrderingArg,
        #[command(flatten)]
        how: HowArgs,
    },
}

/// A role that a group can give and take while it runs.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Role {
    /// Votes and remembers.
    Acceptor,
}

/// What a node stops to be.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeftArgs {
    /// What the node is no more; it stays a member then. Default: the node leaves the group.
    #[arg(long, value_enum)]
    role: Option<Role>,
}

/// How it is changed.
///
/// The change is decided like a call, in one slot, and is in force ω slots later. What was decided before stays. Of two changes of one
/// view the first one counts, and the other is refused. The command ends when the new view is in force.
#[derive(Args, Clone, Debug)]
pub(crate) struct HowArgs {
    /// Only say what would change, and which of the new acceptors are up.
    #[arg(long)]
    dry_run: bool,
    /// Change it although so few of the new acceptors are up that the loss of one of them stops the group.
    #[arg(long)]
    force: bool,
    /// Seconds to wait until the new view is in force.
    #[arg(long, default_value_t = 30.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

impl Change {
    fn how(&self) -> &HowArgs {
        match self {
            Change::Add { how, .. }
            | Change::Remove { how, .. }
            | Change::Replace { how, .. }
            | Change::Set { how, .. }
            | Change::Switch { how, .. } => how,
        }
    }

    /// Who votes that may be no member yet.
    fn comes(&self) -> Option<u16> {
        match self {
            Change::Add { node, .. } => Some(*node),
            Change::Replace { new, .. } => Some(*new),
            Change::Remove { .. } | Change::Set { .. } | Change::Switch { .. } => None,
        }
    }

    /// Who is no member any more.
    fn leaves(&self) -> Option<u16> {
        match self {
            Change::Remove { node, left, .. } if left.role.is_none() => Some(*node),
            Change::Replace { old, left, .. } if left.role.is_none() => Some(*old),
            Change::Add { .. }
            | Change::Remove { .. }
            | Change::Replace { .. }
            | Change::Set { .. }
            | Change::Switch { .. } => None,
        }
    }
}

/// A change, and what is known before it.
#[derive(Debug)]
struct Plan {
    number: u64,
    before: BTreeSet<u16>,
    after: BTreeSet<u16>,
    up: BTreeSet<u16>,
    window: (u64, u64),
    ordering: OrderingName,
    /// Those before the change, and those that follow.
    quorums: (Quorums, Quorums),
    leaves: Option<u16>,
    /// Who executes before the change.
    replicas: BTreeSet<u16>,
    /// Who begins to serve the group first, because it is no member yet.
    joins: Option<u16>,
    /// The other groups that the leaving node serves.
    serves: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(change: &Change, as_json: bool) -> Result<(), CliError> {
    let how = change.how();
    let access = how.group.read()?;
    let manner = Manner {
        is_dry: how.dry_run,
        is_forced: how.force,
        as_json,
        timeout: seconds::duration(how.timeout),
    };
    let set = |plan: &dyn SettingPlan| view_setting::run(plan, &access, manner);
    match change {
        Change::Set { setting, .. } => match *setting {
            Setting::Level(level) => return set(&LevelPlan::read(level, &access)?),
            Setting::Quorums(rule) => return set(&QuorumsPlan::read(rule, &access)?),
            Setting::Limit(limit) => return set(&LimitPlan::read(limit, &access)?),
            Setting::Window(_) => {}
        },
        Change::Switch { ordering, .. } => {
            return set(&OrderingPlan::read(ordering.name(), &access)?);
        }
        Change::Add { .. } | Change::Remove { .. } | Change::Replace { .. } => {}
    }
    let until = Instant::now() + seconds::duration(how.timeout);
    let joins = change.comes().map(|node| NewServer::find(&access, node));
    let joins = joins.transpose()?.flatten();
    let mut plan = Plan::read(change, &access, joins.as_ref())?;
    if how.dry_run {
        return plan.tell(as_json);
    }
    plan.check(how.force)?;
    if let Some(server) = joins {
        server.join(&access, until)?;
        plan = Plan::read(change, &access, None)?;
        plan.check(how.force)?;
    }
    let number = plan.number + 1;
    let slot = plan.perform(&access, until.saturating_duration_since(Instant::now()))?;
    if as_json {
        print::line(json!({
            "number": number, "first_slot": slot, "acceptors": plan.after, "window": plan.window.1, "left": plan.leaves,
            "tolerates": plan.told(),
        }))
    } else if plan.is_worth_telling() {
        let told = plan.told();
        print::line(format!(
            "view {number} is in force from slot {slot}: {told}"
        ))
    } else {
        print::line(format!("view {number} is in force from slot {slot}"))
    }
}

impl Plan {
    fn read(
        change: &Change,
        access: &GroupAccess,
        joins: Option<&NewServer>,
    ) -> Result<Plan, CliError> {
        let document = status::of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
        let view = status::view_in(&document)?;
        let up = voting(&document).into_iter();
        let joins = joins.map(|server| server.node);
        let mut plan = Plan::new(change, &view, (up.chain(joins).collect(), joins))?;
        let groups: Vec<GroupStatus> = serde_json::from_value(document["groups"].clone())
            .map_err(|error| CliError::failed(format!("the groups of a node: {error}")))?;
        if let Some(node) = plan.leaves {
            let named =
                |group: &GroupStatus| group.nodes.iter().chain(&group.later).any(|n| *n == node);
            // A group of which nobody answers may have it still.
            let is_member = |group: &GroupStatus| {
                let of = access.of_group(Some(&group.name));
                let view = status::view_of_group(&of.endpoint, ANSWER_MAX, of.tls());
                view.map_or(true, |view| view.members.iter().any(|m| m.node == node))
            };
            let served = groups
                .into_iter()
                .filter(|group| named(group) && is_member(group));
            plan.serves = served.map(|group| group.name).collect();
        }
        Ok(plan)
    }

    fn new(
        change: &Change,
        view: &ViewStatus,
        (up, joins): (BTreeSet<u16>, Option<u16>),
    ) -> Result<Plan, CliError> {
        let members = view.members.iter().map(|member| member.node);
        let members: BTreeSet<u16> = members.chain(joins).collect();
        let before: BTreeSet<u16> = view.acceptors.iter().copied().collect();
        let quorums = view.counts().ok_or_else(|| {
            CliError::failed(format!(
                "the quorums of view {} are not known here",
                view.number
            ))
        })?;
        let mut plan = Plan {
            ordering: view.ordering.parse().unwrap_or_default(),
            quorums: (quorums, quorums),
            number: view.number,
            after: before.clone(),
            before,
            up,
            window: (view.window, view.window),
            leaves: change.leaves(),
            joins,
            serves: Vec::new(),
            replicas: view.replicas.iter().copied().collect(),
        };
        match change {
            Change::Add { node, .. } => plan.add(*node, &members)?,
            Change::Remove { node, .. } => plan.remove(*node, &members)?,
            Change::Replace { old, new, .. } if old == new => {
                let what = format!("node {old} cannot take its own place: nothing has changed");
                return Err(CliError::usage(what).advise("name two nodes; a machine that lost its disk comes back by itself: docs/views.md"));
            }
            Change::Replace { old, new, .. } => {
                plan.find(*old, &members)?;
                plan.add(*new, &members)?;
                plan.remove(*old, &members)?;
            }
            Change::Set {
                setting: Setting::Level(_) | Setting::Quorums(_) | Setting::Limit(_),
                ..
            }
            | Change::Switch { .. } => unreachable!("they have plans of their own"),
            Change::Set {
                setting: Setting::Window(window),
                ..
            } => {
                plan.window.1 = *window;
                if *window == view.window {
                    return Err(CliError::usage(format!(
                        "view {} has this window: there is nothing to change",
                        view.number
                    )));
                }
            }
        }
        let next = quorums.after(plan.after.len());
        plan.quorums.1 = next.map_err(|why| {
            CliError::conflict(format!("{why}: nothing has changed")).advise(
                "ask for other quorums first, for example: quorate view set quorums=majority",
            )
        })?;
        Ok(plan)
    }

    fn add(&mut self, node: u16, members: &BTreeSet<u16>) -> Result<(), CliError> {
        self.find(node, members)?;
        if self.after.insert(node) {
            return Ok(());
        }
        let votes = format!("node {node} votes in view {} already", self.number);
        Err(CliError::conflict(votes))
    }

    fn remove(&mut self, node: u16, members: &BTreeSet<u16>) -> Result<(), CliError> {
        self.find(node, members)?;
        if !self.after.remove(&node) && self.leaves.is_none() {
            let votes = format!("node {node} does not vote in view {}", self.number);
            return Err(CliError::conflict(votes));
        }
        if self.after.is_empty() {
            return Err(CliError::conflict(format!(
                "node {node} is the last one that votes: without it nothing is decided"
            ))
            .advise("let another node vote first: quorate view add NODE"));
        }
        let mut executing = self.after.intersection(&self.replicas);
        if !executing.any(|left| Some(*left) != self.leaves) {
            return Err(CliError::conflict(format!(
                "without node {node} only witnesses would vote, and nobody could lead or execute: nothing has changed"
            ))
            .advise("let another replica vote first: quorate node join, quorate view add NODE"));
        }
        Ok(())
    }

    fn find(&self, node: u16, members: &BTreeSet<u16>) -> Result<(), CliError> {
        if members.contains(&node) {
            return Ok(());
        }
        let members: Vec<String> = members.iter().map(u16::to_string).collect();
        Err(CliError::not_found(format!(
            "node {node} is no member of the group; members are {}",
            members.join(", ")
        ))
        .advise("name a member: `quorate view show`; a new one joins first: quorate node join"))
    }

    /// Has the change decided, and returns the first slot of the new view. While the view before is not yet over, it asks again.
    fn perform(&self, access: &GroupAccess, timeout: Duration) -> Result<u64, CliError> {
        let change = ViewChange {
            after: ViewNumber(self.number),
            acceptors: self.after.iter().copied().map(NodeId).collect::<NodeSet>(),
            window: self.window.1,
        };
        let leaves = self.leaves.map(NodeId);
        perform(
            access,
            timeout,
            (self.number, &Operation::ChangeView { change, leaves }),
        )
    }

    /// How many acceptors must be up: the next view elects a leader, and decides.
    fn needed(&self) -> usize {
        self.quorums.1.both()
    }

    /// What the group tolerates then.
    fn told(&self) -> String {
        tolerated(self.ordering, self.quorums.1)
    }

    /// Whether the change leaves the group with other quorums than one would think of.
    fn is_worth_telling(&self) -> bool {
        let fast = FastQuorums::of(self.quorums.1);
        let is_spent = self.ordering == OrderingName::FastPaxos && fast.faults() == 0;
        self.quorums.0.is_asked() && self.quorums.0 != self.quorums.1 || is_spent
    }

    fn up_after(&self) -> usize {
        self.after.intersection(&self.up).count()
    }

    /// What the change leaves, where that is too little.
    fn warning(&self) -> Option<String> {
        if let (Some(node), false) = (self.leaves, self.serves.is_empty()) {
            let (groups, lose) = match self.serves.len() {
                1 => ("group", "loses"),
                _ => ("groups", "lose"),
            };
            let names = self.serves.join(", ");
            return Some(format!(
                "node {node} serves the {groups} {names} too, which {lose} it"
            ));
        }
        let (up, all) = (self.up_after(), self.after.len());
        let is_small = all <= 2 && up == all;
        // Where the same nodes vote, no more are lost than before.
        let stays = self.after == self.before && self.quorums.0 == self.quorums.1;
        let is_enough = match is_small || stays {
            true => up >= self.needed(),
            false => up > self.needed(),
        };
        (!is_enough).then(|| {
            format!(
                "this leaves {up} of {all} acceptors up, of which {} are needed",
                self.needed()
            )
        })
    }

    fn check(&self, is_forced: bool) -> Result<(), CliError> {
        let Some(warning) = self.warning() else {
            return Ok(());
        };
        if self.up_after() < self.needed() {
            return Err(CliError::conflict(format!(
                "{warning}: refused, the group would stop; nothing has changed"
            ))
            .advise("start the nodes first, or name others"));
        }
        if is_forced {
            return Ok(());
        }
        if !self.serves.is_empty() {
            return Err(CliError::conflict(format!(
                "{warning}: refused, nothing has changed"
            ))
            .advise(format!(
                "move each to another node first: quorate view replace {} NEW --group {}; or say --force",
                self.leaves.unwrap_or_default(),
                self.serves[0]
            )));
        }
        Err(CliError::conflict(format!(
            "{warning}: refused, the loss of one more stops the group; nothing has changed"
        ))
        .advise("start the other nodes first, or say --force"))
    }

    fn tell(&self, as_json: bool) -> Result<(), CliError> {
        let joins: Vec<u16> = self.after.difference(&self.before).copied().collect();
        let leaves: Vec<u16> = self.before.difference(&self.after).copied().collect();
        if as_json {
            return print::line(json!({
                "after": self.number, "acceptors": self.after, "join": joins, "leave": leaves,
                "up": self.after.intersection(&self.up).collect::<Vec<_>>(), "needed": self.needed(), "tolerates": self.told(),
                "window": self.window.1, "leaves": self.leaves, "serves": self.joins, "warning": self.warning(),
            }));
        }
        let list = |nodes: &mut dyn Iterator<Item = &u16>| {
            nodes.map(u16::to_string).collect::<Vec<_>>().join(", ")
        };
        let mut text = format!(
            "view {} would follow view {}: acceptors {}",
            self.number + 1,
            self.number,
            list(&mut self.after.iter())
        );
        for (says, nodes) in [("also", joins), ("no more", leaves)] {
            if !nodes.is_empty() {
                text = format!("{text}; {says} {}", list(&mut nodes.iter()));
            }
        }
        if let Some(node) = self.joins {
            text = format!("{text}; node {node} begins to serve the group first");
        }
        if let Some(node) = self.leaves {
            text = format!("{text}; node {node} leaves the group for good");
        }
        text = format!(
            "{text}; window {}; {} of {} acceptors up, {} needed",
            self.window.1,
            self.up_after(),
            self.after.len(),
            self.needed(),
        );
        if self.quorums.0 != self.quorums.1 || self.is_worth_telling() {
            text = format!("{text}; {}", self.told());
        }
        if let Some(warning) = self.warning() {
            let unless = match self.up_after() < self.needed() {
                true => "refused, the group would stop",
                false => "refused without --force",
            };
            text = format!("{text}\n{warning}: {unless}");
        }
        print::line(text)
    }
}

#[cfg(test)]
mod tests;
