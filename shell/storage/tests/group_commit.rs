//! What the log's thread decides, stepped without a thread; and one decision that only the thread's caller sees.

use std::io::ErrorKind;
use std::sync::mpsc;
use std::time::Duration;

use quorate_storage::{
    Append, DirectoryDisk, DiskOperation, Fault, GroupCommit, Log, LogInbox, LogRequest, LogWriter,
    Removals, Room, SimDisk, SpareJob, StorageLimits,
};
use quorate_types::{ClusterId, GroupId, NodeId, Slot};

const CLUSTER: ClusterId = ClusterId(7);
const NODE: NodeId = NodeId(1);

fn record(slot: u64) -> Append {
    Append {
        group: GroupId(0),
        slot: Slot(slot),
        record: vec![slot as u8; 1500].into(),
    }
}

fn append(mark: u64) -> LogRequest {
    LogRequest::Append {
        mark,
        records: vec![record(mark)],
    }
}

fn open(disk: &SimDisk) -> GroupCommit<SimDisk> {
    let (log, _) = Log::open(disk.clone(), CLUSTER, NODE, StorageLimits::small()).unwrap();
    GroupCommit::new(log)
}

/// Does what a step has left for other threads, as far as the next segment goes.
fn prepare(
    commits: &mut GroupCommit<SimDisk>,
    inbox: &mut LogInbox,
    job: Option<SpareJob<SimDisk>>,
) {
    if let Some(job) = job {
        let prepared = job.run();
        if prepared.is_news() {
            inbox.freed();
        }
        commits.prepared(prepared).unwrap();
    }
}

fn no_room_once(disk: &SimDisk) {
    disk.fail(Fault {
        operation: DiskOperation::Write,
        skip: 0,
        times: 1,
        kind: ErrorKind::StorageFull,
    });
}

#[test]
fn the_mark_of_a_commit_that_found_no_room_is_told_when_it_is_durable_though_nothing_else_comes() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(disk.clone(), CLUSTER, NODE, StorageLimits::small()).unwrap();
    no_room_once(&disk);
    let (notify, notified) = mpsc::channel();
    let writer = LogWriter::spawn(log, move || notify.send(()).unwrap_or(()));
    writer.append(1, vec![record(1)]).unwrap();
    while writer.durable_mark() < 1 {
        notified
            .recv_timeout(Duration::from_secs(5))
            .expect("the log is durable and says so");
        assert!(
            writer.durable_mark() == 1 || writer.room() == Room::Full,
            "a log with room and nothing to do has told all its marks"
        );
    }
    writer.close().unwrap();
}

#[test]
fn all_requests_that_wait_are_one_commit() {
    let disk = SimDisk::new();
    let mut commits = open(&disk);
    let mut inbox = LogInbox::default();
    assert!(!commits.is_due(&inbox));
    (1..=5).for_each(|mark| inbox.offer(append(mark)).unwrap());
    assert!(commits.is_due(&inbox));
    commits.gather(&mut inbox);
    assert!(inbox.is_empty());
    let before = commits.log().newest_commit();
    let progress = commits.step();
    assert_eq!(progress.mark(), Some(5));
    assert_eq!(progress.finished.len(), 5);
    assert_eq!(progress.outcome, Ok(Room::Plenty));
    assert_eq!(commits.log().newest_commit(), before + 1);
    assert_eq!(commits.retry_ms(), None);
}

#[test]
fn on_a_full_disk_a_discard_passes_what_is_held_and_makes_room_for_it() {
    let disk = SimDisk::new();
    let mut commits = open(&disk);
    let mut inbox = LogInbox::default();
    // More segments than are kept to become the next ones.
    disk.set_capacity(Some(12 * StorageLimits::small().segment_bytes));
    let mut mark = 0;
    while !commits.is_stuck() {
        mark += 1;
        inbox.offer(append(mark)).unwrap();
        commits.gather(&mut inbox);
        let job = commits.step().job;
        prepare(&mut commits, &mut inbox, job);
    }
    assert!(commits.retry_ms().is_some());
    inbox.offer(append(mark + 1)).unwrap();
    assert!(
        !commits.is_due(&inbox),
        "what comes behind what is held waits"
    );
    let base = LogRequest::Discard {
        group: GroupId(0),
        upto: Slot(mark - 1),
        base: vec![1; 40].into(),
    };
    inbox.offer(base.clone()).unwrap();
    assert!(commits.is_due(&inbox), "a discard makes room");
    commits.gather(&mut inbox);
    let progress = commits.step();
    assert_eq!(
        progress.finished,
        [base, append(mark)],
        "a trimmed segment is the next one for what is held"
    );
    let mut removals = Removals::default();
    removals.extend(progress.gone);
    assert!(!removals.is_done());
    while !removals.is_done() {
        removals.step(&disk).unwrap();
        inbox.freed();
    }
    assert!(commits.is_due(&inbox), "the request behind is next");
    commits.gather(&mut inbox);
    assert_eq!(commits.step().mark(), Some(mark + 1));
}

#[test]
fn a_refused_commit_finishes_nothing_until_it_is_written() {
    let disk = SimDisk::new();
    let mut commits = open(&disk);
    let mut inbox = LogInbox::default();
    no_room_once(&disk);
    inbox.offer(append(1)).unwrap();
    commits.gather(&mut inbox);
    let progress = commits.step();
    assert_eq!(progress.mark(), None);
    assert_eq!(progress.outcome, Ok(Room::Full));
    commits.gather(&mut inbox);
    let progress = commits.step();
    assert_eq!(progress.mark(), Some(1));
    assert_eq!(progress.outcome, Ok(Room::Plenty));
}

#[test]
fn a_step_that_needs_a_segment_under_preparation_waits_for_it_and_calls_no_disk_full() {
    let disk = SimDisk::new();
    let mut commits = open(&disk);
    let mut inbox = LogInbox::default();
    let mut mark = 0;
    let mut jobs = Vec::new();
    while !commits.is_stuck() {
        mark += 1;
        inbox.offer(append(mark)).unwrap();
        commits.gather(&mut inbox);
        let progress = commits.step();
        assert_eq!(progress.outcome, Ok(Room::Plenty));
        jobs.extend(progress.job);
    }
    assert_eq!(jobs.len(), 1, "one job is under way");
    assert!(!commits.is_due(&inbox));
    let job = jobs.pop();
    prepare(&mut commits, &mut inbox, job);
    assert!(commits.is_due(&inbox));
    commits.gather(&mut inbox);
    assert_eq!(commits.step().mark(), Some(mark));
}

#[test]
fn a_log_with_little_room_keeps_no_trimmed_segment_back() {
    let disk = SimDisk::new();
    let mut commits = open(&disk);
    let mut inbox = LogInbox::default();
    for mark in 1..=40 {
        inbox.offer(append(mark)).unwrap();
        while !inbox.is_empty() || commits.is_stuck() {
            commits.gather(&mut inbox);
            let job = commits.step().job;
            prepare(&mut commits, &mut inbox, job);
        }
    }
    let base = |upto| LogRequest::Discard {
        group: GroupId(0),
        upto,
        base: vec![1; 40].into(),
    };
    disk.set_capacity(Some(disk.used()));
    inbox.offer(base(Slot(40))).unwrap();
    commits.gather(&mut inbox);
    let progress = commits.step();
    assert_eq!(progress.outcome, Ok(Room::Scarce));
    assert!(!progress.gone.is_empty());
    assert!(commits.log().segments() <= 2);
}

#[test]
fn a_request_of_several_segments_becomes_durable_once() {
    let disk = SimDisk::new();
    let mut commits = open(&disk);
    let mut inbox = LogInbox::default();
    let records: Vec<Append> = (1..=60).map(record).collect();
    inbox
        .offer(LogRequest::Append { mark: 1, records })
        .unwrap();
    let mut steps = 0;
    while commits.log().segments() < 100 {
        steps += 1;
        commits.gather(&mut inbox);
        let progress = commits.step();
        if progress.mark() == Some(1) {
            break;
        }
        prepare(&mut commits, &mut inbox, progress.job);
    }
    assert!(steps <= 2, "{steps} steps");
    assert!(commits.log().segments() < 10);
}

#[test]
fn a_log_that_ends_writes_what_waits_for_the_next_segment() {
    let directory = tempfile::tempdir().unwrap();
    let disk = DirectoryDisk::open(directory.path()).unwrap();
    let (log, _) = Log::open(disk.clone(), CLUSTER, NODE, StorageLimits::default()).unwrap();
    let writer = LogWriter::spawn(log, || ());
    for mark in 1..=20 {
        let bytes = vec![1; 1 << 20].into();
        let (group, slot, record) = (0, mark, bytes);
        let records = vec![Append {
            group: GroupId(group),
            slot: Slot(slot),
            record,
        }];
        writer.offer(LogRequest::Append { mark, records }).unwrap();
    }
    writer.close().unwrap();
    let (_, recovered) = Log::open(disk, CLUSTER, NODE, StorageLimits::default()).unwrap();
    assert_eq!(recovered.len(), 20);
}
