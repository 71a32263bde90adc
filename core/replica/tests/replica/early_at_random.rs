//! Tentative replies under random decisions: clients that ask for them in turn, leave, come back and park, at objects that go back.

use crate::speculating::{ahead, decides, votes};
use crate::world::{World, batch, call, id};
use quorate_replica::{Input, limits};
use quorate_types::{
    Ask, Batch, ClosedBy, Command, ConnectionId, FromClient, Outcome, SessionId, ToClient, Value,
};
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u64 = 200;
const STEPS: usize = 60;

struct Drawn(u64);

impl Drawn {
    fn below(&mut self, end: usize) -> usize {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len())])
    }
}

/// What one connection waits for, and was told.
#[derive(Default)]
struct Client {
    waits: BTreeSet<u64>,
    wanted: BTreeSet<u64>,
    told: BTreeMap<u64, Value>,
}

struct Story {
    world: World,
    random: Drawn,
    session: SessionId,
    other: SessionId,
    others: u64,
    clients: BTreeMap<u64, Client>,
    last_connection: u64,
    words: BTreeMap<u64, &'static str>,
    open: BTreeMap<u64, Command>,
    voted: Vec<Batch>,
    /// What was decided before the present step.
    decided: BTreeSet<u64>,
    confirmed: usize,
    tentative: usize,
}

impl Story {
    fn new(seed: u64) -> Story {
        let (world, session, other) = ahead(4);
        let mut story = Story {
            world,
            random: Drawn(seed),
            session,
            other,
            others: 0,
            clients: BTreeMap::new(),
            last_connection: 10,
            words: BTreeMap::new(),
            open: BTreeMap::new(),
            voted: Vec::new(),
            decided: BTreeSet::new(),
            confirmed: 0,
            tentative: 0,
        };
        story.connects();
        story.connects();
        story
    }

    fn connects(&mut self) {
        self.last_connection += 1;
        self.world.attach(0, self.last_connection, self.session);
        self.clients.insert(self.last_connection, Client::default());
    }

    fn leaves(&mut self) {
        let all: Vec<u64> = self.clients.keys().copied().collect();
        let from = self.random.of(&all).unwrap();
        self.clients.remove(&from);
        let (connection, by) = (ConnectionId(from), ClosedBy::Node);
        self.world.input(0, Input::Disconnected { connection, by });
        self.world.run();
        self.connects();
    }

    /// A new call, or one that was made before, and nearly always a wish for its tentative reply.
    fn calls(&mut self) {
        let all: Vec<u64> = self.clients.keys().copied().collect();
        let from = self.random.of(&all).unwrap();
        let known: Vec<u64> = self.words.keys().copied().collect();
        let sequence = match self.random.below(3) {
            0 => self.random.of(&known),
            _ => None,
        };
        let sequence = sequence.unwrap_or(known.len() as u64 + 1);
        let word = ["a", "b", "park", "wake"][self.random.below(4)];
        let word = *self.words.entry(sequence).or_insert(word);
        let client = self.clients.get_mut(&from).unwrap();
        client.waits.insert(sequence);
        self.world.call(0, from, id(self.session, sequence), word);
        let submitted = std::mem::take(&mut self.world.shared.borrow_mut().submitted);
        let calls = submitted.into_iter().map(|(_, command)| command);
        for command in calls.filter(|command| command.id.session == self.session) {
            self.open.insert(command.id.sequence, command);
        }
        if self.random.below(4) > 0 {
            self.wants(from, sequence);
        }
    }

    fn wants(&mut self, from: u64, sequence: u64) {
        let client = self.clients.get_mut(&from).unwrap();
        client.wanted.insert(sequence);
        let id = id(self.session, sequence);
        self.world.say(0, from, FromClient::Early { id });
    }

    fn wants_again(&mut self) {
        let all: Vec<u64> = self.clients.keys().copied().collect();
        let from = self.random.of(&all).unwrap();
        let known: Vec<u64> = self.words.keys().copied().collect();
        if let Some(sequence) = self.random.of(&known) {
            self.wants(from, sequence);
        }
    }

    /// A batch of one or two calls that are not decided, of another client's call, or of none.
    fn drawn_batch(&mut self) -> Batch {
        let mut commands = Vec::new();
        if self.random.below(5) == 0 {
            self.others += 1;
            commands.push(call(self.other, self.others, 0, "x"));
        }
        let open: Vec<u64> = self.open.keys().copied().collect();
        for _ in 0..=self.random.below(2) {
            if let Some(sequence) = self.random.of(&open) {
                let command = self.open[&sequence].clone();
                if !commands.contains(&command) {
                    commands.push(command);
                }
            }
        }
        batch(commands)
    }

    fn votes(&mut self) {
        let drawn = self.drawn_batch();
        let later = self.random.below(self.voted.len() + 1);
        self.voted.truncate(later);
        self.voted.push(drawn.clone());
        votes(&mut self.world, later as u64, &drawn);
    }

    /// As it was voted for, or otherwise.
    fn decides(&mut self) {
        let voted = (!self.voted.is_empty()).then(|| self.voted.remove(0));
        let decided = match voted.filter(|_| self.random.below(4) > 0) {
            Some(voted) => voted,
            None => {
                self.voted.clear();
                self.drawn_batch()
            }
        };
        for command in decided.commands() {
            if command.id.session == self.session {
                self.open.remove(&command.id.sequence);
            }
        }
        decides(&mut self.world, &decided);
    }

    fn step(&mut self) {
        self.decided = (self.words.keys().copied())
            .filter(|sequence| !self.open.contains_key(sequence))
            .collect();
        match self.random.below(16) {
            0..5 => self.calls(),
            5..9 => self.votes(),
            9..12 => self.decides(),
            12 => self.wants_again(),
            13 => self.leaves(),
            14 => {
                let held = self.random.below(3);
                self.world.nodes[0].objects.answers_left = (held < 2).then_some(held);
                self.world.run();
            }
            _ => self.world.pass(limits::SPECULATION_PATIENCE),
        }
        self.hears();
    }

    fn hears(&mut self) {
        while !self.world.told.is_empty() {
            for (connection, told) in std::mem::take(&mut self.world.told) {
                self.hears_one(connection.0, told);
            }
        }
    }

    fn hears_one(&mut self, connection: u64, told: ToClient) {
        let Some(client) = self.clients.get_mut(&connection) else {
            return;
        };
        match told {
            ToClient::Tentative { id, value } => {
                let sequence = id.sequence;
                assert!(client.waits.contains(&sequence), "{id} is not awaited");
                assert!(client.wanted.contains(&sequence), "{id} is not wanted");
                assert!(!self.decided.contains(&sequence), "{id} is decided");
                let before = client.told.insert(sequence, value);
                assert_eq!(before, None, "{id} is told once on {connection}");
                self.tentative += 1;
            }
            ToClient::Confirmed { id } => {
                let told = client.told.get(&id.sequence).cloned();
                let told = told.expect("only what was told is confirmed");
                assert!(client.waits.remove(&id.sequence), "{id} is answered once");
                self.confirmed += 1;
                self.is_right(id.sequence, Outcome::Returned(told));
            }
            ToClient::Replied { id, outcome } => {
                assert!(client.waits.remove(&id.sequence), "{id} is answered once");
                self.is_right(id.sequence, outcome);
            }
            ToClient::Refused {
                ask: Ask::Call(id), ..
            } => {
                client.waits.remove(&id.sequence);
                client.told.remove(&id.sequence);
            }
            ToClient::Parked { .. } | ToClient::Leader { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    /// Whether the replica that does not go ahead answers so.
    fn is_right(&mut self, sequence: u64, outcome: Outcome) {
        let word = self.words[&sequence];
        self.world.call(1, 8, id(self.session, sequence), word);
        let right = self.world.outcome(8);
        let right = right.unwrap_or_else(|| panic!("{sequence} is answered"));
        assert_eq!(outcome, right, "of {sequence}");
    }

    /// All is decided, and whoever waits has an answer, or its call is parked.
    fn ends(&mut self) {
        self.world.nodes[0].objects.answers_left = None;
        self.world.run();
        let open: Vec<Command> = std::mem::take(&mut self.open).into_values().collect();
        decides(&mut self.world, &batch(open));
        for _ in 0..self.words.len() {
            self.others += 1;
            let wake = call(self.other, self.others, 0, "wake");
            decides(&mut self.world, &batch(vec![wake]));
        }
        self.hears();
        for (connection, client) in &self.clients {
            assert!(client.waits.is_empty(), "{connection}: {:?}", client.waits);
        }
        assert_eq!(
            self.world.nodes[0].objects.state,
            self.world.nodes[1].objects.state
        );
    }
}

/// Claim rp-132. Claim rp-133.
#[test]
fn what_is_told_early_is_told_once_and_confirmed_only_if_it_is_decided_so() {
    let (mut tentative, mut confirmed) = (0, 0);
    for seed in 0..SEEDS {
        let told = std::panic::catch_unwind(|| {
            let mut story = Story::new(seed);
            (0..STEPS).for_each(|_| story.step());
            story.ends();
            (story.tentative, story.confirmed)
        });
        let told = told.unwrap_or_else(|_| panic!("seed {seed}"));
        tentative += told.0;
        confirmed += told.1;
    }
    assert!(
        confirmed > 100 && tentative >= confirmed,
        "{tentative}, {confirmed}"
    );
}
