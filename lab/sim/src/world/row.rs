//! What a run exercised: one row a kind of fault, counted only where the fault took effect.
//!
//! A row is counted by who sees the effect: a start that finds damage, a sync that fails, a message that is lost. Quotas
//! say how often each must be seen in [`QUOTA_SEEDS`] seeds, so that a generator that stops drawing a fault, or draws it
//! where it does nothing, is noticed. A row is drawn at twice its quota or more: chance alone misses none. Read by the `sim` program and by `make test-sim`.

use std::collections::BTreeMap;
use std::fmt;

/// Runs of so many seeds reach the quotas; longer ones reach as many times more.
pub const QUOTA_SEEDS: u64 = 300;

macro_rules! rows {
    ($($row:ident $quota:literal $text:literal;)*) => {
        /// A kind of fault, or a kind of group that faults happen to, as it took effect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Row {
            $(#[doc = $text] $row,)*
        }

        impl Row {
            /// Every row.
            pub const ALL: &[Row] = &[$(Row::$row,)*];

            /// How often it must be seen in [`QUOTA_SEEDS`] seeds; 0: it cannot be drawn yet.
            pub fn quota(self) -> u64 {
                match self { $(Row::$row => $quota,)* }
            }

            fn text(self) -> &'static str {
                match self { $(Row::$row => $text,)* }
            }
        }
    };
}

rows! {
    Killed 50 "process killed between two outputs";
    LeaderKilled 20 "leader killed";
    PowerCut 30 "power cut of one machine";
    Blackout 10 "power cut of all machines";
    KilledInPhaseOne 10 "candidate killed in phase 1";
    KilledFetching 3 "killed while fetching a snapshot";
    KilledInstalling 5 "killed while installing a snapshot";
    AskedPeerKilled 10 "killed when asked for decided slots";
    SaveCut 5 "power cut while a snapshot is saved";
    TrimCut 10 "power cut while the log is trimmed";
    PipelineCut 7 "leader lost with four or more slots in flight";
    Partitioned 20 "one direction of a link blocked";
    LinkCut 20 "both directions of a link blocked";
    Stranded 10 "follower cut off from nodes, not from clients";
    LeaderStranded 20 "leader cut off from nodes, not from its clients";
    Isolated 10 "node cut off from nodes and clients";
    Lost 10 "messages lost";
    Doubled 10 "messages arrive twice";
    Delayed 10 "messages delayed";
    Garbled 10 "messages changed on the way and caught";
    Stray 10 "copies of messages arrive seconds later";
    AnnouncementLost 10 "announcement of a read lost";
    AnnouncementLate 10 "announcement of a read late";
    Reset 10 "connection between nodes reset";
    Paused 20 "process paused";
    LeaderPaused 10 "leader paused";
    Stalled 10 "process paused between its clock and its work";
    SlowDisk 10 "commits slowed";
    WriteFailed 5 "a write of the log failed";
    SyncFailed 3 "a sync of the log failed";
    ReadFailed 5 "a read of the log failed";
    DiskFull 10 "disk full";
    DamagedLog 10 "start on a damaged log";
    LostView 3 "start without a record of the newest view";
    DamagedSnapshot 8 "start with a damaged snapshot";
    DamagedIdentity 5 "start with one copy of the identity damaged";
    RolledBack 5 "start on an old copy of the disks";
    LogLost 3 "start without the log's files";
    SegmentLost 5 "start without the newest segment";
    Wiped 5 "directory emptied";
    WallJumped 10 "wall clock set by up to an hour";
    WallYears 10 "wall clock set by years";
    Hung 10 "objects hang with work waiting";
    PoisonSkipped 15 "call that ended every host skipped";
    PoisonSurvived 5 "call that ended some hosts answered by others";
    PoisonTakenOver 10 "replica past such a call by a survivor's snapshot";
    PoisonKept 5 "call that was answered ends hosts later";
    PoisonInReports 15 "node lost between a host's last death and the skip";
    PoisonInSlot 10 "innocent calls in the slot of a call that ends hosts";
    PoisonTwice 3 "hosts down at two calls of one slot";
    NotesLost 10 "calls executed whose reports the node had lost";
    PoisonInReplay 2 "another host dies at a call that was answered";
    SkipRefused 10 "operator told why a call is not skipped";
    LedFirst 40 "node that leads the next view without phase 1";
    SuccessorLed 2 "node other than the leader of the view before that leads the next one without phase 1";
    ViewBegun 2_000 "node takes part in another view";
    CameBack 40 "node that had lost its votes came back as another incarnation";
    ViewChanged 500 "view changed at an operator's request";
    MemberLeft 10 "member that left the group";
    MachineGone 8 "machine switched off that had left, or did not become a member";
    LeadingMemberLeft 2 "leader that left the group";
    MemberJoined 8 "member that joined the group with an empty directory";
    NotInvited 2 "node refused that came without an open invitation";
    GroupCreated 15 "another group created";
    GroupDropped 5 "another group dropped";
    GroupServed 1 "node named for a group that was there before";
    GroupRefused 20 "operator told why no group is created or dropped";
    AcceptorsChanged 120 "view with other acceptors than the one before";
    QuorumsSet 10 "view with quorums that the operator asked for";
    QuorumsUnset 2 "view with majorities after one with quorums that were asked for";
    QuorumsFollowed 4 "view with other numbers of acceptors and quorums that were asked for";
    FastQuorumsAsked 1 "view of fast_paxos with a fast quorum that was asked for";
    SessionsLowered 4 "view with fewer sessions than the one before";
    SessionsRaised 2 "view with more sessions than the one before";
    RepliesLowered 4 "view with fewer bytes of replies than the one before";
    RepliesRaised 1 "view with more bytes of replies than the one before";
    ViewGrown 25 "view with more acceptors than the one before";
    ViewShrunk 50 "view with fewer acceptors than the one before";
    ViewToOne 15 "view with one acceptor after one with several";
    ViewFromOne 12 "view with several acceptors after one with one";
    NewVoter 6 "view with an acceptor that was none before";
    LeaderRemoved 50 "leader that does not vote in the next view";
    LeaderLostInChange 5 "leader killed between a change and the view it begins";
    ChangedInPartition 40 "view that begins while a link is blocked";
    ViewConflict 100 "change of the view that lost to another one";
    SkipForced 5 "operator has a call skipped that not all have reported";
    Woken 3000 "call that waited answered by another one";
    TimeOver 100 "call that waited until its time was over";
    WokenTogether 300 "several calls that waited answered by one step";
    ChangesLost 100 "watcher told how many changes it lost";
    TimerRan 500 "call that waited answered by a timer";
    Left 10 "node leaves in good order";
    LeaderLeft 5 "leader leaves in good order";
    Diverged 2 "objects of a replica found to differ";
    Misanswered 2 "replica found whose objects answered otherwise";
    Frozen 10 "objects of a replica frozen";
    ResetEnded 3 "operator's reset of frozen objects ended";
    Checkpointed 10 "operator asks for a snapshot";
    ClientCut 10 "client cut off";
    CallCopied 10 "copy of a call sent by somebody else";
    SessionResumed 20 "session resumed by another process";
    Superseded 10 "client told that another one resumed its session";
    EndedByClose 40 "session ended by its client's closed connection";
    EndedUnderNext 5 "session ended so under the next leader";
    MemoryMode 20 "group in memory";
    OneOrTwo 10 "group of one or two nodes";
    Large 14 "group of six or seven nodes";
    EvenGroup 10 "group with an even number of acceptors";
    Flexible 20 "unequal quorums";
    Observers 20 "replicas that do not vote";
    Witnesses 18 "group with witnesses";
    WitnessJoined 1 "witness that joined the group with an empty directory";
    WitnessKept 200 "witness keeps a snapshot that replicas agreed on";
    TaughtByWitness 6 "replica fetches a snapshot from a witness";
    Collected 1_000 "node told to trim its log by a decided command";
    CollectDeferred 10 "acceptor defers its vote for such a command";
    OtherBuild 80 "node started again with another build";
    LevelRaised 8 "group set to a higher level";
    LevelLowered 2 "group set to a lower level";
    LevelRefused 80 "operator told that a member does not speak a level";
    LinkBelowLevel 10 "link refused to a node that does not speak the level";
    BuildBelowLevel 6 "build ended that does not speak the level of its group";
    SwitchedToLibpaxos 5 "view with libpaxos after one with paxos";
    SwitchedToLibpaxosPlus 5 "view with libpaxos+ after one with paxos";
    SwitchedFromLibpaxos 5 "view with paxos after one with libpaxos";
    SwitchedFromLibpaxosPlus 5 "view with paxos after one with libpaxos+";
    SwitchedToFastPaxos 4 "view with fast_paxos after one with paxos";
    SwitchedFromFastPaxos 4 "view with paxos after one with fast_paxos";
    SwitchedLibpaxosToFastPaxos 5 "view with fast_paxos after one with libpaxos or libpaxos+";
    SwitchedFastPaxosToLibpaxos 5 "view with libpaxos or libpaxos+ after one with fast_paxos";
    FastDecided 100 "slot decided in a fast round";
    FastCollided 40 "slot whose fast round collided, decided in the classic one";
    SwitchedToSteps 5 "view with libpaxos+ after one with libpaxos";
    SwitchedFromSteps 5 "view with libpaxos after one with libpaxos+";
    Spared 100 "leader that proposes to the best majority only";
    Suspected 6 "one of that majority suspected, all asked again";
    Near 20 "leader that proposes to the nearest majority only";
    NearSuspected 2 "one of the nearest suspected, all asked again";
    Retried 50 "decided value sent again to a node that has not acknowledged it";
    SwitchedToRing 1 "view with ring_paxos after one with paxos";
    SwitchedLibpaxosToRing 1 "view with ring_paxos after one with libpaxos";
    SwitchedStepsToRing 1 "view with ring_paxos after one with libpaxos+";
    SwitchedFromRing 1 "view with paxos after one with ring_paxos";
    SwitchedRingToLibpaxos 1 "view with libpaxos after one with ring_paxos";
    SwitchedRingToSteps 1 "view with libpaxos+ after one with ring_paxos";
    SwitchedFastPaxosToRing 1 "view with ring_paxos after one with fast_paxos";
    SwitchedRingToFastPaxos 1 "view with fast_paxos after one with ring_paxos";
    SwitchedToSPaxos 1 "view with s_paxos after one with paxos";
    SwitchedLibpaxosToSPaxos 1 "view with s_paxos after one with libpaxos or libpaxos+";
    SwitchedFastPaxosToSPaxos 1 "view with s_paxos after one with fast_paxos";
    SwitchedRingToSPaxos 1 "view with s_paxos after one with ring_paxos";
    SwitchedFromSPaxos 1 "view with paxos after one with s_paxos";
    SwitchedSPaxosToLibpaxos 1 "view with libpaxos or libpaxos+ after one with s_paxos";
    SwitchedSPaxosToFastPaxos 1 "view with fast_paxos after one with s_paxos";
    SwitchedSPaxosToRing 1 "view with ring_paxos after one with s_paxos";
    NamedProposed 50 "proposal by names of values that were spread";
    WantAsked 5 "named value that had not come, asked of the leader";
    IdPassed 30 "id of a value that was multicast, passed on along a ring";
    ValueFetched 5 "value that was multicast and lost, got over a link";
    Deaf 2 "node that hears multicast no more, and says so";
    Ringed 50 "leader whose proposals go along a ring";
    RingBroken 20 "ring suspected, all asked again";
    Ahead 500 "slot decided as the objects had executed it";
    Undone 20 "objects go back, whose slots may be decided otherwise";
    ToldEarly 500 "client told what a call returned ahead of its decision";
    Fell 2 "call answered otherwise than its client had been told early";
    UnreadableKept 1 "message kept from a node that does not read it";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

/// How often each row took effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exercised(BTreeMap<Row, u64>);

impl Exercised {
    /// Counts an effect.
    pub(super) fn note(&mut self, row: Row) {
        *self.0.entry(row).or_default() += 1;
    }

    /// Adds what another run exercised.
    pub fn add(&mut self, other: &Exercised) {
        for (row, count) in &other.0 {
            *self.0.entry(*row).or_default() += count;
        }
    }

    /// How often `row` took effect.
    pub fn count(&self, row: Row) -> u64 {
        self.0.get(&row).copied().unwrap_or(0)
    }

    /// Rows below the quota of `seeds` seeds.
    pub fn missed(&self, seeds: u64) -> Vec<Row> {
        let is_missed = |row: &Row| self.count(*row) < row.quota() * seeds / QUOTA_SEEDS;
        Row::ALL.iter().copied().filter(is_missed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_below_its_quota_is_missed_and_one_without_a_quota_is_not() {
        let mut exercised = Exercised::default();
        for row in Row::ALL.iter().filter(|row| **row != Row::Reset) {
            (0..row.quota()).for_each(|_| exercised.note(*row));
        }
        assert_eq!(exercised.missed(QUOTA_SEEDS), [Row::Reset]);
        let mut twice = exercised.clone();
        twice.add(&exercised);
        twice.add(&exercised);
        assert_eq!(twice.missed(2 * QUOTA_SEEDS), [Row::Reset]);
    }
}
