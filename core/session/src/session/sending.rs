//! What is sent on a connection: calls in the session, requests without one.

use super::{ClientSession, Link, Registration, SessionOutput};
use crate::{Operation, Ticket};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{BroadcastId, CommandId, FromClient, ReadLevel, Slot, Time};

impl ClientSession {
    pub(super) fn send_calls(&mut self, now: Time, out: &mut Vec<SessionOutput>) {
        let calls: Vec<u64> = self.calls.iter_mut().map(|(n, _)| n).collect();
        for number in calls {
            self.send_one(now, Ticket::Call(number), out);
        }
    }

    pub(super) fn send_requests(&mut self, now: Time, out: &mut Vec<SessionOutput>) {
        let requests: Vec<u64> = self.requests.iter_mut().map(|(n, _)| n).collect();
        for number in requests {
            self.send_one(now, Ticket::Request(number), out);
        }
    }

    /// Sends one operation if it can go now: calls need a session, both need a connection.
    pub(super) fn send_one(&mut self, now: Time, ticket: Ticket, out: &mut Vec<SessionOutput>) {
        if self.link != Link::Up {
            return;
        }
        let message = match ticket {
            Ticket::Call(number) => self.call_message(now, number),
            Ticket::Request(number) => self.request_message(number),
        };
        if let Some(message) = message {
            if let FromClient::Broadcast { read, .. } = message {
                out.push(SessionOutput::Announce(read));
            }
            let is_life = match ticket {
                Ticket::Call(_) => planted(Plant::RefusedCallsPutKeepaliveOff),
                Ticket::Request(_) => planted(Plant::ReadsPutKeepaliveOff),
            };
            if is_life {
                self.active_at = now;
            }
            let early = self.early_message(&message);
            out.push(SessionOutput::Send(message));
            out.extend(early.map(SessionOutput::Send));
        }
    }

    /// Another copy of a call, if it has no answer and there is a session to send it in.
    fn call_message(&mut self, now: Time, number: u64) -> Option<FromClient> {
        let session = match self.registration {
            Registration::Open { id, .. } => id,
            Registration::Wanted => return None,
        };
        let acknowledged = self.sequence(self.calls.first() - 1);
        let sequence = self.sequence(number);
        let pending = self.calls.pending_mut(number)?;
        pending.sent_at.get_or_insert(now);
        pending.copies += 1;
        pending.resend_at = None;
        let (Operation::Call { object, payload } | Operation::EarlyCall { object, payload }) =
            &pending.operation
        else {
            return None;
        };
        Some(FromClient::Call {
            id: CommandId { session, sequence },
            acknowledged,
            object: *object,
            payload: payload.clone(),
        })
    }

    /// Another copy of a request, if it has no answer.
    // Longer than a screen: one kind of request an arm.
    fn request_message(&mut self, number: u64) -> Option<FromClient> {
        let seen = self.seen;
        let pending = self.requests.pending_mut(number)?;
        pending.copies += 1;
        pending.resend_at = None;
        match &pending.operation {
            Operation::Read {
                object,
                payload,
                level: ReadLevel::Broadcast,
            } if self.can_announce => Some(FromClient::Broadcast {
                read: BroadcastId {
                    client: self.reader,
                    number,
                },
                object: *object,
                payload: payload.clone(),
            }),
            Operation::Read {
                object,
                payload,
                level,
            } => Some(FromClient::Read {
                request: number,
                object: *object,
                payload: payload.clone(),
                level: match level {
                    ReadLevel::Broadcast => ReadLevel::Confirmed,
                    other => *other,
                },
                after: match level {
                    ReadLevel::Any => seen,
                    ReadLevel::Ordered
                    | ReadLevel::Confirmed
                    | ReadLevel::Broadcast
                    | ReadLevel::Lease
                    | ReadLevel::Loose => Slot::ZERO,
                },
            }),
            Operation::Checkpoint => Some(FromClient::Checkpoint { request: number }),
            &Operation::Reset {
                node,
                boot,
                slot,
                digest,
            } => Some(FromClient::Reset {
                request: number,
                node,
                boot,
                slot,
                digest,
            }),
            &Operation::Skip {
                slot,
                index,
                is_unsafe,
            } => Some(FromClient::Skip {
                request: number,
                slot,
                index,
                is_unsafe,
            }),
            &Operation::ChangeView { change, leaves } => Some(FromClient::ChangeView {
                request: number,
                change,
                leaves,
            }),
            &Operation::SetLevel { change, level } => Some(FromClient::SetLevel {
                request: number,
                change,
                level,
            }),
            &Operation::SwitchOrdering { change, ordering } => Some(FromClient::SwitchOrdering {
                request: number,
                change,
                ordering,
            }),
            &Operation::SetQuorums { change, rule } => Some(FromClient::SetQuorums {
                request: number,
                change,
                rule,
            }),
            &Operation::SetLimit { change, limit } => Some(FromClient::SetLimit {
                request: number,
                change,
                limit,
            }),
            &Operation::MoveLeader { node } => Some(FromClient::MoveLeader {
                request: number,
                node,
            }),
            &Operation::Invite { invitation, lasts } => Some(FromClient::Invite {
                request: number,
                invitation,
                lasts,
            }),
            Operation::Join {
                change,
                member,
                secret,
                speaks,
                role,
            } => Some(FromClient::Join {
                request: number,
                change: *change,
                member: member.clone(),
                secret: *secret,
                speaks: *speaks,
                role: *role,
            }),
            Operation::ChangeGroups { change } => Some(FromClient::ChangeGroups {
                request: number,
                change: change.clone(),
            }),
            Operation::Call { .. } | Operation::EarlyCall { .. } => None,
        }
    }
}
