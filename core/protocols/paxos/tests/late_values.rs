//! Values that come apart from their proposals, late or in another ballot: a node votes for what the proposal names, or not at all.

use quorate_ordering::{Config, Effect, Entry, Event, Mark, ValuesBy};
use quorate_paxos::message::{
    Accept, Accepted, Carried, Heartbeat, Learned, PassId, Prepare, RingWay, Want,
};
use quorate_paxos::{Message, MultiPaxos};
use quorate_testkit::{VIEW, call, received, turn, view};
use quorate_types::{
    Ballot, Batch, Duration, Level, NodeId, OrderingName, Persistence, Slot, Stamp, Time, View,
};

const SLOT: Slot = Slot(1);

/// Node 2 of three, where values are multicast.
struct Ringed {
    paxos: MultiPaxos,
    now: Time,
    /// What it votes for, and in which ballot.
    votes: Vec<(Ballot, Batch)>,
    asked: Vec<Want>,
    /// What it tells of its votes.
    told: Vec<Message>,
    written: Mark,
}

impl Ringed {
    fn new() -> Ringed {
        let view = View {
            level: Level::MULTICAST,
            ordering: OrderingName::RingPaxos,
            ..view(3, 3, Persistence::Disk)
        };
        let mut config = Config::new(VIEW.group, NodeId(2), 1, view, 2);
        config.limits.values = ValuesBy::Multicast;
        let now = Time(1_000_000_000);
        let mut ringed = Ringed {
            paxos: MultiPaxos::new(config, Vec::new(), now).unwrap(),
            now,
            votes: Vec::new(),
            asked: Vec::new(),
            told: Vec::new(),
            written: Mark(0),
        };
        ringed.event(Event::Executed { slot: Slot::ZERO });
        ringed
    }

    fn event(&mut self, event: Event<Message>) {
        for effect in turn(&mut self.paxos, self.now, event) {
            match effect {
                Effect::Persist { mark, record } => {
                    self.written = mark;
                    if let Entry::Vote { ballot, batch, .. } = record.entry {
                        self.votes.push((ballot, batch));
                    }
                }
                Effect::Send {
                    message: Message::Want(want),
                    ..
                } => self.asked.push(want),
                Effect::Send {
                    message: message @ (Message::Accepted(_) | Message::Gathered(_)),
                    ..
                } => self.told.push(message),
                _ => {}
            }
        }
    }

    fn receive(&mut self, from: u16, message: Message) {
        self.event(received(from, message));
    }

    /// What was written so far is on disk.
    fn sync(&mut self) {
        let mark = self.written;
        self.event(Event::Persisted { mark });
    }

    fn wait(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        self.event(Event::Wake);
    }
}

fn ballot(round: u64, node: u16) -> Ballot {
    Ballot {
        view: VIEW.number,
        round,
        node: NodeId(node),
        boot: 1,
    }
}

fn value(text: &[u8]) -> Batch {
    Batch::new(Stamp::default(), vec![call(1, 1, text)])
}

/// The leader of `ballot` proposes in the slot, and names no value.
fn id(ballot: Ballot) -> Message {
    let others = [2, 4 - ballot.node.0].map(NodeId).to_vec();
    Message::PassId(PassId {
        ballot,
        slot: SLOT,
        decided: Slot::ZERO,
        way: RingWay::new(others, 1).unwrap(),
        hearing: 2,
    })
}

fn fetched(ballot: Ballot, batch: Batch) -> Message {
    let slot = SLOT;
    Message::Fetched(Carried {
        ballot,
        slot,
        batch,
    })
}

fn multicast(ballot: Ballot, batch: Batch) -> Message {
    let slot = SLOT;
    Message::Multicast(Carried {
        ballot,
        slot,
        batch,
    })
}

/// Only who leads multicasts, and only to those that follow it: nobody else need have kept to one value a slot. Claim mp-83.
#[test]
fn a_value_that_the_leader_followed_did_not_multicast_is_not_taken() {
    let leads = |ballot: Ballot| {
        Message::Heartbeat(Heartbeat {
            ballot,
            beat: 1,
            decided: Slot::ZERO,
            wants_lease: false,
            current: None,
        })
    };
    let (led, other) = (ballot(1, 1), ballot(2, 3));
    for (follows, from, of, is_taken) in [
        (Some(led), 1, led, true),
        (Some(led), 3, led, false),
        (Some(led), 3, other, false),
        (None, 1, led, false),
    ] {
        let mut node = Ringed::new();
        if let Some(led) = follows {
            node.receive(1, leads(led));
        }
        node.receive(from, multicast(of, value(b"a")));
        node.receive(of.node.0, id(of));
        let votes = Vec::from_iter(is_taken.then(|| (of, value(b"a"))));
        assert_eq!(node.votes, votes, "n{from} multicasts in {of:?}");
    }
}

/// Claim mp-81.
#[test]
fn a_vote_for_a_proposal_that_came_another_way_than_its_id_is_told_to_the_leader() {
    let (mut node, ballot) = (Ringed::new(), ballot(1, 1));
    node.receive(1, id(ballot));
    node.receive(
        1,
        Message::Accept(Accept {
            ballot,
            slot: SLOT,
            batch: value(b"a"),
            decided: Slot::ZERO,
        }),
    );
    node.sync();
    let (first, last) = (SLOT, SLOT);
    let told = Message::Accepted(Accepted {
        ballot,
        first,
        last,
    });
    assert_eq!(node.told, [told]);
}

/// Claim mp-83.
#[test]
fn what_was_voted_for_in_an_earlier_ballot_is_no_value_of_a_later_one() {
    let (mut node, early, late) = (Ringed::new(), ballot(1, 1), ballot(2, 3));
    let (old, new) = (value(b"old"), value(b"new"));
    node.receive(
        1,
        Message::Accept(Accept {
            ballot: early,
            slot: SLOT,
            batch: old.clone(),
            decided: Slot::ZERO,
        }),
    );
    assert_eq!(node.votes, [(early, old.clone())]);
    node.receive(3, id(late));
    assert_eq!(node.votes, [(early, old.clone())], "its value is not known");
    node.wait(10);
    assert_eq!(node.asked.len(), 1);
    node.receive(3, fetched(early, old.clone()));
    assert_eq!(node.votes.len(), 1, "of another ballot");
    node.receive(3, fetched(late, new.clone()));
    assert_eq!(node.votes, [(early, old), (late, new)]);
}

/// Claim mp-83.
#[test]
fn a_value_that_comes_after_a_promise_of_a_later_ballot_gets_no_vote() {
    let (mut node, early, late) = (Ringed::new(), ballot(1, 1), ballot(2, 3));
    node.receive(1, id(early));
    let from = SLOT;
    let ballot = late;
    node.receive(3, Message::Prepare(Prepare { ballot, from }));
    node.receive(1, fetched(early, value(b"a")));
    assert_eq!(node.votes, []);
}

/// Claim mp-81.
#[test]
fn nobody_is_asked_for_the_value_of_a_slot_that_is_decided() {
    let mut node = Ringed::new();
    node.receive(1, id(ballot(1, 1)));
    node.receive(
        3,
        Message::Learned(Learned {
            from: SLOT,
            batches: vec![value(b"a")],
            decided: SLOT,
        }),
    );
    node.wait(200);
    node.wait(200);
    assert_eq!(node.asked, []);
}
