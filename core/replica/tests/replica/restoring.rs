//! Drawn histories: whatever the timing, and whether from the beginning or from a snapshot, the same
//! log gives the same replies, digests and sessions, and executes nothing twice.

use crate::views::{WINDOW, change};
use crate::world::{Instant, Objects, Shared, batch, call, config, id, meta, secret};
use proptest::prelude::*;
use quorate_ordering::Ordering;
use quorate_replica::{Input, KeptLimits, Output, Recovered, Remembered, Replica, SnapshotCore};
use quorate_types::{
    Ballot, Batch, Body, Command, ConnectionId, FromClient, Level, LimitChange, MemberChange,
    NodeId, ObjectId, SecretHash, SessionId, SessionTerms, Slot, Time, ToClient, ViewNumber, Wall,
};
use std::cell::RefCell;
use std::rc::Rc;

/// One command of a drawn history, before sessions have their ids.
#[derive(Clone, Debug)]
enum Step {
    Call {
        session: usize,
        sequence: u64,
        acknowledged: u64,
        variant: u8,
    },
    Open,
    Close(usize),
    Expire {
        session: usize,
        back: u64,
    },
    Lead(u64),
    Checkpoint,
    /// Another limit, unless a view is about to begin.
    Limit(LimitChange),
}

fn step() -> impl Strategy<Value = Step> {
    let call = (0..4usize, 1..12u64, 0..6u64, 0..8u8).prop_map(
        |(session, sequence, acknowledged, variant)| Step::Call {
            session,
            sequence,
            acknowledged,
            variant: variant / 7,
        },
    );
    prop_oneof![
        20 => call,
        2 => Just(Step::Open),
        1 => (0..4usize).prop_map(Step::Close),
        1 => (0..4usize, 0..6u64).prop_map(|(session, back)| Step::Expire { session, back }),
        1 => (0..6u64).prop_map(Step::Lead),
        1 => Just(Step::Checkpoint),
        1 => (1..5u64).prop_map(|count| Step::Limit(LimitChange::Sessions(count))),
        1 => (3..9u64).prop_map(|replies| Step::Limit(LimitChange::Replies(16 * replies))),
    ]
}

fn history() -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(prop::collection::vec(step(), 0..5), 2..40)
}

/// Gives sessions their ids: the last four opened so far.
fn log_of(history: &[Vec<Step>]) -> Vec<Batch> {
    let mut opened = vec![SessionId(1 << 16)];
    let opens = || {
        vec![meta(Body::Open {
            hash: secret(1).hash(),
            terms: SessionTerms::default(),
            tenant: SecretHash::default(),
        })]
    };
    let mut log = vec![batch(opens())];
    let mut view = (1, Slot::ZERO);
    for steps in history {
        let slot = Slot(log.len() as u64 + 1);
        let mut commands = Vec::new();
        for step in steps {
            let pick = |nth: usize| opened[opened.len() - 1 - nth % opened.len().min(4)];
            let mut command = command_of(step, slot, pick);
            if let Body::ChangeView { change, .. } = &mut command.body {
                change.after = ViewNumber(view.0);
                if slot >= view.1 {
                    view = (view.0 + 1, slot.plus(WINDOW));
                }
            }
            if let Body::Open { hash, .. } = &mut command.body {
                *hash = secret(opened.len() as u64 + 1).hash();
                opened.push(SessionId::opened_at(slot, commands.len()));
            }
            commands.push(command);
        }
        log.push(batch(commands));
    }
    log.push(batch(vec![meta(Body::Checkpoint)]));
    log
}

fn command_of(step: &Step, slot: Slot, pick: impl Fn(usize) -> SessionId) -> Command {
    match *step {
        Step::Call {
            session,
            sequence,
            acknowledged,
            variant,
        } => {
            let text = format!("{sequence}/{variant}");
            call(pick(session), sequence, acknowledged, &text)
        }
        Step::Open => meta(Body::Open {
            hash: secret(1).hash(),
            terms: SessionTerms::default(),
            tenant: SecretHash::default(),
        }),
        Step::Close(session) => Command {
            id: id(pick(session), 0),
            acknowledged: 0,
            body: Body::Close,
        },
        Step::Expire { session, back } => meta(Body::Expire {
            session: pick(session),
            judged_by: Slot(slot.0.saturating_sub(back)),
        }),
        Step::Lead(round) => meta(Body::Lead {
            ballot: Ballot {
                round,
                ..Ballot::ZERO
            },
        }),
        Step::Checkpoint => meta(Body::Checkpoint),
        Step::Limit(limit) => meta(Body::ChangeView {
            first: None,
            change: change(1, &[0]),
            who: Box::new(MemberChange::Limit(limit)),
        }),
    }
}

/// One replica alone with its log and objects.
struct Alone {
    replica: Replica<Instant>,
    objects: Objects,
    shared: Rc<RefCell<Shared>>,
    told: Vec<ToClient>,
}

impl Alone {
    fn new(recovered: Option<(Recovered, Objects)>, sessions_max: usize) -> Alone {
        let shared = Rc::new(RefCell::new(Shared::default()));
        let mut config = config(1, 0);
        config.sessions_max = sessions_max;
        (config.view.window, config.view.level) = (WINDOW, Level::LIMITS);
        // A reply of these objects has 16 bytes.
        config.kept = KeptLimits {
            counted_min: 1,
            session_bytes: 48,
            group_bytes: 16 * 4 * sessions_max,
        };
        let ordering = Instant::new(NodeId(0), Rc::clone(&shared));
        let (recovered, objects) = recovered.unzip();
        let remembered = Remembered {
            snapshot: recovered,
            ..Remembered::default()
        };
        let (replica, _) = Replica::new(config, ordering, remembered, Time(1));
        Alone {
            replica,
            objects: objects.unwrap_or_default(),
            shared,
            told: Vec::new(),
        }
    }

    fn input(&mut self, input: Input<u32>) {
        let mut out = Vec::new();
        self.replica.handle(Time(1), input, &mut out);
        self.replica.check();
        for output in out {
            match output {
                Output::Reply { message, .. } => self.told.push(message),
                other => self.objects.perform(other),
            }
        }
    }

    /// Learns the log up to each slot in turn; after slot `i` the objects answer `lags[i]` times.
    fn learn(&mut self, log: &[Batch], lags: &[usize]) {
        for (place, batch) in log.iter().enumerate() {
            if place < self.shared.borrow().log.len() {
                continue;
            }
            self.shared.borrow_mut().log.push(batch.clone());
            self.input(Input::Wake);
            let lag = lags.get(place % lags.len().max(1)).copied();
            self.objects.answers_left = lag;
            while let Some(input) = self.objects.next() {
                self.input(input);
            }
        }
        self.objects.answers_left = None;
        while let Some(input) = self.objects.next() {
            self.input(input);
        }
    }

    /// What clients get who ask again for everything that may have been executed.
    fn asked_again(&mut self, sessions: &[SessionId]) -> Vec<ToClient> {
        self.shared.borrow_mut().holds_submissions = true;
        self.told.clear();
        for &session in sessions {
            for sequence in 1..12 {
                let Body::Call { payload, .. } =
                    call(session, sequence, 0, &format!("{sequence}/0")).body
                else {
                    unreachable!("a call was made");
                };
                let message = FromClient::Call {
                    id: id(session, sequence),
                    acknowledged: 0,
                    object: ObjectId(0),
                    payload,
                };
                let from = ConnectionId(1);
                self.input(Input::Client { from, message });
            }
        }
        let wall = Wall(1);
        self.input(Input::TurnEnd { wall, entropy: 0 });
        self.told
            .retain(|told| !matches!(told, ToClient::Leader { .. }));
        std::mem::take(&mut self.told)
    }

    fn last_core(&self) -> &SnapshotCore {
        let (_, image) = self.objects.images.last_key_value().expect("one is taken");
        &image.core
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Claim rp-16. Claim rp-153.
    #[test]
    fn the_same_log_gives_the_same_state_whatever_the_timing_and_wherever_it_is_resumed(
        history in history(),
        lags in prop::collection::vec(0..3usize, 1..8),
        other_lags in prop::collection::vec(0..3usize, 1..8),
        sessions_max in 1..5usize,
    ) {
        let log = log_of(&history);
        let mut one = Alone::new(None, sessions_max);
        let mut other = Alone::new(None, sessions_max);
        one.learn(&log, &lags);
        other.learn(&log, &other_lags);
        let status = one.replica.status();
        prop_assert_eq!(status.executed, Slot(log.len() as u64));
        prop_assert_eq!(status.digest, other.replica.status().digest);
        for (slot, image) in &one.objects.images {
            if let Some(same) = other.objects.images.get(slot) {
                prop_assert_eq!(&image.core, &same.core);
                prop_assert_eq!(image.state, same.state);
            }
        }
        let sessions: Vec<SessionId> =
            one.last_core().sessions.iter().map(|session| session.id).collect();
        let answers = one.asked_again(&sessions);
        for image in one.objects.images.values().cloned().collect::<Vec<_>>() {
            let recovered = Recovered { core: image.core.clone(), digest: [0; 32], bytes: 1, due: None };
            let objects = Objects::restored(&image);
            let mut resumed = Alone::new(Some((recovered, objects)), sessions_max);
            let known = image.core.slot.0 as usize;
            resumed.shared.borrow_mut().log = log[..known].to_vec();
            resumed.learn(&log, &other_lags);
            prop_assert_eq!(resumed.objects.state, one.objects.state);
            prop_assert_eq!(resumed.replica.status().digest, status.digest);
            prop_assert_eq!(resumed.replica.status().sessions, status.sessions);
            prop_assert_eq!(&resumed.asked_again(&sessions), &answers);
            for (slot, same) in &resumed.objects.images {
                if let Some(image) = one.objects.images.get(slot) {
                    prop_assert_eq!(&image.core, &same.core);
                }
            }
            prop_assert_eq!(resumed.replica.ordering().status().decided, status.decided);
        }
    }
}
