//! The end of a view, and the instance of another one.
//!
//! A view ends with a slot that every node computes from the log. Its leader proposes nothing above that, and fills what is left
//! with commands or NOOPs. Once the replica has applied the last slot, what still waits is handed back for the next view; the
//! instance goes on voting and teaching for nodes that are behind.

use crate::leader::Mode;
use crate::message::{Message, Trimmed};
use crate::{FastPaxos, Part};
use quorate_ordering::{Beginning, Config, Damage, Effect, Effects, Handover, Lane};
use quorate_types::{NodeSet, Slot, Time};

impl FastPaxos {
    /// The view ends with `last`.
    pub(crate) fn close(&mut self, last: Slot) {
        self.seat.last = Some(last);
        if let Some((leader, _)) = self.leading() {
            // The slots that are left are filled in classic rounds.
            leader.must_renew |= leader.mode != Mode::Classic;
        }
    }

    /// Others have come to the end of the view. Nobody may be left who tells this node of its slots: it asks.
    pub(crate) fn passed(&mut self, now: Time, effects: &mut Effects<Message>) {
        let decided = self.seat.acceptor.log.decided();
        if self.seat.last.is_none_or(|last| decided < last) {
            self.seat.learner.knows(decided.next());
            self.learn_more(now, effects);
        }
    }

    /// The view begins here. Who may vote in it stands, and so tells the others. Nobody else might: the leader of the view before may
    /// have died, and acceptors of this view who had no vote in that one miss nobody.
    pub(crate) fn tell_begun(&self, effects: &mut Effects<Message>) {
        if self.may_stand() || self.seat.is_over || self.seat.config.view.first_slot <= Slot(1) {
            return;
        }
        let linked = self.seat.peers.linked();
        let acceptors = linked.filter(|peer| peer.is_acceptor);
        self.tell_beginning(acceptors.map(|peer| peer.node).collect(), effects);
    }

    /// Tells where the log of this view begins: who is in an earlier view learns that it is over.
    pub(crate) fn tell_beginning(&self, to: NodeSet, effects: &mut Effects<Message>) {
        let upto = self.seat.acceptor.log.trimmed();
        let begins = Message::Trimmed(Trimmed { upto });
        self.seat.send(to, Lane::Bulk, begins, effects);
    }

    /// The replica has applied the last slot.
    pub(crate) fn over(&mut self, now: Time, effects: &mut Effects<Message>) {
        self.seat.is_over = true;
        if let Some((leader, seat)) = self.leading() {
            // Nobody else tells the others that the last slots are decided.
            leader.announce(seat, effects);
        }
        self.step_down(now, effects);
        self.part = Part::Follower;
        self.seat.election.stand_no_more();
        self.seat.leave_reads(effects);
        let commands = self.seat.forward.leave();
        if !commands.is_empty() {
            effects.push(Effect::Unordered { commands });
        }
    }

    /// What this instance hands to that of another view.
    #[must_use]
    pub fn handover(&self) -> Handover {
        let config = self.seat.config.clone();
        let peers = self.seat.peers.iter();
        Handover {
            leader: self.role().leader(config.own),
            links: peers
                .filter_map(|peer| Some((peer.node, peer.link?)))
                .collect(),
            config,
        }
    }

    /// An instance for the view of `beginning`, after the instance of another view at the same node.
    #[must_use]
    pub fn begin(now: Time, beginning: Beginning) -> FastPaxos {
        let Beginning {
            config,
            records,
            stands,
            succeeds,
            first_ballot: _,
            links,
        } = beginning;
        let mut instance = FastPaxos::new(config.clone(), records, now).unwrap_or_else(|_| {
            let damage = Damage::anything();
            FastPaxos::new(Config { damage, ..config }, Vec::new(), now)
                .expect("an empty log has no foreign record")
        });
        for (node, link) in links {
            if let Some(known) = instance.seat.peers.find_mut(node) {
                known.link = Some(link);
            }
        }
        if stands {
            instance.seat.election.stand_at_once(succeeds, None);
        }
        instance
    }

    /// What a node answers that keeps nothing of the message's view.
    pub(crate) fn gone_answer(message: &Message, upto: Slot) -> Option<Message> {
        match message {
            Message::PreVote(_)
            | Message::Prepare(_)
            | Message::Accept(_)
            | Message::Heartbeat(_)
            | Message::Learn(_)
            | Message::Survey(_) => Some(Message::Trimmed(Trimmed { upto })),
            Message::PreVoted(_)
            | Message::Promise(_)
            | Message::Nack(_)
            | Message::Any(_)
            | Message::Propose(_)
            | Message::Voted(_)
            | Message::Seen(_)
            | Message::Decided(_)
            | Message::Heard(_)
            | Message::Learned(_)
            | Message::Trimmed(_)
            | Message::Forward(_)
            | Message::Confirm(_)
            | Message::Confirmed(_)
            | Message::AskBarrier(_)
            | Message::Barrier(_)
            | Message::TakeOver(_)
            | Message::Surveyed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_ordering::{Event, Ordering};
    use quorate_testkit::{VIEW, view};
    use quorate_types::{Duration, LinkEpoch, NodeId, Persistence, Wall};

    /// Whether it asks for pre-votes, and whether it begins phase 1, when it looks at its clock so long after the view began.
    fn stands(succeeds: bool, after: Duration) -> (bool, bool) {
        let now = Time(1_000_000_000);
        let view = view(3, 3, Persistence::Memory);
        let beginning = Beginning {
            config: Config::new(VIEW.group, NodeId(2), 1, view, 2),
            records: Vec::new(),
            stands: true,
            succeeds,
            first_ballot: None,
            links: [1, 3].map(|peer| (NodeId(peer), LinkEpoch(1))).to_vec(),
        };
        let mut node = FastPaxos::begin(now, beginning);
        let mut effects = Vec::new();
        let later = now + after;
        node.handle(later, Event::Wake, &mut effects);
        let (wall, entropy) = (Wall(later.0), 0);
        node.handle(later, Event::TurnEnd { wall, entropy }, &mut effects);
        let sends = |is_it: fn(&Message) -> bool| {
            let mut effects = effects.iter();
            effects.any(|effect| matches!(effect, Effect::Send { message, .. } if is_it(message)))
        };
        (
            sends(|message| matches!(message, Message::PreVote(_))),
            sends(|message| matches!(message, Message::Prepare(_))),
        )
    }

    /// Claim mp-77.
    #[test]
    fn who_led_the_view_before_stands_without_pre_votes_unless_it_comes_late() {
        let (soon, late) = (Duration::from_millis(1), Duration::from_millis(2_000));
        assert_eq!(stands(true, soon), (false, true));
        assert_eq!(stands(false, soon), (true, false));
        assert_eq!(stands(true, late), (true, false));
    }
}
