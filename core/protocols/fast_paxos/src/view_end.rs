//! The end of a view, and the instance of another one.
//!
//! A view ends with a slot that every node computes from the log. Its leader proposes nothing above that, and fills what is left
//! with commands or NOOPs. Once the replica has applied the last slot, what still waits is handed back for the next view; the
//! instance goes on voting and teaching for nodes that are behind.

use crate::leader::Mode;
use crate::message::{Message, Trimmed};
use crate::{FastPaxos, Part};
use quorate_ordering::{Config, Damage, Effect, Effects, Lane, Standing, ViewPast};
use quorate_types::{Duration, NodeSet, Persistence, Slot, Time, View};

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
            self.seat.learner.known = self.seat.learner.known.max(decided.next());
            self.learn_more(now, effects);
        }
    }

    /// The view begins here. Who may vote in it stands, and so tells the others. Nobody else might: the leader of the view before may
    /// have died, and acceptors of this view who had no vote in that one miss nobody.
    pub(crate) fn tell_begun(&self, effects: &mut Effects<Message>) {
        if self.may_stand() || self.seat.is_over || self.seat.config.view.first_slot <= Slot(1) {
            return;
        }
        let peers = self.seat.peers.iter();
        let acceptors = peers.filter(|peer| peer.is_acceptor && peer.link.is_some());
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
        self.seat.stand_no_more();
        self.seat.leave_reads(effects);
        let commands = self.seat.forward.leave();
        if !commands.is_empty() {
            effects.push(Effect::Unordered { commands });
        }
    }

    /// An instance of another view at the same node, which has `past` of it. Whoever leads this view stands at once in the next
    /// one, or the first acceptor there if the leader is none.
    pub(crate) fn in_view(
        &self,
        now: Time,
        view: View,
        standing: Standing,
        past: ViewPast,
    ) -> FastPaxos {
        let own = &self.seat.config;
        let is_lost = past == ViewPast::Lost;
        let (records, damage) = match past {
            ViewPast::None => (Vec::new(), Damage::default()),
            ViewPast::Records(records) => (records, Damage::default()),
            ViewPast::Damaged(records) => (records, Damage::anything()),
            ViewPast::Lost => (Vec::new(), Damage::anything()),
        };
        let (standing, damage) = match view.persistence {
            Persistence::Disk => (standing, damage),
            // What a node had in memory is lost with each restart, and its directory may be an old copy that names fewer views than it
            // voted in: it votes no more.
            Persistence::Memory if is_lost => (Standing::Observer, Damage::default()),
            Persistence::Memory => (standing, Damage::default()),
        };
        let leader = self.role().leader(own.own);
        let leader = leader.filter(|leader| view.acceptors.contains(*leader));
        let first = leader.or_else(|| view.acceptors.iter().next());
        let config = Config {
            seed: own.seed ^ view.number.0.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            view,
            standing,
            damage,
            ..own.clone()
        };
        let is_first = first == Some(config.own);
        let mut instance = FastPaxos::new(config.clone(), records, now).unwrap_or_else(|_| {
            let damage = Damage::anything();
            FastPaxos::new(Config { damage, ..config }, Vec::new(), now)
                .expect("an empty log has no foreign record")
        });
        for peer in self.seat.peers.iter() {
            if let Some(known) = instance.seat.peers.find_mut(peer.node) {
                known.link = peer.link;
            }
        }
        if is_first {
            instance.seat.election.stand_after(Duration::ZERO);
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
