//! Datagrams of values: cut, lost, repeated, out of turn, of others, and garbage.

use bytes::{Bytes, BytesMut};
use quorate_any::AnyMessage;
use quorate_any::paxos::Message;
use quorate_any::paxos::message::Carried;
use quorate_replica::PeerMessage;
use quorate_types::zoo::{Plant, plant};
use quorate_types::{
    Ballot, Batch, Body, ClusterId, Command, CommandId, GroupId, Incarnation, NodeId, ObjectId,
    SessionId, Slot, Stamp, Value, ViewId, ViewNumber, Wall,
};
use quorate_wire::{Assembly, Cutter};
use std::panic::catch_unwind;

const CLUSTER: ClusterId = ClusterId(9);
const GROUP: GroupId = GroupId(1);
const LEADER: NodeId = NodeId(3);

/// Of the leader's directory.
const LIFE: Incarnation = Incarnation(5);

fn known(node: NodeId) -> Option<Incarnation> {
    (node == LEADER).then_some(LIFE)
}

fn ballot(view: u64, round: u64) -> Ballot {
    Ballot {
        view: ViewNumber(view),
        round,
        node: LEADER,
        boot: 1,
    }
}

fn value(ballot: Ballot, slot: u64, bytes: usize) -> PeerMessage<AnyMessage> {
    let command = Command {
        id: CommandId {
            session: SessionId(7),
            sequence: slot,
        },
        acknowledged: 0,
        body: Body::Call {
            object: ObjectId(0),
            payload: Value::copy_from_slice(&vec![slot as u8; bytes]),
        },
    };
    let stamp = Stamp {
        wall: Wall(slot),
        entropy: ballot.round,
    };
    PeerMessage::Ordering {
        view: ViewId {
            group: GROUP,
            number: ballot.view,
        },
        message: AnyMessage::Paxos(Message::Multicast(Carried {
            ballot,
            slot: Slot(slot),
            batch: Batch::new(stamp, vec![command]),
        })),
    }
}

fn cut(values: &[PeerMessage<AnyMessage>]) -> Vec<Bytes> {
    let mut cutter = Cutter::new(CLUSTER, 512);
    for value in values {
        cutter.push(LIFE, value);
    }
    cutter.finish()
}

fn assembly() -> Assembly {
    Assembly::new(CLUSTER, GROUP)
}

fn taken(assembly: &mut Assembly, datagrams: &[Bytes]) -> Vec<PeerMessage<AnyMessage>> {
    let taken = datagrams
        .iter()
        .map(|datagram| assembly.take(datagram, known).1);
    taken.flatten().collect()
}

/// Claim mp-84.
#[test]
fn small_values_share_a_datagram_and_large_ones_take_several() {
    let values: Vec<_> = (1..=20).map(|slot| value(ballot(1, 1), slot, 10)).collect();
    let datagrams = cut(&values);
    assert!(datagrams.len() < 6, "{} datagrams", datagrams.len());
    assert!(datagrams.iter().all(|datagram| datagram.len() <= 512));
    assert_eq!(taken(&mut assembly(), &datagrams), values);
    let large = [value(ballot(1, 1), 21, 5_000), value(ballot(1, 1), 22, 3)];
    let datagrams = cut(&large);
    assert!((10..=13).contains(&datagrams.len()), "{}", datagrams.len());
    assert_eq!(taken(&mut assembly(), &datagrams), large);
}

/// Claim mp-84.
#[test]
fn whatever_the_order_and_however_often_each_value_is_put_together_once_and_alone() {
    let values: Vec<_> = (1..=4)
        .map(|slot| value(ballot(1, 1), slot, 1_500))
        .collect();
    let mut datagrams = cut(&values);
    datagrams.reverse();
    let mut assembly = assembly();
    let mut whole = taken(&mut assembly, &datagrams);
    whole.reverse();
    assert_eq!(whole, values);
    assert_eq!(assembly.counts().missing, 0, "none is lost");
    let mut twice: Vec<Bytes> = Vec::new();
    for datagram in &datagrams {
        twice.extend([datagram.clone(), datagram.clone()]);
    }
    let again = taken(&mut self::assembly(), &twice);
    assert!(again.iter().all(|message| values.contains(message)));
    assert!(values.iter().all(|value| again.contains(value)));
}

/// A leader that proposes anew multicasts the value anew, and it is cut in other places then. Claim mp-84.
#[test]
fn parts_of_a_value_that_was_cut_twice_make_no_other_value() {
    let ballot = ballot(1, 1);
    let mut whole = value(ballot, 1, 1_100);
    if let PeerMessage::Ordering {
        message: AnyMessage::Paxos(Message::Multicast(carried)),
        ..
    } = &mut whole
    {
        let mut command = carried.batch.commands()[0].clone();
        let bytes: Vec<u8> = (0..1_100_u32).map(|at| (at % 251) as u8).collect();
        command.body = Body::Call {
            object: ObjectId(0),
            payload: Value::copy_from_slice(&bytes),
        };
        carried.batch = Batch::new(carried.batch.stamp(), vec![command]);
    }
    let mut datagrams = Vec::new();
    for before in [None, Some(10), Some(150), Some(250)] {
        let mut values: Vec<_> = before
            .map(|bytes| value(ballot, 2, bytes))
            .into_iter()
            .collect();
        values.push(whole.clone());
        datagrams.extend(cut(&values));
    }
    assert!((12..=16).contains(&datagrams.len()), "{}", datagrams.len());
    for chosen in 0..1_u32 << datagrams.len() {
        let chosen = |at: &usize| chosen & 1 << at != 0;
        let some: Vec<Bytes> = (0..datagrams.len())
            .filter(chosen)
            .map(|at| datagrams[at].clone())
            .collect();
        let made = taken(&mut assembly(), &some);
        let of_slot = made.iter().filter(|made| slot_of(made) == Slot(1));
        assert!(of_slot.into_iter().all(|made| *made == whole));
    }
}

/// Claim mp-84.
#[test]
fn parts_of_a_value_of_another_size_do_not_fill_the_gaps_of_the_first() {
    let sized = |bytes| [value(ballot(1, 1), 1, bytes)];
    let (short, long) = (sized(1_400), sized(2_400));
    let (of_short, of_long) = (cut(&short), cut(&long));
    let mut assembly = assembly();
    assert_eq!(taken(&mut assembly, &of_short[..2]), []);
    assert_eq!(taken(&mut assembly, &of_long[2..]), []);
    assert_eq!(taken(&mut assembly, &of_short[2..]), short);
}

fn slot_of(message: &PeerMessage<AnyMessage>) -> Slot {
    match message {
        PeerMessage::Ordering {
            message: AnyMessage::Paxos(Message::Multicast(carried)),
            ..
        } => carried.slot,
        _ => Slot::ZERO,
    }
}

/// Claim mp-84.
#[test]
fn a_lost_datagram_costs_the_values_in_it_and_no_others() {
    let values: Vec<_> = (1..=6)
        .map(|slot| value(ballot(1, 1), slot, 1_000))
        .collect();
    let datagrams = cut(&values);
    for lost in 0..datagrams.len() {
        let mut left = datagrams.clone();
        left.remove(lost);
        let mut assembly = assembly();
        let whole = taken(&mut assembly, &left);
        assert!(whole.iter().all(|message| values.contains(message)));
        assert!((4..6).contains(&whole.len()), "{lost}: {}", whole.len());
        let is_last = lost + 1 == datagrams.len();
        assert_eq!(assembly.counts().missing, u64::from(!is_last));
    }
}

/// Claim mp-83.
#[test]
fn parts_of_an_earlier_ballot_or_view_are_not_taken_for_those_of_the_newest() {
    for newer in [ballot(1, 2), ballot(2, 1)] {
        let old = cut(&[value(ballot(1, 1), 5, 1_500)]);
        let new = cut(&[value(newer, 5, 1_500)]);
        let mut assembly = assembly();
        assert!(taken(&mut assembly, &old[..2]).is_empty());
        assert!(taken(&mut assembly, &new[..1]).is_empty());
        assert!(taken(&mut assembly, &old[2..]).is_empty());
        let whole = taken(&mut assembly, &new[1..]);
        assert_eq!(whole, [value(newer, 5, 1_500)]);
        assert_eq!(assembly.counts().dropped, old[2..].len() as u64);
    }
}

/// Claim mp-84.
#[test]
fn garbage_and_datagrams_of_others_are_counted_and_change_nothing() {
    let datagrams = cut(&[value(ballot(1, 1), 5, 400)]);
    let mut dropped = 0;
    let mut ours = assembly();
    for datagram in &datagrams {
        for bit in 0..8 * datagram.len() {
            let mut changed = BytesMut::from(&datagram[..]);
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(ours.take(&changed.freeze(), known).1.is_empty());
            dropped += 1;
        }
        for length in 0..datagram.len() {
            assert!(ours.take(&datagram.slice(..length), known).1.is_empty());
            dropped += 1;
        }
        let others = [
            Assembly::new(ClusterId(8), GROUP),
            Assembly::new(CLUSTER, GroupId(2)),
        ];
        for mut other in others {
            assert!(other.take(datagram, known).1.is_empty());
            assert_eq!(other.counts().dropped, 1);
        }
    }
    assert_eq!(ours.counts().dropped, dropped);
    assert_eq!(taken(&mut ours, &datagrams), [value(ballot(1, 1), 5, 400)]);
}

/// Claim mp-84: as on a link without TLS, who does not know the incarnation of a node does not speak as it.
#[test]
fn a_datagram_of_who_does_not_know_the_leader_is_not_taken() {
    let value = value(ballot(1, 1), 5, 400);
    let mut forger = Cutter::new(CLUSTER, 512);
    forger.push(Incarnation(6), &value);
    let mut assembly = assembly();
    for datagram in forger.finish() {
        assert!(assembly.take(&datagram, known).1.is_empty());
    }
    for datagram in cut(&[value]) {
        assert!(assembly.take(&datagram, |_| None).1.is_empty());
    }
    assert_eq!(assembly.counts().read, 0);
}

/// Claim mp-83. Claim mp-84.
#[test]
fn each_planted_bug_is_found() {
    for bug in Plant::PARTS {
        plant(Some(bug));
        let is_missed = catch_unwind(|| {
            whatever_the_order_and_however_often_each_value_is_put_together_once_and_alone();
            parts_of_an_earlier_ballot_or_view_are_not_taken_for_those_of_the_newest();
        });
        plant(None);
        assert!(is_missed.is_err(), "no test finds {bug:?}");
    }
}

/// Claim mp-84.
#[test]
fn of_values_that_are_never_whole_the_oldest_are_forgotten() {
    let mut assembly = assembly();
    let mut parts = Vec::new();
    for slot in 1..=400 {
        let datagrams = cut(&[value(ballot(1, 1), slot, 1_000)]);
        let (last, first) = datagrams.split_last().expect("it takes several");
        assert!(taken(&mut assembly, first).is_empty());
        parts.push(last.clone());
    }
    let whole = taken(&mut assembly, &parts);
    assert_eq!(whole.len(), 256, "the newest are whole now");
    assert_eq!(whole.last(), Some(&value(ballot(1, 1), 400, 1_000)));
}
