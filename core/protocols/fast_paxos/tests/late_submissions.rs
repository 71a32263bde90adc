//! What was refused because its time was over is sent no more, and once where it is submitted again.

use quorate_fast_paxos::FastPaxos;
use quorate_fast_paxos::message::{Any, Message};
use quorate_ordering::{Config, Effect, Effects, Event, LinkState, Ordering};
use quorate_testkit::{VIEW, call, view};
use quorate_types::{
    Ballot, Command, Duration, LinkEpoch, NodeId, Persistence, Refusal, Slot, Time, ViewNumber,
    Wall,
};

const LEADER: NodeId = NodeId(1);

/// A node that may have one value at a time undecided, and follows a leader that has opened all slots.
struct Proposer {
    instance: FastPaxos,
    now: Time,
}

impl Proposer {
    fn new() -> Proposer {
        let mut config = Config::new(VIEW.group, NodeId(3), 1, view(4, 4, Persistence::Memory), 7);
        config.limits.pipeline = 1;
        let instance = FastPaxos::new(config, Vec::new(), Time(0)).unwrap();
        let mut proposer = Proposer {
            instance,
            now: Time(0),
        };
        let (peer, state) = (LEADER, LinkState::Up(LinkEpoch(1)));
        proposer.turn(Event::Executed { slot: Slot::ZERO });
        proposer.turn(Event::Link { peer, state });
        proposer.hear_leader();
        proposer
    }

    /// One event and the end of its turn.
    fn turn(&mut self, event: Event<Message>) -> Vec<Effect<Message>> {
        let mut effects = Effects::default();
        self.instance.handle(self.now, event, &mut effects);
        let (wall, entropy) = (Wall(self.now.0 + 1), 7);
        let end = Event::TurnEnd { wall, entropy };
        self.instance.handle(self.now, end, &mut effects);
        self.instance.check();
        effects
    }

    fn hear_leader(&mut self) {
        let ballot = Ballot::ZERO.next(ViewNumber(1), LEADER, 1);
        let (from, link, view) = (LEADER, LinkEpoch(1), self.instance.view());
        let message = Message::Any(Any {
            ballot,
            from: Slot(1),
        });
        self.turn(Event::Receive {
            from,
            link,
            view,
            message,
        });
    }

    /// Submits these calls. Returns what is proposed then.
    fn submit(&mut self, numbers: &[u64]) -> Vec<u64> {
        let command = |number: &u64| call(1, *number, b"a");
        let commands = numbers.iter().map(command).collect();
        proposed(&self.turn(Event::Submit { commands }))
    }
}

/// The calls of the values that are sent to the leader.
fn proposed(effects: &[Effect<Message>]) -> Vec<u64> {
    let sent = effects.iter().filter_map(|effect| match effect {
        Effect::Send {
            message: Message::Propose(propose),
            ..
        } => Some(propose.batch.commands()),
        _ => None,
    });
    let number = |command: &Command| command.id.sequence;
    sent.flatten().map(number).collect()
}

#[test]
fn what_was_refused_before_it_was_sent_is_sent_once_when_it_is_submitted_again() {
    let mut proposer = Proposer::new();
    assert_eq!(proposer.submit(&[1]), [1]);
    assert_eq!(proposer.submit(&[2]), [], "one value is open");
    proposer.now = Time(0) + Duration::from_millis(1_000);
    proposer.hear_leader();
    assert_eq!(proposer.submit(&[3]), []);
    proposer.now = Time(0) + Duration::from_millis(3_000);
    proposer.hear_leader();
    let mut effects = Effects::default();
    let now = proposer.now;
    proposer.instance.handle(now, Event::Wake, &mut effects);
    let refused: Vec<(u64, Refusal)> = effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Refuse { command, refusal } => Some((command.sequence, refusal)),
            _ => None,
        })
        .collect();
    let late = [(1, Refusal::Unknown), (2, Refusal::NotOrdered)];
    assert_eq!(refused, late, "the third has a second more");
    assert_eq!(proposer.submit(&[2]), [3, 2]);
}
