//! Parked calls under random loads: replicas lag, fall behind the log and begin anew, and hold the same all the same.

use crate::world::{World, call, id, meta};
use quorate_replica::{Input, KeptLimits};
use quorate_types::{Body, ClosedBy, Command, ConnectionId, Duration, SessionId, Slot, ToClient};

const SEEDS: u64 = 150;

/// A few answers of parked calls fit.
const FEW: KeptLimits = KeptLimits {
    counted_min: 1,
    session_bytes: 1_700,
    group_bytes: 4_000,
};

struct Drawn(u64);

impl Drawn {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

struct Client {
    session: SessionId,
    sequence: u64,
    acknowledged: u64,
    /// What it called, in the order of sequences.
    called: Vec<&'static str>,
}

impl Client {
    /// The next call, or one that was decided before, which may acknowledge what it likes.
    fn next(&mut self, random: &mut Drawn) -> Command {
        let ahead = random.below(self.sequence - self.acknowledged + 1);
        self.acknowledged += ahead;
        if self.sequence > 0 && random.below(5) == 0 {
            let sequence = 1 + random.below(self.sequence);
            let word = self.called[sequence as usize - 1];
            return call(self.session, sequence, self.acknowledged, word);
        }
        self.sequence += 1;
        let word = ["park", "park", "wake", "wake", "a"][random.below(5) as usize];
        self.called.push(word);
        call(self.session, self.sequence, self.acknowledged, word)
    }
}

fn close(session: SessionId) -> Command {
    Command {
        id: id(session, 0),
        acknowledged: 0,
        body: Body::Close,
    }
}

fn disturb(world: &mut World, random: &mut Drawn) {
    let at = 1 + random.below(2) as usize;
    match random.below(8) {
        0 => world.nodes[at].objects.answers_left = Some(random.below(4) as usize),
        1 => world.nodes[at].objects.answers_left = None,
        2 => {
            world.shared.borrow_mut().deaf.insert(2);
        }
        3 => {
            let stable = world.nodes[0].replica.status().stable;
            let mut shared = world.shared.borrow_mut();
            shared.trimmed = shared.trimmed.max(stable);
            shared.deaf.clear();
        }
        4 => {
            world.decide(vec![meta(Body::Checkpoint)]);
        }
        _ => {}
    }
    world.run();
}

/// Claim rp-57.
#[test]
fn replicas_hold_the_same_parked_and_answered_calls_however_far_they_are() {
    for seed in 0..SEEDS {
        run(seed);
    }
}

fn run(seed: u64) {
    let mut random = Drawn(seed);
    let mut world = World::with(3, |config| config.kept = FEW);
    let mut clients: Vec<Client> = (5..9)
        .map(|from| Client {
            session: world.open(0, from),
            sequence: 0,
            acknowledged: 0,
            called: Vec::new(),
        })
        .collect();
    for _ in 0..80 {
        disturb(&mut world, &mut random);
        let mut commands = Vec::new();
        for _ in 0..=random.below(3) {
            let at = random.below(clients.len() as u64) as usize;
            if random.below(60) == 0 && clients.len() > 2 {
                commands.push(close(clients.remove(at).session));
            } else {
                commands.push(clients[at].next(&mut random));
            }
        }
        world.decide(commands);
    }
    world.shared.borrow_mut().deaf.clear();
    for node in &mut world.nodes {
        node.objects.answers_left = None;
    }
    world.run();
    let slot = snapshot_everywhere(&mut world, seed);
    let cores: Vec<_> = (world.nodes.iter())
        .map(|node| node.objects.images[&slot].core.clone())
        .collect();
    assert_eq!(cores[1], cores[0], "seed {seed}");
    assert_eq!(cores[2], cores[0], "seed {seed}");
    let kept: Vec<_> = (world.nodes.iter())
        .map(|node| node.replica.status().kept_bytes)
        .collect();
    assert_eq!(kept, [kept[0]; 3], "seed {seed}");
    for client in &clients {
        answered_alike(&mut world, client, seed);
    }
}

/// Lets time pass until all have taken a snapshot at one slot.
fn snapshot_everywhere(world: &mut World, seed: u64) -> Slot {
    for _ in 0..20 {
        world.pass(Duration::from_millis(1_000));
        let slot = world.checkpoint(0);
        let mut nodes = world.nodes.iter();
        if nodes.all(|node| node.objects.images.contains_key(&slot)) {
            return slot;
        }
    }
    panic!("seed {seed}: a replica takes no snapshots");
}

/// Each node tells who asks again the same, and executes nothing.
fn answered_alike(world: &mut World, client: &Client, seed: u64) {
    let submitted = world.shared.borrow().last();
    for (sequence, word) in (1..).zip(&client.called) {
        let told: Vec<Vec<ToClient>> = (0..3)
            .map(|at| {
                let connection = 100 + at as u64;
                world.call(at, connection, id(client.session, sequence), word);
                let told = world.take_told(connection);
                let connection = ConnectionId(connection);
                world.input(
                    at,
                    Input::Disconnected {
                        connection,
                        by: ClosedBy::Client,
                    },
                );
                told
            })
            .collect();
        assert_eq!(told[1], told[0], "seed {seed}, sequence {sequence}");
        assert_eq!(told[2], told[0], "seed {seed}, sequence {sequence}");
        assert_eq!(told[0].len(), 1, "seed {seed}: {told:?}");
    }
    assert_eq!(world.shared.borrow().last(), submitted, "seed {seed}");
}
