//! What builds of level 19 wrote and read is written and read as they did, as long as nothing of a later level is in it.

use crate::samples_snapshot::snapshot_core;
use bytes::{Bytes, BytesMut};
use quorate_any::paxos::Message;
use quorate_any::paxos::message::Accept;
use quorate_any::{AnyMessage, fast_paxos};
use quorate_replica::{PeerMessage, SnapshotCore};
use quorate_types::*;
use quorate_wire::*;

/// Reach as builds of level 19 write it: boot, start, commit, the commit with which it began, recall, the view since when.
const REACH_19: [u8; 41] = [
    5, 0, 0, 0, 0, 0, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0, 0x84, 3, 0, 0, 0, 0, 0, 0, 0x20, 3, 0, 0,
    0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0,
];

fn start(boot: u64, number: u64, begun: u64) -> StartOfNode {
    StartOfNode {
        boot,
        number,
        begun,
    }
}

#[test]
fn a_link_of_level_19_tells_the_newest_start_only_and_takes_one_for_all() {
    let mut starts = Starts::default();
    starts.note(start(4, 0x1233, 700));
    starts.note(start(5, 0x1234, 800));
    let reach = Reach {
        boot: 5,
        start: 0x1234,
        commit: 900,
        recall: Recall::Whole,
        since: ViewNumber(3),
        starts,
    };
    let mut written = BytesMut::new();
    put_reach(&mut written, reach, Level(19));
    assert_eq!(written[..], REACH_19);
    let read = take_reach(&written.freeze(), Level(19)).unwrap();
    assert_eq!(read.starts.kept(), [start(5, 0x1234, 800)]);
    assert_eq!((read.boot, read.commit), (5, 900));
    assert!(take_reach(&Bytes::from_static(&REACH_19), Level(20)).is_err());
}

#[test]
fn who_speaks_level_19_is_not_told_levels_by_a_challenge() {
    let said = (Nonce([1; 16]), LinkProof::from_bytes([2; 32]));
    let mut written = BytesMut::new();
    put_challenge(&mut written, said, SPEAKS, Level(19));
    assert_eq!(written.len(), 48);
    let (nonce, _, speaks) = take_challenge(&written.freeze()).unwrap();
    assert_eq!((nonce, speaks), (said.0, Levels::UNNAMED));
    let mut written = BytesMut::new();
    put_challenge(&mut written, said, SPEAKS, Level(20));
    assert_eq!(take_challenge(&written.freeze()).unwrap().2, SPEAKS);
}

fn view_bytes(core: &SnapshotCore) -> Bytes {
    let mut written = BytesMut::new();
    put_snapshot_core(&mut written, core);
    written.freeze()
}

#[test]
fn a_view_has_the_bytes_of_before_until_it_names_a_level() {
    let core = snapshot_core();
    let mut raised = core.clone();
    raised.view.level = Level(20);
    let (before, after) = (view_bytes(&core), view_bytes(&raised));
    assert_eq!(
        after.len(),
        before.len() + 2,
        "the golden file has the bytes of before"
    );
    let changed = before.iter().zip(&after).position(|(a, b)| a != b).unwrap();
    // Builds of level 19 know 1 and 2 there, and refuse the rest.
    assert_eq!((before[changed], after[changed]), (1, 0x81));
    assert_eq!(take_snapshot_core(&after).unwrap(), raised);
    let mut unnamed = BytesMut::from(&after[..]);
    unnamed[changed + 1] = 19;
    assert!(
        take_snapshot_core(&unnamed.freeze()).is_err(),
        "one view has one form"
    );
}

#[test]
fn only_commands_that_came_later_ask_a_reader_for_more_than_level_19() {
    let accept = |body: Body| {
        let command = Command {
            id: CommandId::default(),
            acknowledged: 0,
            body,
        };
        peer_level(&PeerMessage::Ordering {
            view: ViewId::default(),
            message: AnyMessage::Paxos(Message::Accept(Accept {
                ballot: Ballot::ZERO,
                slot: Slot(1),
                batch: Batch::new(Stamp::default(), vec![command]),
                decided: Slot::ZERO,
            })),
        })
    };
    let change = |who: MemberChange| Body::ChangeView {
        first: None,
        change: ViewChange {
            after: ViewNumber(1),
            acceptors: NodeSet::only(NodeId(1)),
            window: 8,
        },
        who: Box::new(who),
    };
    let collect = Body::Collect {
        slot: Slot(1),
        digest: Digest::default(),
    };
    assert_eq!(accept(change(MemberChange::Level(Level(21)))), Level(20));
    assert_eq!(accept(change(MemberChange::Leaves(NodeId(3)))), Level(19));
    assert_eq!(accept(collect), Level(21));
    for (role, level) in [(MemberRole::Replica, 19), (MemberRole::Witness, 22)] {
        let (member, invitation) = (crate::samples::joining(), SecretHash::default());
        let joins = MemberChange::Joins {
            member,
            invitation,
            role,
        };
        assert_eq!(accept(change(joins)), Level(level));
    }
    let limit = MemberChange::Limit(LimitChange::Sessions(5));
    assert_eq!(accept(change(limit)), Level::LIMITS);
    let switch = |ordering| accept(change(MemberChange::Ordering(ordering)));
    assert_eq!(switch(OrderingName::Libpaxos), Level(21));
    assert_eq!(switch(OrderingName::FastPaxos), Level(23));
    let fast = peer_level(&PeerMessage::Ordering {
        view: ViewId::default(),
        message: AnyMessage::FastPaxos(fast_paxos::Message::Learn(fast_paxos::message::Learn {
            from: Slot(1),
        })),
    });
    assert_eq!(
        fast,
        Level(23),
        "whatever is said in a view with fast rounds"
    );
}
