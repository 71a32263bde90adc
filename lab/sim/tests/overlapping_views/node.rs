//! One node: a real replica over a real ordering, its disk, and what it told the others.

use quorate_any::{AnyMessage, AnyOrdering};
use quorate_ordering::{
    Config, Damage, Decision, Effect, Effects, Event, LinkState, Mark, Ordering, OrderingStatus,
    Past, Record, Role, Standing, ViewPast,
};
use quorate_replica::{
    Input, Output, PeerMessage, Remembered, Replica, ReplicaConfig, ReplicaMessage, ViewPasts,
};
use quorate_types::{
    Ballot, Batch, ConnectionId, Duration, FromClient, GroupId, Level, Levels, LinkEpoch, NodeId,
    NodeSet, Slot, Time, View, ViewId, ViewNumber, Wall,
};
use std::cell::RefCell;
use std::fmt::{self, Debug, Write};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use twox_hash::XxHash3_64;

const NOW: Time = Time(0);

/// The link between each two nodes, which stands all the time.
const LINK: LinkEpoch = LinkEpoch(1);

/// What a start of a node begins with.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) own: NodeId,
    pub(crate) view: View,
    /// What a client asks of it: at each start, or when it leads where a change names who does.
    pub(crate) requests: Vec<FromClient>,
    pub(crate) boot: u64,
    pub(crate) disk: Arc<Vec<Record>>,
    /// The newest view that its directory names.
    pub(crate) begun: ViewNumber,
}

/// A message on its way.
#[derive(Debug)]
pub(crate) struct Posted {
    /// Tells it from every other message.
    pub(crate) key: u64,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) view: ViewId,
    pub(crate) message: AnyMessage,
}

/// What a node may be given.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Message(Arc<Posted>),
    /// Its requests.
    Requests,
    /// Its clock shows that something is due.
    Wake,
}

/// A node between two inputs. The replica is made anew from what it was given when the next input comes.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) start: Arc<Start>,
    /// What it was given since its start.
    pub(crate) given: Vec<Given>,
    pub(crate) disk: Arc<Vec<Record>>,
    pub(crate) begun: ViewNumber,
    /// The view in force here.
    pub(crate) view: ViewId,
    pub(crate) applied: Slot,
    pub(crate) role: Role,
    pub(crate) promised: Ballot,
    /// What tells two states of the node apart.
    pub(crate) key: u64,
}

/// What came of one input.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) node: Arc<Node>,
    pub(crate) sent: Vec<Arc<Posted>>,
    /// Slots that the node learned to be decided.
    pub(crate) decided: Vec<(Slot, Batch)>,
    /// It found two batches decided for one slot.
    pub(crate) has_conflict: bool,
}

/// An ordering whose decisions are seen by the exploration.
struct Watched {
    inner: AnyOrdering,
    decided: Rc<RefCell<Vec<(Slot, Batch)>>>,
}

impl Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Ordering for Watched {
    type Message = AnyMessage;

    fn view(&self) -> ViewId {
        self.inner.view()
    }

    fn statement(&self) -> Vec<Record> {
        self.inner.statement()
    }

    fn of_view(&self, now: Time, view: View, standing: Standing, past: ViewPast) -> Watched {
        Watched {
            inner: self.inner.of_view(now, view, standing, past),
            decided: self.decided.clone(),
        }
    }

    fn gone(message: &AnyMessage, upto: Slot) -> Option<AnyMessage> {
        AnyOrdering::gone(message, upto)
    }

    fn handle(&mut self, now: Time, event: Event<AnyMessage>, effects: &mut Effects<AnyMessage>) {
        let before = effects.len();
        self.inner.handle(now, event, effects);
        for effect in &effects[before..] {
            if let Effect::Decide { slot, decision } = effect {
                let Decision::Batch(batch) = decision;
                self.decided.borrow_mut().push((*slot, batch.clone()));
            }
        }
    }

    fn next_wake(&self) -> Option<Time> {
        self.inner.next_wake()
    }

    fn status(&self) -> OrderingStatus {
        self.inner.status()
    }

    fn decided(&self) -> Slot {
        self.inner.decided()
    }

    fn batch(&self, slot: Slot) -> Option<&Batch> {
        self.inner.batch(slot)
    }

    fn check(&self) {
        self.inner.check();
    }
}

/// A node while it handles inputs.
struct Running {
    own: NodeId,
    replica: Replica<Watched>,
    decided: Rc<RefCell<Vec<(Slot, Batch)>>>,
    disk: Vec<Record>,
    begun: ViewNumber,
    sent: Vec<(NodeSet, ViewId, AnyMessage)>,
    has_conflict: bool,
}

impl Running {
    fn new(start: &Start) -> Running {
        let past = Past {
            records: (*start.disk).clone(),
            damage: Damage::default(),
        };
        let (past, records) = past.part(start.view.number, start.begun);
        let decided = Rc::new(RefCell::new(Vec::new()));
        let ordering = Watched {
            inner: AnyOrdering::new(config(start), past.records, NOW).unwrap(),
            decided: decided.clone(),
        };
        let remembered = Remembered {
            views: ViewPasts {
                begun: start.begun,
                records,
                is_damaged: false,
            },
            ..Remembered::default()
        };
        let mut replica_config = ReplicaConfig::new(start.own, start.boot, start.view.clone());
        replica_config.speaks = levels(start);
        let (replica, out) = Replica::new(replica_config, ordering, remembered, NOW);
        let mut running = Running {
            own: start.own,
            replica,
            decided,
            disk: (*start.disk).clone(),
            begun: start.begun,
            sent: Vec::new(),
            has_conflict: false,
        };
        let mut inputs = Vec::new();
        for peer in start.view.nodes().without(start.own).iter() {
            // A crash breaks no link: nobody hears of later starts.
            let (boot, levels) = (1, levels(start));
            inputs.push(Input::Greeted { peer, boot, levels });
            let state = LinkState::Up(LINK);
            inputs.push(Input::Link { peer, state });
            // Commands wait until a majority's clocks are known.
            let (wall, votes) = (Wall(1), true);
            inputs.push(Input::Peer {
                from: peer,
                link: LINK,
                message: PeerMessage::Replica(ReplicaMessage::Clock { wall, votes }),
            });
        }
        if !start.asks_leader() {
            inputs.extend(requests(start));
        }
        running.turn(inputs, out, true);
        running
    }

    /// One turn, with everything durable after it, or nothing.
    fn turn(
        &mut self,
        inputs: Vec<Input<AnyMessage>>,
        mut out: Vec<Output<AnyMessage>>,
        writes: bool,
    ) {
        for input in inputs {
            self.replica.handle(NOW, input, &mut out);
        }
        loop {
            let turn = Input::TurnEnd {
                wall: Wall(1),
                entropy: 0,
            };
            self.replica.handle(NOW, turn, &mut out);
            self.replica.check();
            let mark = self.perform(std::mem::take(&mut out), writes);
            let Some(mark) = mark.filter(|_| writes) else {
                break;
            };
            self.replica
                .handle(NOW, Input::Persisted { mark }, &mut out);
        }
    }

    /// Returns the newest write.
    fn perform(&mut self, out: Vec<Output<AnyMessage>>, writes: bool) -> Option<Mark> {
        let mut newest = None;
        for output in out {
            match output {
                Output::Persist { mark, record } => {
                    newest = Some(mark);
                    if writes {
                        self.disk.push(record);
                    }
                }
                Output::Send {
                    to,
                    message: PeerMessage::Ordering { view, message },
                    ..
                } => self.sent.push((to, view, message)),
                Output::BeginView { number, .. } => self.begun = number,
                Output::Conflict(_) => self.has_conflict = true,
                _ => {}
            }
        }
        newest
    }

    fn give(&mut self, start: &Start, given: &Given, writes: bool) {
        let inputs = match given {
            Given::Message(posted) => vec![Input::Peer {
                from: posted.from,
                link: LINK,
                message: PeerMessage::Ordering {
                    view: posted.view,
                    message: posted.message.clone(),
                },
            }],
            Given::Requests => requests(start).collect(),
            Given::Wake => vec![Input::Wake],
        };
        self.turn(inputs, Vec::new(), writes);
    }

    /// A digest of the node's whole state as text, without the numbers of its writes: they only count.
    fn key(&self) -> u64 {
        let mut text = String::new();
        let (replica, disk, begun) = (&self.replica, &self.disk, self.begun);
        write!(text, "{replica:?} {disk:?} {begun:?}").expect("a string takes any text");
        let mut digest = XxHash3_64::new();
        for part in text.split("Mark(") {
            let unnumbered = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
            unnumbered.hash(&mut digest);
        }
        digest.finish()
    }

    fn step(self, start: Arc<Start>, given: Vec<Given>) -> Step {
        let status = self.replica.status();
        let sent = self.sent.iter();
        let sent = sent.flat_map(|(to, view, message)| {
            to.iter()
                .map(|to| Arc::new(Posted::new(self.own, to, *view, message)))
        });
        let node = Node {
            start,
            given,
            disk: Arc::new(self.disk.clone()),
            begun: self.begun,
            view: ViewId {
                group: GroupId(1),
                number: self.replica.view().number,
            },
            applied: status.applied,
            role: status.ordering.role,
            promised: status.ordering.promised,
            key: self.key(),
        };
        Step {
            node: Arc::new(node),
            sent: sent.collect(),
            decided: self.decided.take(),
            has_conflict: self.has_conflict,
        }
    }
}

impl Start {
    /// Whether a client asks this node while it leads and not before: a change then names who leads the next view first.
    fn asks_leader(&self) -> bool {
        self.view.level >= Level::FIRST_BALLOT
    }
}

fn requests(start: &Start) -> impl Iterator<Item = Input<AnyMessage>> {
    let from = ConnectionId(1);
    let messages = start.requests.iter().cloned();
    messages.map(move |message| Input::Client { from, message })
}

/// What all nodes speak.
fn levels(start: &Start) -> Levels {
    Levels::new(Level::UNNAMED, start.view.level).expect("ascending")
}

fn config(start: &Start) -> Config {
    let mut config = Config::new(GroupId(1), start.own, start.boot, start.view.clone(), 1);
    config.timing.lease = Duration::ZERO;
    config.timing.retry_min = Duration::ZERO;
    config.timing.retry_max = Duration::ZERO;
    config.timing.election_max = config.timing.election_min;
    config.limits.batch_commands = 1;
    config
}

impl Given {
    /// Tells it from all else that a node may be given.
    pub(crate) fn key(&self) -> u64 {
        match self {
            Given::Message(posted) => posted.key,
            Given::Requests => 0,
            Given::Wake => 1,
        }
    }
}

impl Posted {
    pub(crate) fn new(from: NodeId, to: NodeId, view: ViewId, message: &AnyMessage) -> Posted {
        let mut digest = XxHash3_64::new();
        format!("{from}{to}{view}{message:?}").hash(&mut digest);
        Posted {
            key: digest.finish(),
            from,
            to,
            view,
            message: message.clone(),
        }
    }
}

impl Node {
    /// Starts a node.
    pub(crate) fn start(start: Start) -> Step {
        Running::new(&start).step(Arc::new(start), Vec::new())
    }

    /// It is given one thing more. If the node crashes at it, nothing of what it writes is kept, and it starts again.
    pub(crate) fn step(&self, newest: &Given, crashes: bool) -> Step {
        let mut running = Running::new(&self.start);
        for given in &self.given {
            running.give(&self.start, given, true);
        }
        running.sent.clear();
        running.decided.borrow_mut().clear();
        running.give(&self.start, newest, !crashes);
        if !crashes {
            let mut given = self.given.clone();
            given.push(newest.clone());
            return running.step(self.start.clone(), given);
        }
        let before = running.step(self.start.clone(), Vec::new());
        let mut after = Node::start(Start {
            boot: self.start.boot + 1,
            disk: self.disk.clone(),
            begun: self.begun,
            ..(*self.start).clone()
        });
        after.sent.splice(0..0, before.sent);
        after.decided.splice(0..0, before.decided);
        after.has_conflict |= before.has_conflict;
        after
    }
}
