//! A node that is asked for decisions: however often a learner asks, no more is on its way to it than one chunk. A node that asks: however
//! often a peer says that it has trimmed them, the next one is asked.

use quorate_ordering::{Config, Effect, Event, LinkState, Ordering};
use quorate_paxos::message::{Learn, Learned, Trimmed};
use quorate_paxos::{Message, MultiPaxos};
use quorate_testkit::{VIEW, call, received, turn, view};
use quorate_types::{
    Batch, Duration, LinkEpoch, NodeId, NodeSet, Persistence, Slot, Stamp, Time, Wall,
};

const SLOTS: u64 = 6;
const PAYLOAD: &[u8] = &[0; 600];

/// A follower that knows the decisions of a few slots.
struct Teacher {
    paxos: MultiPaxos,
    now: Time,
    /// How long a learner waits for an answer before it asks somebody else.
    patience: Duration,
}

impl Teacher {
    fn new(adjust: impl Fn(&mut Config)) -> Teacher {
        let view = view(3, 3, Persistence::Memory);
        let mut config = Config::new(VIEW.group, NodeId(1), 1, view, 1);
        adjust(&mut config);
        let patience = config.timing.resend;
        let now = Time(1_000_000_000);
        let paxos = MultiPaxos::new(config, Vec::new(), now).unwrap();
        let mut teacher = Teacher {
            paxos,
            now,
            patience,
        };
        let slot = Slot::ZERO;
        teacher.event(Event::Executed { slot });
        for peer in [2, 3].map(NodeId) {
            let state = LinkState::Up(LinkEpoch(1));
            teacher.event(Event::Link { peer, state });
        }
        let stamp = Stamp {
            wall: Wall(5),
            entropy: 0,
        };
        let batch = |sequence| Batch::new(stamp, vec![call(7, sequence, PAYLOAD)]);
        teacher.receive(
            3,
            Message::Learned(Learned {
                from: Slot(1),
                batches: (1..=SLOTS).map(batch).collect(),
                decided: Slot(SLOTS),
            }),
        );
        teacher
    }

    fn event(&mut self, event: Event<Message>) -> Vec<Effect<Message>> {
        turn(&mut self.paxos, self.now, event)
    }

    fn receive(&mut self, from: u16, message: Message) -> Vec<Effect<Message>> {
        self.event(received(from, message))
    }

    /// First slot and number of slots of each answer to a question from `slot` on.
    fn asked(&mut self, by: u16, slot: u64) -> Vec<(u64, usize)> {
        let from = Slot(slot);
        let effects = self.receive(by, Message::Learn(Learn { from }));
        let answers = effects.into_iter().filter_map(|effect| match effect {
            Effect::Send {
                message: Message::Learned(Learned { from, batches, .. }),
                ..
            } => Some((from.0, batches.len())),
            _ => None,
        });
        answers.collect()
    }
}

#[test]
fn a_learner_that_asks_again_gets_nothing_while_the_answer_is_on_its_way() {
    let mut teacher = Teacher::new(|config| config.limits.chunk_slots = 2);
    assert_eq!(teacher.asked(2, 1), [(1, 2)]);
    for _ in 0..3 {
        teacher.now = teacher.now + teacher.patience;
        assert_eq!(teacher.asked(2, 1), []);
        assert_eq!(teacher.asked(2, 2), []);
    }
    assert_eq!(teacher.asked(3, 1), [(1, 2)], "another one has got nothing");
    assert_eq!(teacher.asked(2, 3), [(3, 2)], "the first answer came");
    teacher.now = teacher.now + Duration(teacher.patience.0 * 4);
    assert_eq!(teacher.asked(2, 3), [(3, 2)], "the second answer is lost");
}

#[test]
fn an_answer_has_the_bytes_of_one_chunk_and_one_slot_at_least() {
    let answers = |bytes| {
        let mut teacher = Teacher::new(|config| config.limits.chunk_bytes = bytes);
        teacher.asked(2, 1)
    };
    assert_eq!(answers(PAYLOAD.len() * 3), [(1, 2)]);
    assert_eq!(answers(1), [(1, 1)], "however large that slot is");
    assert_eq!(answers(1 << 20), [(1, 6)]);
}

/// It says so to each pre-vote of a view that is gone there. Claim mp-36.
#[test]
fn a_peer_that_says_again_what_it_trimmed_puts_off_no_question_to_the_next() {
    let mut learner = Teacher::new(|config| config.timing.read = config.timing.resend);
    let upto = Slot(SLOTS + 9);
    let ends = learner.now + Duration(learner.patience.0 * 3);
    let mut asked = NodeSet::empty();
    while learner.now < ends {
        let mut effects = learner.receive(2, Message::Trimmed(Trimmed { upto }));
        if learner
            .paxos
            .next_wake()
            .is_some_and(|due| due <= learner.now)
        {
            effects.extend(learner.event(Event::Wake));
        }
        for effect in effects {
            if let Effect::Send {
                to,
                message: Message::Learn(_),
                ..
            } = effect
            {
                to.iter().for_each(|peer| {
                    asked.insert(peer);
                });
            }
        }
        learner.now = learner.now + Duration::from_millis(10);
    }
    assert!(asked.contains(NodeId(3)), "it asked {asked:?}");
}
