//! Performs the outputs of the replica, in order.

use crate::clock::boot_time;
use crate::drift::DriftStatus;
use crate::node::Node;
use crate::quarantine_file::hex;
use quorate_any::AnyMessage;
use quorate_ordering::Role;
use quorate_replica::{ClockOffset, OutcomeDifference, Output, PeerMessage, Quarantine};
use quorate_storage::Rejoined;
use quorate_transport::FrameLane;
use quorate_types::{NodeSet, Time, ViewNumber};
use quorate_wire::{peer_level, put_answer_shared, put_peer_shared};

impl Node {
    /// Performs all outputs that wait.
    pub(crate) fn perform(&mut self, now: Time) {
        if self.outputs.is_empty() {
            return;
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        let clock = boot_time();
        for output in outputs.drain(..) {
            self.timings.put_out(clock, &output);
            self.perform_one(output, now);
            if self.conflict.is_some() || self.unsure.is_some() || self.unspoken.is_some() {
                break;
            }
        }
        assert!(self.outputs.is_empty(), "performing feeds nothing back");
        self.outputs = outputs;
    }

    // Longer than a screen: one arm an output.
    fn perform_one(&mut self, output: Output<AnyMessage>, now: Time) {
        match output {
            Output::Send {
                lane: quorate_ordering::Lane::Multicast,
                message,
                ..
            } => {
                let own = self.replica.view().incarnation(self.identity.node);
                if let (Some(multicast), Some(own)) = (&mut self.multicast, own) {
                    multicast.push(own, &message);
                }
            }
            Output::Send { to, lane, message } => {
                let to = self.readers(to, &message, now);
                self.transport.send(to, lane_of(lane), now, |body| {
                    put_peer_shared(body, &message)
                });
            }
            Output::Reply { to, message } => {
                self.is_answering = true;
                self.clients.answered(to, &message);
                self.transport
                    .answer(to, |body| put_answer_shared(body, &message));
            }
            Output::Persist { mark, record } => self.journal().append(mark, &record),
            Output::LevelNotSpoken { level, view } => self.unspoken = Some((level, view)),
            Output::Conflict(conflict) => self.conflict = Some(Box::new(conflict)),
            Output::BeginView { number, back } => self.begin_view(number, back),
            Output::Repaired => {
                if let Some(journal) = &mut self.journal {
                    tracing::info!(
                        "the log is repaired: everything that damage had taken is written again"
                    );
                    journal.repaired();
                }
            }
            Output::Discard { upto, base } => {
                if let Some(journal) = &mut self.journal {
                    journal.discard(upto, &base);
                }
            }
            Output::Execute { slot, stamp, steps } => self.host.execute(slot, stamp, steps),
            Output::Speculate { slot, stamp, steps } => self.host.speculate(slot, stamp, steps),
            Output::Confirm { slot } => self.host.confirm(slot),
            Output::Undo { after } => {
                tracing::debug!(%after, "what was executed ahead of decisions is undone");
                self.host.undo(after);
            }
            Output::Skip { slot, index } => {
                tracing::warn!(%slot, index, "the group skips a call");
                self.host.skip(slot, index);
            }
            Output::Query {
                read,
                object,
                payload,
            } => self.host.query(read, object, payload),
            Output::TakeSnapshot { slot } => self.host.take_snapshot(slot),
            Output::FinishSnapshot { core, agreed } => {
                self.host.encode(core.slot);
                self.snapshots.finish(*core, agreed);
            }
            Output::SendChunk {
                to,
                slot,
                offset,
                length,
            } => self.snapshots.read(to, slot, offset, length),
            Output::StoreChunk {
                slot,
                offset,
                total,
                data,
            } => self.snapshots.store(slot, offset, total, data),
            Output::Install { slot, digest } => self.snapshots.install(slot, digest),
            Output::Role(role) => self.role_changed(role),
            Output::Quarantined(quarantine) => self.quarantined(quarantine),
            Output::OutcomesDiffer(difference) => self.outcomes_differ(&difference),
            Output::ClocksDiffer(offset) => self.clocks_differ(offset),
            Output::Healed { slot } => {
                tracing::warn!(%slot, "healed: the objects hold the state that counts, and are served again");
                self.quarantine_file.forget();
            }
        }
    }

    /// Those of `to` that can read a message. The others lose their links: what they cannot read may come again in any other message.
    fn readers(&mut self, to: NodeSet, message: &PeerMessage<AnyMessage>, now: Time) -> NodeSet {
        if !self.transport.has_lower_peers() {
            return to;
        }
        let level = peer_level(message);
        let cannot = self.transport.below(to, level);
        if cannot.is_empty() {
            return to;
        }
        self.transport.cannot_read(cannot, level, now);
        to.iter().filter(|node| !cannot.contains(*node)).collect()
    }

    fn journal(&mut self) -> &mut crate::journal::Journal {
        self.journal
            .as_mut()
            .expect("nothing is persisted in memory mode")
    }

    fn begin_view(&mut self, number: ViewNumber, back: Option<ViewNumber>) {
        tracing::debug!(
            view = number.0,
            "this node takes part in the view from now on"
        );
        let fresh = self.replica.fresh();
        let back = back.map(|view| Rejoined {
            incarnation: fresh,
            view,
        });
        let noted = self
            .identity_file
            .change(|identity| identity.begin_view(number, back));
        if noted.is_ok()
            && let Some(back) = back
        {
            tracing::info!(view = back.view.0, "this node votes again");
            self.transport.came_back(back.view);
        }
        self.unsure = noted.err();
    }

    fn clocks_differ(&self, offset: ClockOffset) {
        if offset == ClockOffset::default() {
            tracing::info!("the clocks agree again");
        } else {
            tracing::warn!(
                own_ms = offset.own / 1_000_000,
                agreed_ms = offset.agreed / 1_000_000,
                "this node's clock or agreed time differs from a majority's clocks: correct the clocks; agreed time follows the majority"
            );
        }
    }

    fn outcomes_differ(&self, difference: &OutcomeDifference) {
        let drift = DriftStatus::new(difference, &self.identity.view.objects);
        tracing::warn!(
            node = drift.node,
            slot = drift.slot,
            object = drift.object,
            method = drift.method,
            "{drift}: compare the nodes' code and packages, and look for what this method reads outside of its object"
        );
    }

    fn quarantined(&mut self, quarantine: Quarantine) {
        match quarantine {
            Quarantine::Diverged { slot, own, agreed } => tracing::warn!(
                %slot, own = %hex(&own), agreed = %hex(&agreed),
                "this replica's objects differ from the majority's: they are not served, its votes count; fetching the majority's snapshot"
            ),
            Quarantine::Frozen { slot } => tracing::error!(
                %slot,
                "no majority of replicas agrees on the objects' state: they answer no calls; keep all data directories, and choose the replica whose state counts with `quorate object reset --from NODE`"
            ),
        }
        self.quarantine_file.remember(quarantine);
    }

    fn role_changed(&mut self, role: Role) {
        match role {
            Role::Leader { ballot } => tracing::info!(%ballot, "leading"),
            Role::Candidate { ballot } => tracing::info!(%ballot, "candidate"),
            Role::Follower { leader } => {
                let leader = leader.map(|node| node.to_string());
                tracing::info!(leader, "following");
            }
        }
        self.role = role;
        self.transport.set_leader(role.leader(self.identity.node));
    }
}

fn lane_of(lane: quorate_ordering::Lane) -> FrameLane {
    match lane {
        quorate_ordering::Lane::Urgent => FrameLane::Urgent,
        quorate_ordering::Lane::Normal | quorate_ordering::Lane::Multicast => FrameLane::Normal,
        quorate_ordering::Lane::Bulk => FrameLane::Bulk,
    }
}
