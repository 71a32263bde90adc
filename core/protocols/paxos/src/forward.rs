//! Commands submitted at a node that does not lead, until they are decided or refused.
//!
//! Each command is kept here, forwarded to the leader, and forwarded again when leadership or the link
//! changes. Sessions make it harmless to order a command twice. If no answer says what became of a
//! command, it is refused only as unknown. Forwards are numbered, and a leader accepts each number once,
//! so that "returned" is certain.

use crate::leader::{Leader, LeaderStage};
use crate::message::{Forward, Message, Returned};
use crate::{MultiPaxos, Part, Seat};
use quorate_acceptor::{Fate, Source};
use quorate_ordering::{Effect, Effects, Lane};
use quorate_types::{Ballot, Batch, Command, CommandId, NodeId, NodeSet, Refusal, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, PartialEq, Debug)]
struct Kept {
    command: Command,
    /// The forward that carries it, and when that was sent.
    sent: Option<(u64, Time)>,
    /// An earlier proposal or forward may still be decided.
    is_uncertain: bool,
    deadline: Time,
}

/// Submissions that are neither decided nor refused.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Submissions {
    /// By id; the ids of one node's commands are unique.
    kept: BTreeMap<CommandId, Kept>,
    /// Ids to forward at the end of the turn.
    unsent: Vec<CommandId>,
    /// Deadlines in ascending order; those of settled commands are skipped.
    deadlines: VecDeque<(Time, CommandId)>,
    bytes: usize,
    number: u64,
    resend_at: Time,
}

impl Submissions {
    /// Numbers rise over restarts because `boot` does.
    pub(crate) fn new(boot: u64) -> Submissions {
        Submissions {
            kept: BTreeMap::new(),
            unsent: Vec::new(),
            deadlines: VecDeque::new(),
            bytes: 0,
            number: boot << 32,
            resend_at: Time(0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    fn take(&mut self, id: CommandId) -> Option<Kept> {
        let kept = self.kept.remove(&id)?;
        self.bytes -= kept.command.weight();
        Some(kept)
    }

    fn commands(&self) -> impl Iterator<Item = &Command> {
        self.kept.values().map(|kept| &kept.command)
    }

    /// Takes the commands that are wanted.
    fn take_all(&mut self, is_wanted: impl Fn(&Command) -> bool) -> Vec<Kept> {
        let kept = self.kept.values();
        let wanted = kept.filter(|kept| is_wanted(&kept.command));
        let wanted: Vec<CommandId> = wanted.map(|kept| kept.command.id).collect();
        let taken = wanted.into_iter().filter_map(|id| self.take(id)).collect();
        self.deadlines.retain(|(_, id)| self.kept.contains_key(id));
        self.unsent.clear();
        taken
    }

    /// Takes everything: another view orders it.
    pub(crate) fn leave(&mut self) -> Vec<Command> {
        let kept = self.take_all(|_| true);
        kept.into_iter().map(|kept| kept.command).collect()
    }

    pub(crate) fn wake_at(&self) -> Option<Time> {
        let (deadline, _) = self.deadlines.front()?;
        Some((*deadline).min(self.resend_at))
    }

    pub(crate) fn check(&self) {
        let bytes: usize = self.kept.values().map(|kept| kept.command.weight()).sum();
        assert_eq!(bytes, self.bytes, "kept bytes are counted");
        assert!(
            self.deadlines.len() >= self.kept.len(),
            "every kept command has a deadline"
        );
    }
}

/// Numbers of forwards accepted from one node. One that others overtook is accepted too, while it is among
/// the 64 numbers below the highest; older ones count as accepted, and their commands are forwarded again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AcceptedForwards {
    highest: u64,
    /// Bit `i` stands for `highest - 1 - i`.
    below: u64,
}

impl AcceptedForwards {
    /// Says whether `number` is accepted for the first time.
    pub(crate) fn accept(&mut self, number: u64) -> bool {
        if number > self.highest {
            let passed = number - self.highest;
            let shifted = u32::try_from(passed).ok();
            let kept = shifted.and_then(|by| self.below.checked_shl(by));
            let highest = shifted.and_then(|by| 1_u64.checked_shl(by - 1));
            self.below = kept.unwrap_or(0) | highest.unwrap_or(0);
            self.highest = number;
            return true;
        }
        let Some(offset) = (self.highest - number).checked_sub(1) else {
            return false;
        };
        let bit = u32::try_from(offset)
            .ok()
            .and_then(|offset| 1_u64.checked_shl(offset));
        let is_new = bit.is_some_and(|bit| self.below & bit == 0);
        self.below |= bit.unwrap_or(0);
        is_new
    }
}

impl MultiPaxos {
    pub(crate) fn submit(
        &mut self,
        now: Time,
        commands: Vec<Command>,
        fate: Fate,
        effects: &mut Effects<Message>,
    ) {
        let limits = &self.seat.config.limits;
        let mut commands = commands;
        let full = match fate {
            Fate::Unproposed => Refusal::Overloaded,
            Fate::Open => Refusal::Unknown,
        };
        if !self.seat.spreads()
            && let Part::Leader(leader) = &mut self.part
            && leader.stage == LeaderStage::Steady
        {
            // A copy of what another node forwarded is kept: if this node loses its ballot, that one may go elsewhere.
            let (copies, fresh) = leader.part(commands);
            commands = copies;
            if leader.queue.has_room(limits) {
                leader.enqueue(Source::Own(fate), fresh);
            } else {
                let fresh = fresh.iter().map(|command| command.id);
                refuse(fresh, full, effects);
            }
            if commands.is_empty() {
                return;
            }
        }
        let is_full = self.seat.forward.kept.len() >= limits.queue_commands
            || self.seat.forward.bytes >= limits.queue_bytes;
        if is_full {
            let fresh = commands.iter().map(|command| command.id);
            let fresh = fresh.filter(|id| !self.seat.forward.kept.contains_key(id));
            refuse(fresh, full, effects);
            return;
        }
        self.seat.keep(now, commands, fate);
    }

    pub(crate) fn on_forward(
        &mut self,
        from: NodeId,
        Forward {
            ballot,
            number,
            commands,
        }: Forward,
        effects: &mut Effects<Message>,
    ) {
        let Some(peer) = self.seat.peers.find_mut(from) else {
            return;
        };
        if !peer.forwarded.accept(number) {
            return;
        }
        let (commands, refusal) = match &mut self.part {
            Part::Leader(leader) if leader.ballot == ballot => {
                // Whoever forwarded a copy keeps the command until it is decided, or forwards it to the next leader.
                let (_, fresh) = leader.part(commands);
                if fresh.is_empty() {
                    return;
                }
                if leader.queue.has_room(&self.seat.config.limits) {
                    let node = from;
                    leader.enqueue(Source::Forwarded { node, number }, fresh);
                    return;
                }
                (fresh, Refusal::Overloaded)
            }
            Part::Leader(_) | Part::Candidate(_) | Part::Follower => {
                let is_own =
                    ballot.node == self.seat.config.own && ballot.boot == self.seat.config.boot;
                let refusal = if is_own {
                    Refusal::NotOrdered
                } else {
                    Refusal::Unknown
                };
                (commands, refusal)
            }
        };
        let commands = commands.iter().map(|command| command.id).collect();
        let message = Message::Returned(Returned {
            number,
            commands,
            refusal,
        });
        self.seat
            .send(NodeSet::only(from), Lane::Normal, message, effects);
    }
}

impl Leader {
    /// Parts copies of commands that wait here or are in flight from the rest.
    fn part(&self, commands: Vec<Command>) -> (Vec<Command>, Vec<Command>) {
        self.held.part(commands, self.waiting())
    }

    /// All commands that wait for a slot or are in flight.
    fn waiting(&self) -> impl Iterator<Item = &Command> {
        let proposed = self.in_flight.iter();
        let proposed = proposed.flat_map(|proposal| proposal.batch.commands());
        self.queue.commands().chain(proposed)
    }

    pub(crate) fn check_held(&self) {
        self.held.check(self.waiting());
    }

    /// This node leads and everything of earlier ballots is decided: proposes all kept commands of which no copy waits.
    pub(crate) fn adopt_outstanding(&mut self, seat: &mut Seat, effects: &mut Effects<Message>) {
        seat.deliver(effects);
        if seat.spreads() {
            // Every value that a quorum holds is proposed by its name, those of this node among them.
            seat.spreading.begin_naming(seat.stable_at());
            return;
        }
        let originals = (self.held).originals(seat.forward.commands(), self.waiting());
        let copies: BTreeSet<CommandId> = (seat.forward.commands())
            .filter(|command| originals.has(command))
            .map(|command| command.id)
            .collect();
        let kept = seat
            .forward
            .take_all(|command| !copies.contains(&command.id));
        let is_open = |kept: &Kept| kept.is_uncertain || kept.sent.is_some();
        let (uncertain, certain): (Vec<Kept>, Vec<Kept>) = kept.into_iter().partition(is_open);
        for (fate, kept) in [(Fate::Open, uncertain), (Fate::Unproposed, certain)] {
            let commands = kept.into_iter().map(|kept| kept.command).collect();
            self.enqueue(Source::Own(fate), commands);
        }
    }
}

impl Seat {
    /// Keeps commands until they are decided or expire; forwards them at the end of the turn.
    pub(crate) fn keep(&mut self, now: Time, commands: Vec<Command>, fate: Fate) {
        let is_uncertain = fate == Fate::Open;
        let deadline = now + self.config.timing.submit;
        if self.forward.deadlines.is_empty() {
            self.forward.resend_at = now + self.config.timing.election_min;
        }
        for command in commands {
            let id = command.id;
            if let Some(kept) = self.forward.kept.get_mut(&id) {
                kept.is_uncertain |= is_uncertain;
                continue;
            }
            self.forward.bytes += command.weight();
            self.forward.unsent.push(id);
            self.forward.deadlines.push_back((deadline, id));
            let sent = None;
            self.forward.kept.insert(
                id,
                Kept {
                    command,
                    sent,
                    is_uncertain,
                    deadline,
                },
            );
        }
    }

    /// The end of a turn: sends unsent commands to the leader, if one is known.
    pub(crate) fn forward_unsent(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.forward.unsent.is_empty() || self.spreads_own() {
            return;
        }
        let Some(ballot) = self.election.leader else {
            return;
        };
        let mut commands = Vec::new();
        let mut weight = 0;
        for id in std::mem::take(&mut self.forward.unsent) {
            let next_number = self.forward.number + 1;
            let Some(kept) = self.forward.kept.get_mut(&id) else {
                continue;
            };
            kept.sent = Some((next_number, now));
            weight += kept.command.weight();
            commands.push(kept.command.clone());
            let limits = &self.config.limits;
            if commands.len() >= limits.batch_commands || weight >= limits.batch_bytes {
                weight = 0;
                self.forward_batch(ballot, std::mem::take(&mut commands), effects);
            }
        }
        if !commands.is_empty() {
            self.forward_batch(ballot, commands, effects);
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.forward.unsent.is_empty()
    }

    /// The next commands that are spread together, under this number: as many as fit a batch.
    pub(crate) fn next_unsent(&mut self, now: Time, number: u64) -> Vec<Command> {
        let limits = &self.config.limits;
        let (mut commands, mut weight) = (Vec::new(), 0);
        let mut taken = 0;
        for id in &self.forward.unsent {
            if let Some(kept) = self.forward.kept.get_mut(id) {
                let more = kept.command.weight();
                let is_large = more >= limits.large_bytes;
                let is_full = is_large || weight + more > limits.batch_bytes;
                if !commands.is_empty() && (is_full || commands.len() >= limits.batch_commands) {
                    break;
                }
                kept.sent = Some((number, now));
                weight += more;
                commands.push(kept.command.clone());
                if is_large {
                    taken += 1;
                    break;
                }
            }
            taken += 1;
        }
        self.forward.unsent.drain(..taken);
        commands
    }

    fn forward_batch(
        &mut self,
        ballot: Ballot,
        commands: Vec<Command>,
        effects: &mut Effects<Message>,
    ) {
        self.forward.number += 1;
        let message = Message::Forward(Forward {
            ballot,
            number: self.forward.number,
            commands,
        });
        self.send(NodeSet::only(ballot.node), Lane::Normal, message, effects);
    }

    /// Commands that another node forwarded here are not proposed: that node may forward them elsewhere.
    pub(crate) fn give_back(
        &self,
        node: NodeId,
        number: u64,
        commands: &[Command],
        effects: &mut Effects<Message>,
    ) {
        let message = Message::Returned(Returned {
            number,
            commands: commands.iter().map(|command| command.id).collect(),
            refusal: Refusal::NotOrdered,
        });
        self.send(NodeSet::only(node), Lane::Normal, message, effects);
    }

    pub(crate) fn on_returned(
        &mut self,
        Returned {
            number,
            commands,
            refusal,
        }: Returned,
        effects: &mut Effects<Message>,
    ) {
        for id in commands {
            let Some(kept) = self.forward.kept.get_mut(&id) else {
                continue;
            };
            if kept.sent.is_none_or(|(sent, _)| sent != number) {
                continue;
            }
            kept.is_uncertain |= refusal == Refusal::Unknown;
            if refusal == Refusal::Overloaded {
                let refusal = if kept.is_uncertain {
                    Refusal::Unknown
                } else {
                    Refusal::Overloaded
                };
                self.forward.take(id);
                refuse([id].into_iter(), refusal, effects);
            } else {
                // Sent again when another leader is known, or after a while to the same.
                kept.sent = None;
            }
        }
    }

    /// Another leader, or none, or a new link to the same one: forwards in flight may be lost.
    pub(crate) fn leader_changed(&mut self) {
        if self.spreads_own() {
            // What is spread is every leader's.
            return self.reask();
        }
        self.forward.unsent.clear();
        for (id, kept) in &mut self.forward.kept {
            kept.is_uncertain |= kept.sent.take().is_some();
            self.forward.unsent.push(*id);
        }
        self.reask();
    }

    /// A batch is decided: the submissions in it are settled.
    pub(crate) fn settle_decided(&mut self, batch: &Batch) {
        if self.forward.kept.is_empty() {
            return;
        }
        for command in batch.commands() {
            // Another node may have submitted a different command under the same id: that does not settle this
            // one. A copy of the same command may have another `acknowledged`.
            let kept = self.forward.kept.get(&command.id);
            if kept.is_some_and(|kept| kept.command.body == command.body) {
                self.forward.take(command.id);
            }
        }
        self.drop_settled_deadlines();
    }

    fn drop_settled_deadlines(&mut self) {
        let forward = &mut self.forward;
        if forward.kept.is_empty() {
            // A leader sends nothing on: it would collect the ids of all that was ever kept.
            forward.unsent.clear();
        }
        while let Some((deadline, id)) = forward.deadlines.front() {
            let is_open = forward
                .kept
                .get(id)
                .is_some_and(|kept| kept.deadline == *deadline);
            if is_open {
                break;
            }
            forward.deadlines.pop_front();
        }
    }

    pub(crate) fn wake_forward(&mut self, now: Time, effects: &mut Effects<Message>) {
        while let Some((deadline, id)) = self.forward.deadlines.front().copied() {
            if now < deadline {
                break;
            }
            self.forward.deadlines.pop_front();
            let is_open =
                (self.forward.kept.get(&id)).is_some_and(|kept| kept.deadline == deadline);
            if is_open && let Some(kept) = self.forward.take(id) {
                let refusal = if kept.is_uncertain || kept.sent.is_some() {
                    Refusal::Unknown
                } else {
                    Refusal::NotOrdered
                };
                refuse([id].into_iter(), refusal, effects);
            }
        }
        self.drop_settled_deadlines();
        if now >= self.forward.resend_at {
            self.forward.resend_at = now + self.config.timing.election_min;
            self.forward_again(now);
        }
    }

    /// Marks returned commands, and commands without an answer for long, to be forwarded again.
    fn forward_again(&mut self, now: Time) {
        let bearable = self.config.timing.read;
        let spreads = self.spreads_own();
        self.forward.unsent.clear();
        for (id, kept) in &mut self.forward.kept {
            let is_due = match kept.sent {
                None => true,
                Some((_, at)) => !spreads && now.since(at) >= bearable,
            };
            if is_due {
                kept.is_uncertain |= kept.sent.is_some();
                self.forward.unsent.push(*id);
            }
        }
    }
}

fn refuse(
    commands: impl Iterator<Item = CommandId>,
    refusal: Refusal,
    effects: &mut Effects<Message>,
) {
    for command in commands {
        effects.push(Effect::Refuse { command, refusal });
    }
}

#[cfg(test)]
mod tests {
    use super::AcceptedForwards;

    #[test]
    fn a_forward_is_accepted_once_whatever_overtook_it() {
        let mut accepted = AcceptedForwards::default();
        let first = 1 << 32;
        for number in [first + 1, first + 4, first + 2, first + 3, first + 70] {
            assert!(accepted.accept(number), "{number}");
            assert!(!accepted.accept(number), "{number} again");
        }
        for number in first + 1..=first + 4 {
            assert!(!accepted.accept(number), "{number} is too old or accepted");
        }
        assert!(accepted.accept(first + 6), "the oldest that is remembered");
        assert!(!accepted.accept(first + 5));
        assert!(accepted.accept(first + 69) && !accepted.accept(first + 70));
        assert!(accepted.accept(u64::MAX) && !accepted.accept(first + 69));
        assert!(accepted.accept(u64::MAX - 64));
    }
}
