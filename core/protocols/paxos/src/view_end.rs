//! The end of a view, and the instance of another one.
//!
//! A view ends with a slot that every node computes from the log. Its leader proposes nothing above that, and fills what is left
//! with commands or NOOPs. Once the replica has applied the last slot, what still waits is handed back for the next view; the
//! instance goes on voting and teaching for nodes that are behind.

use crate::message::{Message, Trimmed};
use crate::multicast::CarriedValues;
use crate::{MultiPaxos, Part};
use quorate_ordering::{Beginning, Config, Damage, Effect, Effects, Handover, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{NodeSet, Slot, Time};

impl MultiPaxos {
    /// The view ends with `last`.
    pub(crate) fn close(&mut self, last: Slot) {
        self.seat.last = Some(last);
    }

    /// Others have come to the end of the view. Nobody may be left who tells this node of its slots: it asks.
    pub(crate) fn passed(&mut self, now: Time, effects: &mut Effects<Message>) {
        let decided = self.seat.acceptor.log.decided();
        if self.seat.last.is_none_or(|last| decided < last) && !planted(Plant::PassedUnnoticed) {
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
        self.seat.spreading.leave();
        self.seat.carried = CarriedValues::default();
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
    pub fn begin(now: Time, beginning: Beginning) -> MultiPaxos {
        let Beginning {
            config,
            records,
            stands,
            succeeds,
            first_ballot,
            links,
        } = beginning;
        let mut instance = MultiPaxos::new(config.clone(), records, now).unwrap_or_else(|_| {
            let damage = Damage::anything();
            MultiPaxos::new(Config { damage, ..config }, Vec::new(), now)
                .expect("an empty log has no foreign record")
        });
        for (node, link) in links {
            if let Some(known) = instance.seat.peers.find_mut(node) {
                known.link = Some(link);
            }
        }
        if stands {
            instance.seat.election.stand_at_once(succeeds, first_ballot);
        }
        instance
    }

    /// What a node answers that keeps nothing of the message's view.
    pub(crate) fn gone_answer(message: &Message, upto: Slot) -> Option<Message> {
        match message {
            Message::PreVote(_)
            | Message::Prepare(_)
            | Message::Accept(_)
            | Message::Pass(_)
            | Message::PassId(_)
            | Message::Named(_)
            | Message::Heartbeat(_)
            | Message::Learn(_)
            | Message::Survey(_) => Some(Message::Trimmed(Trimmed { upto })),
            Message::PreVoted(_)
            | Message::Promise(_)
            | Message::Nack(_)
            | Message::Accepted(_)
            | Message::Gathered(_)
            | Message::Spread(_)
            | Message::Holds(_)
            | Message::Want(_)
            | Message::Multicast(_)
            | Message::Fetched(_)
            | Message::Hears(_)
            | Message::Seen(_)
            | Message::Decided(_)
            | Message::Heard(_)
            | Message::Learned(_)
            | Message::Trimmed(_)
            | Message::Forward(_)
            | Message::Returned(_)
            | Message::Confirm(_)
            | Message::Confirmed(_)
            | Message::Attested(_)
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
    use crate::message::Prepare;
    use quorate_ordering::{Event, Ordering, Role};
    use quorate_ordering::{Standing, ViewPast};
    use quorate_testkit::{VIEW, view};
    use quorate_types::{
        Ballot, Duration, FirstBallot, Level, LinkEpoch, NodeId, Persistence, View, Wall,
    };

    const SOON: Duration = Duration::from_millis(1);
    const LATE: Duration = Duration::from_millis(2_000);

    fn beginning(succeeds: bool, first_ballot: Option<Ballot>) -> Beginning {
        let view = view(3, 3, Persistence::Memory);
        Beginning {
            config: Config::new(VIEW.group, NodeId(2), 1, view, 2),
            records: Vec::new(),
            stands: true,
            succeeds,
            first_ballot,
            links: [1, 3].map(|peer| (NodeId(peer), LinkEpoch(1))).to_vec(),
        }
    }

    /// Whether it asks for pre-votes, and whether it begins phase 1, when it looks at its clock so long after the view began.
    fn stands(succeeds: bool, hears: Option<Message>, after: Duration) -> (bool, bool) {
        let told = tells(beginning(succeeds, None), hears, after);
        let asks = told.iter().any(|one| matches!(one, Message::PreVote(_)));
        (
            asks,
            told.iter().any(|one| matches!(one, Message::Prepare(_))),
        )
    }

    /// What it tells others then.
    fn tells(beginning: Beginning, hears: Option<Message>, after: Duration) -> Vec<Message> {
        let now = Time(1_000_000_000);
        let mut node = MultiPaxos::begin(now, beginning);
        let mut effects = Vec::new();
        if let Some(message) = hears {
            let (from, link, view) = (NodeId(1), LinkEpoch(1), VIEW);
            let receive = Event::Receive {
                from,
                link,
                view,
                message,
            };
            node.handle(now, receive, &mut effects);
        }
        let later = now + after;
        node.handle(later, Event::Wake, &mut effects);
        let (wall, entropy) = (Wall(later.0), 0);
        node.handle(later, Event::TurnEnd { wall, entropy }, &mut effects);
        let sent = effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { message, .. } => Some(message),
            _ => None,
        });
        sent.collect()
    }

    /// Claim mp-90.
    #[test]
    fn who_is_named_leads_the_next_view_in_its_lowest_ballot_and_asks_nobody() {
        let (node, boot) = (NodeId(2), 1);
        let first = FirstBallot { node, boot }.of(VIEW.number);
        let leads = |hears, after| {
            let told = tells(beginning(true, Some(first)), hears, after);
            let asks = |one: &Message| matches!(one, Message::PreVote(_) | Message::Prepare(_));
            let leads =
                |one: &Message| matches!(one, Message::Heartbeat(beat) if beat.ballot == first);
            (told.iter().any(asks), told.iter().any(leads))
        };
        assert_eq!(leads(None, SOON), (false, true));
        // Others may have a leader by then, or have one: no ballot is as low as this one.
        assert_eq!(leads(None, LATE), (true, false));
        let ballot = Ballot::ZERO.next(VIEW.number, NodeId(1), 1);
        let from = Slot(1);
        let other = Message::Prepare(Prepare { ballot, from });
        assert_eq!(leads(Some(other), LATE), (true, false));
    }

    /// As an acceptor it votes in no lower ballot from then on. Claim mp-90.
    #[test]
    fn who_leads_first_has_promised_its_ballot_itself() {
        let (node, boot) = (NodeId(2), 1);
        let first = FirstBallot { node, boot }.of(VIEW.number);
        let now = Time(1_000_000_000);
        let mut node = MultiPaxos::begin(now, beginning(true, Some(first)));
        node.handle(now + SOON, Event::Wake, &mut Vec::new());
        assert_eq!(node.role(), Role::Leader { ballot: first });
        assert_eq!(node.status().promised, first);
    }

    /// Claim mp-77.
    #[test]
    fn who_led_the_view_before_stands_in_the_next_one_without_pre_votes() {
        assert_eq!(stands(true, None, SOON), (false, true));
        assert_eq!(stands(false, None, SOON), (true, false));
        // Somebody else was faster: it asks whether that one is missed.
        let ballot = Ballot {
            view: VIEW.number,
            round: 1,
            node: NodeId(1),
            boot: 1,
        };
        let from = Slot(1);
        let other = Message::Prepare(Prepare { ballot, from });
        assert_eq!(stands(true, Some(other), LATE), (true, false));
    }

    /// A process that stood still, or was cut off, would unseat who was elected meanwhile. Claim mp-77.
    #[test]
    fn who_led_the_view_before_and_comes_late_asks_whether_it_is_missed() {
        assert_eq!(stands(true, None, LATE), (true, false));
    }

    /// The first acceptor stands where nobody led the view before, and asks.
    #[test]
    fn who_stands_for_want_of_a_leader_has_not_led_before() {
        let view = view(3, 3, Persistence::Memory);
        let begun = |leader| {
            let handover = Handover {
                config: Config::new(VIEW.group, NodeId(1), 1, view.clone(), 2),
                leader,
                links: Vec::new(),
            };
            let standing = Standing::Voter;
            let begun = handover.begin(view.clone(), standing, ViewPast::None);
            (begun.stands, begun.succeeds)
        };
        assert_eq!(begun(None), (true, false));
        assert_eq!(begun(Some(NodeId(1))), (true, true));
        assert_eq!(begun(Some(NodeId(2))), (false, false));
    }

    /// What node 2, in its start 7, has of the first ballot in a view that names somebody and in which `acceptors` vote.
    fn first_of_2(
        (named, acceptors): (FirstBallot, &[u16]),
        leader: Option<u16>,
        standing: Standing,
        past: ViewPast,
    ) -> (Option<Ballot>, bool) {
        let view = View {
            level: Level::FIRST_BALLOT,
            acceptors: acceptors.iter().copied().map(NodeId).collect(),
            ..view(3, 3, Persistence::Disk)
        };
        let handover = Handover {
            config: Config::new(VIEW.group, NodeId(2), 7, view.clone(), 2),
            leader: leader.map(NodeId),
            links: Vec::new(),
        };
        let begun = handover.begin(view.begun_by(Some(named)), standing, past);
        (begun.first_ballot, begun.stands)
    }

    fn named(node: u16, boot: u64) -> FirstBallot {
        let node = NodeId(node);
        FirstBallot { node, boot }
    }

    /// Only the start that the view names, which leads the view before if anybody does who may lead this one, votes, and has said
    /// nothing in the view but that it takes part. Claim mp-90.
    #[test]
    fn nobody_else_has_the_first_ballot() {
        let first = |named, leader, standing, past| {
            first_of_2((named, &[1, 2, 3]), Some(leader), standing, past).0
        };
        let (voter, begun) = (Standing::Voter, ViewPast::Begun);
        let own = Some(named(2, 7).of(VIEW.number));
        assert_eq!(first(named(2, 7), 2, voter, begun.clone()), own);
        for (other, leader, why) in [
            (named(2, 6), 2, "an earlier start"),
            (named(1, 7), 2, "another node"),
            (named(2, 7), 1, "it does not lead"),
        ] {
            assert_eq!(first(other, leader, voter, begun.clone()), None, "{why}");
        }
        assert_eq!(first(named(2, 7), 2, Standing::Observer, begun), None);
        for past in [
            ViewPast::None,
            ViewPast::Lost,
            ViewPast::Records(Vec::new()),
        ] {
            assert_eq!(
                first(named(2, 7), 2, voter, past),
                None,
                "it may have proposed"
            );
        }
    }

    /// Claim mp-90.
    #[test]
    fn who_is_named_in_place_of_a_leader_that_leaves_stands_for_it_and_no_later_start() {
        let begins = |named, leader, acceptors: &[u16]| {
            first_of_2((named, acceptors), leader, Standing::Voter, ViewPast::Begun)
        };
        let own = Some(named(2, 7).of(VIEW.number));
        // The first acceptor would stand if nobody were named.
        assert_eq!(begins(named(2, 7), Some(3), &[1, 2]), (own, true));
        assert_eq!(begins(named(2, 7), None, &[1, 2, 3]), (own, true));
        assert_eq!(begins(named(2, 6), Some(3), &[1, 2]), (None, true));
        assert_eq!(begins(named(1, 7), Some(3), &[1, 2]), (None, false));
        assert_eq!(begins(named(2, 7), Some(1), &[1, 2]), (None, false));
    }
}
