//! Scrubs of data directories: damage of every kind is named with its place, a crash is no damage, and nothing is changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use quorate_storage::{
    DataDirectory, Flaw, FlawKind, Identity, Log, LogScrub, MemoryLoss, PeerMemory, Persist,
    RecoveredRecord, SECTOR_BYTES, ScrubbedFile, SnapshotStore, StoppedDirectory, StorageError,
    StorageLimits, scrub_identity, scrub_log, scrub_peers, scrub_snapshots,
};
use quorate_types::{ClusterId, GroupId, Incarnation, NodeId, Slot};

const CLUSTER: ClusterId = ClusterId(7);
const GROUP: GroupId = GroupId(1);

fn open(dir: &Path, node: u16) -> DataDirectory {
    if !dir.join("identity-a").exists() {
        let node = NodeId(node);
        Identity::init(dir, CLUSTER, node, Incarnation(9), Persist::Disk).expect("it is new");
    }
    Identity::open(dir).expect("nobody runs here")
}

/// A directory with segments 1 to 4 of small sizes, the fifth prepared, one snapshot, and two known peers.
fn filled(node: u16) -> tempfile::TempDir {
    let made = tempfile::tempdir().expect("there is room");
    let directory = open(made.path(), node);
    let disk = directory.log_disk().expect("there is room");
    let limits = StorageLimits::small();
    let (mut log, _) = Log::open_of(disk, directory.identity_file(), limits).expect("it is new");
    let mut slot = 0;
    while log_files(made.path()).len() < 4 {
        slot += 1;
        let record = vec![slot as u8; 700];
        log.append(GROUP, Slot(slot), &record)
            .expect("there is room");
        log.commit().expect("there is room");
        log.make_room().expect("there is room");
    }
    log.seal().expect("there is room");
    let snapshots = SnapshotStore::open(directory.snapshot_disk().expect("there is room"), CLUSTER);
    let snapshots = snapshots.expect("it is new");
    let state = vec![5; 3 * SECTOR_BYTES];
    let digest = *blake3::hash(&state).as_bytes();
    snapshots
        .save(GROUP, Slot(3), digest, &state, Slot(3))
        .expect("there is room");
    let peer = |node| PeerMemory {
        node: NodeId(node),
        incarnation: Incarnation(1),
        newest: (1, 2),
        voting: (1, 2),
        commit: 5,
        since: quorate_types::ViewNumber(0),
    };
    PeerMemory::store(&[peer(2), peer(3)], directory.disk()).expect("there is room");
    made
}

fn log_files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir.join("log")).into_iter().flatten();
    let names = names.map(|entry| {
        entry
            .expect("listed")
            .file_name()
            .into_string()
            .expect("text")
    });
    let mut names: Vec<String> = names.filter(|name| name.starts_with("log-")).collect();
    names.sort_unstable();
    names
}

struct Scrubbed {
    files: Vec<ScrubbedFile>,
    identity: Result<Identity, StorageError>,
    log: LogScrub,
}

fn scrub(dir: &Path) -> Scrubbed {
    let stopped = StoppedDirectory::open(dir).expect("nobody runs here");
    let (mut files, identity) = scrub_identity(&stopped.home());
    files.extend(scrub_peers(&stopped.home()));
    let mut nothing = |_| {};
    let disk = stopped.log().expect("there is a log");
    let mut log = scrub_log(&disk, identity.as_ref().ok(), &mut nothing).expect("it can be read");
    files.append(&mut log.files);
    let disk = stopped.snapshots().expect("there are snapshots");
    let snapshots = scrub_snapshots(&disk, Some(CLUSTER), &mut nothing).expect("it can be read");
    files.extend(snapshots.into_iter().map(|snapshot| snapshot.file));
    Scrubbed {
        files,
        identity,
        log,
    }
}

impl Scrubbed {
    fn of(&self, name: &str) -> &ScrubbedFile {
        let file = self.files.iter().find(|file| file.name == name);
        file.unwrap_or_else(|| panic!("{name} is not told of"))
    }

    /// The names of the files with which something is wrong that is not normal after a crash.
    fn unsound(&self) -> Vec<&str> {
        let unsound = self.files.iter().filter(|file| !file.is_sound());
        unsound.map(|file| file.name.as_str()).collect()
    }

    fn is_faulty(&self) -> bool {
        let is_faulty = |found: &RecoveredRecord| matches!(found, RecoveredRecord::Faulty { .. });
        self.log.recovered.iter().any(is_faulty)
    }
}

fn flip(path: &Path, at: usize) {
    let mut content = fs::read(path).expect("it is there");
    content[at] ^= 0x10;
    fs::write(path, content).expect("there is room");
}

/// Every file with its content, its permissions and the time of its last change.
fn picture(dir: &Path) -> BTreeMap<String, (Vec<u8>, u32, std::time::SystemTime)> {
    let mut picture = BTreeMap::new();
    for below in [dir.to_owned(), dir.join("log"), dir.join("snapshots")] {
        for entry in fs::read_dir(below).expect("it is there") {
            let path = entry.expect("listed").path();
            let metadata = fs::metadata(&path).expect("it is there");
            let content = match metadata.is_file() {
                true => fs::read(&path).expect("it is there"),
                false => Vec::new(),
            };
            let shown = path.display().to_string();
            let times = metadata.modified().expect("it has one");
            picture.insert(shown, (content, metadata.permissions().mode(), times));
        }
    }
    picture
}

#[test]
fn a_sound_directory_is_sound_and_stays_as_it_was() {
    let dir = filled(1);
    let before = picture(dir.path());
    let found = scrub(dir.path());
    assert_eq!(found.unsound(), [""; 0]);
    assert!(
        found.files.iter().all(|file| file.worst().is_none()),
        "{:?}",
        found.files
    );
    assert_eq!(found.log.loss, None);
    let names: Vec<&str> = found.files.iter().map(|file| file.name.as_str()).collect();
    let wanted = [
        "identity-a",
        "identity-b",
        "peers-a",
        "peers-b",
        "log/log-00000001",
        "log/log-00000002",
        "log/log-00000003",
        "log/log-00000004",
        "log/next-00000005",
        "snapshots/snap-00000001-0000000000000003",
    ];
    assert_eq!(names, wanted);
    assert!(found.of("log/log-00000002").holds.contains("records in"));
    assert_eq!(picture(dir.path()), before, "nothing is changed");
}

#[test]
fn a_directory_that_cannot_be_written_is_scrubbed() {
    let dir = filled(1);
    let all = ["", "log", "snapshots"].map(|below| dir.path().join(below));
    let mode = |mode| {
        let permissions = fs::Permissions::from_mode(mode);
        all.iter()
            .for_each(|path| fs::set_permissions(path, permissions.clone()).expect("ours"));
    };
    mode(0o500);
    let found = scrub(dir.path());
    mode(0o700);
    assert_eq!(found.unsound(), [""; 0]);
}

#[test]
fn every_flipped_bit_is_found_in_its_file_at_its_place_and_costs_nothing_else() {
    let dir = filled(1);
    let before = picture(dir.path());
    for (shown, (content, ..)) in &before {
        let path = Path::new(shown);
        let name = path
            .strip_prefix(dir.path())
            .expect("below it")
            .display()
            .to_string();
        let end = match name.as_str() {
            _ if !path.is_file() || name == "lock" => continue,
            // What lies behind the end of a segment was never written, or counts no more.
            name if name.starts_with("log/log-") => end_of(&scrub(dir.path()).of(name).holds),
            _ => content.len(),
        };
        let header = |at: usize| name.starts_with("log/") && (16..2 * SECTOR_BYTES).contains(&at);
        for at in (3..end).step_by(601) {
            // The header of a segment that is not begun is not written yet.
            if name.starts_with("log/next-") && at < 2 * SECTOR_BYTES {
                continue;
            }
            flip(path, at);
            let found = scrub(dir.path());
            assert_eq!(found.unsound(), [name.as_str()], "byte {at}");
            let file = found.of(&name);
            let Flaw { offset, kind, .. } = &file.findings[0];
            assert_eq!(*kind, FlawKind::Damaged);
            if name.starts_with("log/") && !header(at) {
                assert!(
                    offset.abs_diff(at as u64) < 4 * SECTOR_BYTES as u64,
                    "{name}: {at}, {file:?}"
                );
            }
            fs::write(path, content).expect("there is room");
        }
    }
    assert_eq!(scrub(dir.path()).unsound(), [""; 0]);
}

/// The byte up to which a segment holds something, as the scrub says it.
fn end_of(holds: &str) -> usize {
    let (_, end) = holds.rsplit_once(' ').expect("it ends with a number");
    end.parse().expect("a number")
}

#[test]
fn a_torn_tail_is_no_damage_and_a_wrong_sector_there_is() {
    let dir = filled(1);
    let newest = dir.path().join("log/log-00000004");
    let whole = fs::read(&newest).expect("it is there");
    let end = end_of(&scrub(dir.path()).of("log/log-00000004").holds);
    let mut torn = whole.clone();
    torn[end - SECTOR_BYTES..end].fill(0);
    fs::write(&newest, &torn).expect("there is room");
    let mut identity = Identity::open(dir.path()).expect("nobody runs here");
    // As after a crash: the identity does not know of the last commits.
    identity
        .identity_file()
        .change(|identity| identity.log.commit = 1)
        .expect("there is room");
    identity.mark_lived().expect("there is room");
    drop(identity);
    let found = scrub(dir.path());
    assert_eq!(found.unsound(), [""; 0]);
    let file = found.of("log/log-00000004");
    assert_eq!(file.worst(), Some(FlawKind::Torn));
    assert!(file.findings[0].offset < end as u64);
    assert!(!found.is_faulty());
    let mut wrong = whole;
    wrong[end - 1] ^= 1;
    fs::write(&newest, &wrong).expect("there is room");
    assert_eq!(scrub(dir.path()).unsound(), ["log/log-00000004"]);
}

#[test]
fn a_cut_segment_is_damaged_where_it_ends() {
    let dir = filled(1);
    let path = dir.path().join("log/log-00000002");
    let content = fs::read(&path).expect("it is there");
    fs::write(&path, &content[..9000]).expect("there is room");
    let found = scrub(dir.path());
    assert_eq!(found.unsound(), ["log/log-00000002"]);
    let cut = &found.of("log/log-00000002").findings[0];
    assert_eq!((cut.offset, cut.kind), (9000, FlawKind::Damaged));
    assert!(cut.what.contains("it is cut"), "{}", cut.what);
    assert!(found.is_faulty(), "records were lost with it");
}

#[test]
fn swapped_segments_and_one_of_another_node_are_refused_by_name_and_the_others_are_read() {
    let dir = filled(1);
    let log = |name: &str| dir.path().join("log").join(name);
    fs::rename(log("log-00000001"), log("kept")).expect("it is there");
    fs::rename(log("log-00000002"), log("log-00000001")).expect("it is there");
    fs::rename(log("kept"), log("log-00000002")).expect("it is there");
    let found = scrub(dir.path());
    assert_eq!(found.unsound(), ["log/log-00000001", "log/log-00000002"]);
    assert!(
        found.of("log/log-00000001").findings[0]
            .what
            .contains("it holds segment 2")
    );
    assert!(found.log.is_refused);
    assert!(found.of("log/log-00000003").holds.contains("records in"));
    let (dir, other) = (filled(1), filled(2));
    let path = |dir: &Path| dir.join("log/log-00000002");
    fs::copy(path(other.path()), path(dir.path())).expect("there is room");
    let found = scrub(dir.path());
    assert_eq!(found.unsound(), ["log/log-00000002"]);
    let what = &found.of("log/log-00000002").findings[0].what;
    assert!(what.contains("it belongs to node 2 of cluster"), "{what}");
    assert!(found.log.is_refused);
}

#[test]
fn a_missing_segment_is_named_the_newest_by_the_identity() {
    let dir = filled(1);
    fs::remove_file(dir.path().join("log/log-00000002")).expect("it is there");
    let found = scrub(dir.path());
    assert_eq!(found.unsound(), ["log/log-00000002"]);
    assert_eq!(
        found.of("log/log-00000002").worst(),
        Some(FlawKind::Missing)
    );
    assert_eq!(found.log.loss, None, "what is lost has a name");
    let dir = filled(1);
    for name in ["log-00000004", "next-00000005"] {
        fs::remove_file(dir.path().join("log").join(name)).expect("it is there");
    }
    let found = scrub(dir.path());
    assert_eq!(found.unsound(), ["log/log-00000005"]);
    assert_eq!(found.log.loss, Some(MemoryLoss::LogShort));
}

#[test]
fn an_older_log_or_an_older_identity_is_a_loss() {
    let dir = filled(1);
    let opened = open(dir.path(), 1);
    let pledge = |segment, commit| {
        let changed = opened.identity_file().change(|identity| {
            identity.log.segment = segment;
            identity.log.commit = commit;
        });
        changed.expect("there is room");
    };
    let known = opened.identity().log;
    pledge(known.segment, known.commit + 1);
    let stopped = |opened: &DataDirectory| opened.identity();
    assert_eq!(stopped(&opened).log.commit, known.commit + 1);
    drop(opened);
    let found = scrub(dir.path());
    assert_eq!(found.log.loss, Some(MemoryLoss::LogShort));
    assert_eq!(found.unsound(), ["log/log-00000004"]);
    let opened = open(dir.path(), 1);
    let changed = opened
        .identity_file()
        .change(|identity| identity.log.segment = 2);
    changed.expect("there is room");
    drop(opened);
    let found = scrub(dir.path());
    assert_eq!(found.log.loss, Some(MemoryLoss::IdentityOld));
}

#[test]
fn without_a_whole_identity_the_log_says_whose_it_is() {
    let dir = filled(1);
    flip(&dir.path().join("identity-a"), 100);
    let found = scrub(dir.path());
    assert_eq!(found.unsound(), ["identity-a"]);
    assert!(found.identity.is_ok());
    flip(&dir.path().join("identity-b"), 100);
    let found = scrub(dir.path());
    assert_eq!(found.unsound(), ["identity-a", "identity-b"]);
    assert_eq!(found.identity, Err(StorageError::Amnesia));
    assert!(found.of("log/log-00000003").holds.contains("records in"));
}

#[test]
fn a_directory_in_use_is_refused_and_a_scrubbed_one_is_not_started() {
    let dir = filled(1);
    let running = open(dir.path(), 1);
    let refused = StoppedDirectory::open(dir.path()).expect_err("a node runs");
    let pid = Some(std::process::id());
    assert!(matches!(refused, StorageError::Locked { pid: told, .. } if told == pid));
    drop(running);
    let first = StoppedDirectory::open(dir.path()).expect("nobody runs here");
    let _second = StoppedDirectory::open(dir.path()).expect("both only read");
    let refused = Identity::open(dir.path()).expect_err("it is being read");
    assert!(matches!(refused, StorageError::Locked { .. }));
    drop(first);
}

#[test]
fn snapshots_are_judged_by_head_length_place_and_hash() {
    let dir = filled(1);
    let path = dir.path().join("snapshots/snap-00000001-0000000000000003");
    let whole = fs::read(&path).expect("it is there");
    let told = |content: &[u8], name: &str| {
        let other = path.with_file_name(name);
        fs::remove_file(&path).expect("it is there");
        fs::write(&other, content).expect("there is room");
        let found = scrub(dir.path());
        let finding = found.of(&format!("snapshots/{name}")).findings[0].clone();
        fs::rename(&other, &path).expect("it is there");
        (finding.offset, finding.what)
    };
    let own = "snap-00000001-0000000000000003";
    assert!(told(&whole[..700], own).1.contains("it is cut"));
    assert_eq!(told(&whole[..100], own).0, 100);
    assert!(told(&[&whole[..], b"x"].concat(), own).1.contains("length"));
    let moved = told(&whole, "snap-00000001-0000000000000004").1;
    assert_eq!(moved, "it holds slot 3 of group 1");
    let mut changed = whole.clone();
    changed[600] ^= 1;
    assert_eq!(told(&changed, own).1, "the hash of its front is wrong");
}
