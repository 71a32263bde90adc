//! Turns everything that arrives into inputs of the replica: frames, links, durable marks, host events, snapshots.

use crate::NodeError;
use crate::client_debt::{debt_of, is_wrong};
use crate::client_line::{Asked, Unserved, Visit};
use crate::clock::boot_time;
use crate::journal::Journal;
use crate::limits::STATUS_DEBT;
use crate::node::Node;
use crate::snapshots::SnapshotDone;
use quorate_host::HostEvent;
use quorate_ordering::LinkState;
use quorate_replica::{Input, Output, PeerMessage, ReplicaMessage};
use quorate_transport::{Arrival, FrameLane};
use quorate_types::{CallPlace, ConnectionId, LinkEpoch, NodeId, NodeSet, Time};
use quorate_wire::{Frame, Kind, RejectReason, put_peer, requests, take_peer};
use std::net::IpAddr;

impl Node {
    /// Everything the sockets brought.
    pub(crate) fn take_arrivals(&mut self, now: Time) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.transport.take_arrivals(&mut arrivals);
        for arrival in arrivals.drain(..) {
            match arrival {
                Arrival::Peer { from, link, frame } => self.peer_frame(from, link, &frame, now),
                Arrival::Client { from, place, frame } => {
                    self.client_frame((from, place), frame, now);
                }
                Arrival::Gone { connection, by } => self.clients.gone(connection, by),
                Arrival::Up {
                    peer,
                    link,
                    boot,
                    speaks: levels,
                } => {
                    self.membership.accepted(peer);
                    self.feed(now, Input::Greeted { peer, boot, levels });
                    let state = LinkState::Up(link);
                    self.feed(now, Input::Link { peer, state });
                }
                Arrival::Elsewhere { group, passed } => self.pass_on(group, *passed, now),
                Arrival::Dismissed { peer, view } => self.membership.dismissed(peer, view),
                Arrival::Unspoken { peer, text } => self.membership.unspoken(peer, text),
                Arrival::Sighted { peer, sighting } => {
                    self.sighted.get_or_insert((peer, sighting));
                }
                Arrival::Down { peer } => {
                    tracing::info!(%peer, "link down");
                    let state = LinkState::Down;
                    self.feed(now, Input::Link { peer, state });
                }
            }
        }
        self.arrivals = arrivals;
    }

    fn peer_frame(&mut self, from: NodeId, link: LinkEpoch, frame: &Frame, now: Time) {
        let is_ours = frame.kind == Kind::Peer && frame.group == self.identity.group;
        match take_peer(&frame.body) {
            Ok(message) if is_ours => {
                tracing::trace!(%from, %link, ?message, "received");
                self.feed(
                    now,
                    Input::Peer {
                        from,
                        link,
                        message,
                    },
                );
            }
            Ok(_) => {
                tracing::warn!(peer = %from, kind = ?frame.kind, group = %frame.group, "unexpected frame: link dropped");
                self.transport.drop_link(from, now);
            }
            Err(error) => {
                tracing::warn!(peer = %from, %error, "unreadable message: link dropped");
                self.transport.drop_link(from, now);
            }
        }
    }

    fn client_frame(
        &mut self,
        (from, place): (ConnectionId, Option<IpAddr>),
        frame: Frame,
        now: Time,
    ) {
        if frame.group != self.identity.group {
            let text = format!(
                "this node serves {}, not {}",
                self.identity.group, frame.group
            );
            self.transport.refuse(from, RejectReason::Group, &text, now);
            return;
        }
        match frame.kind {
            Kind::FromClient => {
                let requests = Unserved::Requests(requests(frame.body));
                self.clients.push(from, place, requests);
            }
            Kind::StatusRequest => self.clients.push(from, place, Unserved::Status),
            Kind::AdminRequest => self.clients.push(from, place, Unserved::Admin(frame.body)),
            Kind::Hello
            | Kind::Welcome
            | Kind::Reject
            | Kind::Peer
            | Kind::ToClient
            | Kind::StatusReply
            | Kind::AdminReply
            | Kind::Reach
            | Kind::Sighting
            | Kind::Challenge
            | Kind::Proof => {
                let text = "a client does not send this kind of frame here";
                self.transport
                    .refuse(from, RejectReason::Malformed, text, now);
            }
        }
    }

    /// Serves what clients asked for, each in turn, up to a bound. Connections with a rest are not read.
    pub(crate) fn serve_clients(&mut self, now: Time) {
        self.clients.begin(now);
        while let Some(mut visit) = self.clients.next(now) {
            let is_over = self.serve(&mut visit, now);
            if is_over {
                self.clients.forget(visit);
            } else {
                let from = visit.from;
                let rest = self.clients.visited(visit, now);
                self.transport.hold(from, rest.bytes, now);
            }
        }
    }

    /// Serves one client for one visit; says whether its connection is over.
    fn serve(&mut self, visit: &mut Visit, now: Time) -> bool {
        let from = visit.from;
        while let Some(asked) = visit.next() {
            match asked {
                Asked::Request(Ok(message)) => {
                    self.timings.arrived(now, &message);
                    visit.lend(debt_of(&message));
                    let before = self.outputs.len();
                    self.feed(now, Input::Client { from, message });
                    let mut answers = self.outputs[before..].iter();
                    let is_refused = answers.any(|output| {
                        matches!(output, Output::Reply { to, message } if *to == from && is_wrong(message))
                    });
                    visit.lend(u32::from(is_refused));
                }
                Asked::Request(Err(error)) => {
                    let text = error.to_string();
                    self.transport
                        .refuse(from, RejectReason::Malformed, &text, now);
                    visit.drop_rest();
                }
                Asked::Status => {
                    visit.lend(STATUS_DEBT);
                    let status = self.status_json(now);
                    self.transport
                        .answer_frame(from, Kind::StatusReply, |body| {
                            body.extend_from_slice(&status)
                        });
                }
                Asked::Admin(body) => {
                    visit.lend(Node::ADMIN_DEBT);
                    if !self.admin_asked(from, &body, now) {
                        visit.drop_rest();
                    }
                }
                Asked::Gone(by) => {
                    let connection = from;
                    self.feed(now, Input::Disconnected { connection, by });
                    return true;
                }
            }
        }
        false
    }

    /// What became durable.
    pub(crate) fn take_journal(&mut self, now: Time) -> Result<(), NodeError> {
        if let Some(journal) = &mut self.journal
            && let Some(mark) = journal.durable()?
        {
            self.feed(now, Input::Persisted { mark });
        }
        if let Some(room) = self.journal.as_mut().and_then(Journal::room) {
            self.feed(now, Input::Storage { room });
        }
        Ok(())
    }

    /// What the objects have to tell. Returns the time at which all of it had been told: an answer under a
    /// lease is judged by a clock that was read after its value (Claim rp-8).
    pub(crate) fn take_host(&mut self, now: Time) -> Time {
        let mut events = std::mem::take(&mut self.host_events);
        self.host.poll(&mut events);
        let now = if events.is_empty() { now } else { boot_time() };
        for event in events.drain(..) {
            self.host_event(event, now);
        }
        self.host_events = events;
        now
    }

    fn host_event(&mut self, event: HostEvent, now: Time) {
        match event {
            HostEvent::Executed { slot, results } => {
                self.timings.executed(now, slot);
                self.feed(now, Input::Executed { slot, results })
            }
            HostEvent::Undone { after } => self.feed(now, Input::Undone { after }),
            HostEvent::Due { at } => self.feed(now, Input::Due { at }),
            HostEvent::Queried { read, outcome } => {
                self.feed(now, Input::Queried { read, outcome })
            }
            HostEvent::Imaged {
                slot,
                images,
                parts,
            } => self.snapshots.imaged(slot, images, parts),
            HostEvent::ImageFailed { slot, reason } => {
                tracing::warn!(%slot, reason, "no snapshot: the objects' state cannot be encoded");
                self.snapshots.fail(slot, reason);
                self.feed(now, Input::SnapshotFailed { slot });
            }
            HostEvent::Restored { slot } => match self.snapshots.restored(slot) {
                Some(installed) => {
                    tracing::info!(%slot, bytes = installed.bytes, "installed a peer's snapshot");
                    let installed = Input::Installed {
                        core: Box::new(installed.core),
                        digest: installed.digest,
                        bytes: installed.bytes,
                    };
                    self.feed(now, installed);
                }
                None => tracing::debug!(%slot, "the host restored its own state"),
            },
            HostEvent::RestoreFailed { slot, reason } => {
                tracing::error!(%slot, reason, "a fetched snapshot cannot be restored");
                self.snapshots.forget(slot);
                self.feed(now, Input::InstallFailed { slot });
            }
            HostEvent::Up => {
                tracing::info!("object host up");
                self.feed(now, Input::Host { is_up: true });
            }
            HostEvent::Down {
                reason,
                call,
                is_final,
            } => {
                tracing::warn!(reason, ?call, is_final, "object host down");
                self.feed(now, Input::Host { is_up: false });
                let place = call.and_then(|call| Some((call.slot?, call.index)));
                if is_final {
                    self.tell_stuck();
                }
                if let Some((slot, index)) = place.filter(|_| is_final) {
                    self.report_death(now, CallPlace { slot, index });
                }
            }
            HostEvent::Hanging { .. } => self.tell_stuck(),
        }
    }

    /// Has the death of a host reported, once the next start will know of the report.
    fn report_death(&mut self, now: Time, place: CallPlace) {
        match self.died_file.remember(place) {
            Ok(()) => {
                let CallPlace { slot, index } = place;
                self.feed(now, Input::HostDied { slot, index });
            }
            Err(error) => {
                tracing::error!(slot = place.slot.0, %error, "cannot note in the data directory that the host died at a call, so the group is not told: make room or repair the disk, then start the node again");
            }
        }
    }

    /// Logs the call that keeps the objects from going on.
    fn tell_stuck(&self) {
        if let Some(stuck) = self.stuck() {
            tracing::warn!(
                object = stuck.object,
                method = stuck.method,
                slot = stuck.slot,
                since_ms = stuck.since_ms,
                to_do = stuck.to_do,
                "a call keeps the objects from going on"
            );
        }
    }

    /// What the snapshot thread finished.
    pub(crate) fn take_snapshots(&mut self, now: Time) {
        while let Some(finished) = self.snapshots.next() {
            match finished {
                SnapshotDone::Taken {
                    slot,
                    digest,
                    bytes,
                } => {
                    tracing::info!(%slot, bytes, "snapshot durable");
                    if let Some(end) = self.replica.earlier_starts_end().filter(|end| *end <= slot)
                    {
                        self.died_file.bound(end);
                    }
                    self.feed(
                        now,
                        Input::SnapshotTaken {
                            slot,
                            digest,
                            bytes,
                        },
                    );
                }
                SnapshotDone::NotTaken { slot, reason } => {
                    tracing::warn!(%slot, reason, "no snapshot: it cannot be written");
                    self.feed(now, Input::SnapshotFailed { slot });
                }
                SnapshotDone::Backup { to, reply } => self.answer_admin(to, &reply),
                SnapshotDone::Piece { to, message } => self.send_piece(to, message, now),
                SnapshotDone::Fetched { slot, images } => self.host.restore(slot, images),
                SnapshotDone::NotFetched { slot, reason } => {
                    tracing::warn!(%slot, reason, "a fetched snapshot is refused");
                    self.feed(now, Input::InstallFailed { slot });
                }
            }
        }
    }

    fn send_piece(&mut self, to: NodeId, message: ReplicaMessage, now: Time) {
        let message = PeerMessage::Replica(message);
        self.transport
            .send(NodeSet::only(to), FrameLane::Bulk, now, |body| {
                put_peer(body.buf(), &message);
            });
    }
}
