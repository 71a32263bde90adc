//! All ordering protocols behind one type. This is the only crate that names them.
//!
//! Nodes, bytes and the lab use [`AnyOrdering`] and [`AnyMessage`]. To add a protocol, add a variant to
//! each enum, the name by which a view asks for it, and the arms that the compiler asks for. Nothing is decided here: a message of another
//! protocol than the instance's is dropped.
#![forbid(unsafe_code)]

pub use quorate_fast_paxos as fast_paxos;
pub use quorate_paxos as paxos;

use fast_paxos::FastPaxos;
use paxos::MultiPaxos;
use quorate_acceptor::{ForeignRecord, Testimony};
use quorate_ordering::{
    Config, Effects, Event, Handover, Ordering, OrderingStatus, Record, Standing, ViewPast,
};
use quorate_types::{Batch, OrderingName, Slot, Time, View, ViewId};

/// A message between the instances of a view, of any protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnyMessage {
    /// Of Multi-Paxos.
    Paxos(paxos::Message),
    /// Of Fast Paxos.
    FastPaxos(fast_paxos::Message),
}

/// One node's instance of a protocol for one view.
#[derive(Clone, PartialEq, Debug)]
pub enum AnyOrdering {
    /// Of Multi-Paxos.
    Paxos(Box<MultiPaxos>),
    /// Of Fast Paxos.
    FastPaxos(Box<FastPaxos>),
}

impl AnyMessage {
    /// What the message binds its sender to.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'_> {
        match self {
            AnyMessage::Paxos(message) => message.testimony(),
            AnyMessage::FastPaxos(message) => message.testimony(),
        }
    }
}

impl AnyOrdering {
    /// Makes an instance of the protocol that the view names from `recovered`, the records of its log in their order. The first
    /// event must be [`Event::Executed`] with the slot of the snapshot that the replica restored.
    ///
    /// # Errors
    /// When a record is of another view.
    pub fn new(
        config: Config,
        recovered: Vec<Record>,
        now: Time,
    ) -> Result<AnyOrdering, ForeignRecord> {
        match config.view.ordering {
            OrderingName::Paxos
            | OrderingName::Libpaxos
            | OrderingName::LibpaxosPlus
            | OrderingName::RingPaxos
            | OrderingName::SPaxos => {
                let instance = MultiPaxos::new(config, recovered, now)?;
                Ok(AnyOrdering::Paxos(Box::new(instance)))
            }
            OrderingName::FastPaxos => {
                let instance = FastPaxos::new(config, recovered, now)?;
                Ok(AnyOrdering::FastPaxos(Box::new(instance)))
            }
        }
    }

    fn handover(&self) -> Handover {
        match self {
            AnyOrdering::Paxos(instance) => instance.handover(),
            AnyOrdering::FastPaxos(instance) => instance.handover(),
        }
    }
}

impl Ordering for AnyOrdering {
    type Message = AnyMessage;

    fn view(&self) -> ViewId {
        match self {
            AnyOrdering::Paxos(instance) => instance.view(),
            AnyOrdering::FastPaxos(instance) => instance.view(),
        }
    }

    fn statement(&self) -> Vec<Record> {
        match self {
            AnyOrdering::Paxos(instance) => instance.statement(),
            AnyOrdering::FastPaxos(instance) => instance.statement(),
        }
    }

    fn of_view(&self, now: Time, view: View, standing: Standing, past: ViewPast) -> AnyOrdering {
        let ordering = view.ordering;
        match (self, ordering) {
            (
                AnyOrdering::Paxos(instance),
                OrderingName::Paxos
                | OrderingName::Libpaxos
                | OrderingName::LibpaxosPlus
                | OrderingName::RingPaxos
                | OrderingName::SPaxos,
            ) => AnyOrdering::Paxos(Box::new(instance.of_view(now, view, standing, past))),
            (
                AnyOrdering::FastPaxos(_),
                OrderingName::Paxos
                | OrderingName::Libpaxos
                | OrderingName::LibpaxosPlus
                | OrderingName::RingPaxos
                | OrderingName::SPaxos,
            ) => AnyOrdering::Paxos(Box::new(MultiPaxos::begin(
                now,
                self.handover().begin(view, standing, past),
            ))),
            (AnyOrdering::Paxos(_) | AnyOrdering::FastPaxos(_), OrderingName::FastPaxos) => {
                AnyOrdering::FastPaxos(Box::new(FastPaxos::begin(
                    now,
                    self.handover().begin(view, standing, past),
                )))
            }
        }
    }

    fn gone(message: &AnyMessage, upto: Slot) -> Option<AnyMessage> {
        match message {
            AnyMessage::Paxos(message) => MultiPaxos::gone(message, upto).map(AnyMessage::Paxos),
            AnyMessage::FastPaxos(message) => {
                FastPaxos::gone(message, upto).map(AnyMessage::FastPaxos)
            }
        }
    }

    fn handle(&mut self, now: Time, event: Event<AnyMessage>, effects: &mut Effects<AnyMessage>) {
        match self {
            AnyOrdering::Paxos(instance) => {
                let event = event.try_map(|message| match message {
                    AnyMessage::Paxos(message) => Some(message),
                    AnyMessage::FastPaxos(_) => None,
                });
                pass(&mut **instance, now, event, effects, AnyMessage::Paxos);
            }
            AnyOrdering::FastPaxos(instance) => {
                let event = event.try_map(|message| match message {
                    AnyMessage::FastPaxos(message) => Some(message),
                    AnyMessage::Paxos(_) => None,
                });
                pass(&mut **instance, now, event, effects, AnyMessage::FastPaxos);
            }
        }
    }

    fn next_wake(&self) -> Option<Time> {
        match self {
            AnyOrdering::Paxos(instance) => instance.next_wake(),
            AnyOrdering::FastPaxos(instance) => instance.next_wake(),
        }
    }

    fn status(&self) -> OrderingStatus {
        match self {
            AnyOrdering::Paxos(instance) => instance.status(),
            AnyOrdering::FastPaxos(instance) => instance.status(),
        }
    }

    fn decided(&self) -> Slot {
        match self {
            AnyOrdering::Paxos(instance) => instance.decided(),
            AnyOrdering::FastPaxos(instance) => instance.decided(),
        }
    }

    fn batch(&self, slot: Slot) -> Option<&Batch> {
        match self {
            AnyOrdering::Paxos(instance) => instance.batch(slot),
            AnyOrdering::FastPaxos(instance) => instance.batch(slot),
        }
    }

    fn check(&self) {
        match self {
            AnyOrdering::Paxos(instance) => instance.check(),
            AnyOrdering::FastPaxos(instance) => instance.check(),
        }
    }
}

/// Passes an event to `instance` and wraps its messages.
fn pass<O: Ordering>(
    instance: &mut O,
    now: Time,
    event: Option<Event<O::Message>>,
    effects: &mut Effects<AnyMessage>,
    wrap: fn(O::Message) -> AnyMessage,
) {
    let Some(event) = event else {
        return;
    };
    let mut own = Vec::new();
    instance.handle(now, event, &mut own);
    effects.extend(own.into_iter().map(|effect| effect.map(wrap)));
}
