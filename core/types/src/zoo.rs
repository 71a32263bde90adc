//! Bugs that can be planted, one at a time, to prove that the simulator finds them.
//!
//! Only a build with the feature `zoo` can plant any, and no program that ships has it: without the
//! feature [`planted`] is the constant `false`, and what depends on it is not compiled in.

/// A bug that many an implementation has had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Plant {
    /// A vote is told before its record is durable.
    AcknowledgeBeforeSync,
    /// A promise is told before its record is durable.
    PromiseBeforeSync,
    /// Promises are not read back after a restart.
    ForgetPromise,
    /// An acceptor votes in ballots below its promise.
    AcceptLowerBallot,
    /// A ballot is used before its promise is durable, and no boot number tells it from the next.
    BallotReused,
    /// A node that learns by counting adds up votes of several ballots.
    LearnerMixesBallots,
    /// A vote that arrives twice counts twice where a node learns by counting.
    LearnerCountsTwice,
    /// A node without a vote tells what it holds as votes, and those who learn by counting count it.
    LearnerCountsObservers,
    /// The age of what a node holds counts from what the leader knew to be decided, where others know it earlier.
    AgeByLeaderOnly,
    /// One vote too few decides where only the best majority is asked.
    StepQuorumTooSmall,
    /// Who is suspected stays the only one that is asked.
    SuspectedStaysChosen,
    /// A node names itself among those who voted before its vote is durable, where votes are gathered along a ring.
    RingVoteBeforeSync,
    /// A node that does not vote names itself among them.
    RingAbstainerNamed,
    /// A node names the one that passed a proposal on to it among those who voted, and does not wait for its vote.
    RingBringerNamed,
    /// What is gathered along a ring counts for all slots before it too.
    RingCumulative,
    /// Whatever is gathered along a ring is taken for a quorum.
    RingTakenForQuorum,
    /// A node votes for a proposal whose value was multicast and has not come.
    VotedUnheld,
    /// A node passes such a proposal on before it holds the value.
    PassedOnUnheld,
    /// A value that was multicast is taken for the same slot in another ballot.
    ValueOfAnyBallot,
    /// A value that was multicast and has not come is asked of nobody.
    LostValueNotAsked,
    /// A node does not tell that what is multicast comes no more.
    DeafNotTold,
    /// Parts of two values in datagrams are put together to one.
    PartsMixed,
    /// Parts in datagrams of an earlier ballot or view are taken for those of the newest.
    PartsOfOldBallot,
    /// A leader proposes names of values that only it holds.
    NamedUnstable,
    /// What a node told to hold counts after its link is gone, when it may have started anew.
    HoldersOutliveLinks,
    /// Values that nodes spread are kept without bounds.
    SpreadUnbounded,
    /// Who may have forgotten an earlier life in a view gives names there that it may have given already.
    NameGivenTwice,
    /// A value that was named and has not come is asked of nobody.
    ValueNeverFetched,
    /// The next view names another ordering, and nodes go on as before.
    OldPolicyInNextView,
    /// A vote that arrives twice counts twice.
    AcceptorCountedTwice,
    /// One promise that tells a vote is taken for a quorum.
    PhaseOneSkipped,
    /// A new leader proposes found values without the gaps between them.
    GapsClosedUp,
    /// A node that misses decided slots does not ask for them.
    TailLossUnnoticed,
    /// Promises do not tell what is decided and trimmed.
    DecidedNotInPromise,
    /// Of several votes found for a slot, the one of the lowest ballot is proposed again.
    LowestBallotWins,
    /// A vote counts for all slots before it too.
    CumulativeVote,
    /// What is held for a decided slot is taken for its value, whatever its ballot.
    HeldInAnyBallot,
    /// After a restart the own vote is taken for the value, though another was chosen.
    OwnVoteOverChosen,
    /// A new leader answers reads before it has decided what phase 1 found.
    ReadBeforeRecovered,
    /// A leader answers confirmed reads on its own word.
    ReadUnconfirmed,
    /// Reads join a confirmation that was opened before they arrived.
    ConfirmReused,
    /// A lease is not looked at again after the value was read.
    LeaseNotRechecked,
    /// Reads do not wait until their barrier is executed.
    BarrierNotAwaited,
    /// Snapshots hold no sessions.
    SessionsNotInSnapshot,
    /// One replica's snapshot is enough to trim the log.
    TrimByOne,
    /// Damage in the middle of the log is taken for its end.
    MidLogCut,
    /// An emptied directory is made a node again.
    WipedVotes,
    /// A duplicate of an answered call executes.
    DuplicateExecutes,
    /// A leader that steps down forgets what waited.
    SubmissionForgotten,
    /// A session expires though it was active after it was judged.
    ExpireIgnoresActivity,
    /// A snapshot lacks the calls of its own slot.
    SnapshotAtWrongSlot,
    /// A peer gets as many values as there are, acknowledged or not.
    CreditUnbounded,
    /// An acceptor votes although its log has lost records.
    DamageIgnored,
    /// A node that kept nothing over its restart votes.
    ForgetfulNodeVotes,
    /// The base that replaces old records does not restate the promise.
    BaseWithoutPromise,
    /// A leader stamps batches with its own clock alone.
    WallGoesBack,
    /// A client takes the end of its session for a refusal of its calls.
    ExpiredCountsAsRefused,
    /// A snapshot is reported durable and was never written.
    SnapshotNotDurable,
    /// A failed sync is taken for a success.
    SyncErrorIgnored,
    /// An acceptor that granted a lease promises another node before it has run out.
    LeaseIgnored,
    /// A lease that was granted before a restart binds nobody after it.
    LeaseForgotten,
    /// A lease counts from when its answer came, not from when it was asked for.
    LeaseFromItsAnswer,
    /// A leader counts on a lease that one acceptor too few granted.
    LeaseByOneTooFew,
    /// A lease ends no earlier at the leader than at the acceptors, whatever their clocks do.
    LeaseWithoutDrift,
    /// Reads are confirmed by one acceptor too few.
    ConfirmedByOneTooFew,
    /// A leader that hears no quorum goes on leading.
    LeaderWithoutQuorumStays,
    /// A leader that learns another value for a slot that it proposed goes on leading.
    SupersededLeaderStays,
    /// Elections take ten times as long.
    ElectionsTenTimesSlower,
    /// What was asked of a peer that died is not asked of another before its time is up.
    DeadPeerWaitedFor,
    /// What an acceptor held while it had no vote is told as its vote.
    HeldTakenForVote,
    /// The same batch in a higher ballot is no new record.
    VoteNotRewritten,
    /// A decided batch that differs from the last vote is not written down.
    ChosenNotWritten,
    /// The base that replaces old records calls slots decided whose records may be lost.
    BaseWrongWatermark,
    /// A candidate takes the first page of a promise for the whole.
    PromisePagesSkipped,
    /// A damaged acceptor votes again when one other has told what it knows.
    RepairByOne,
    /// A full table of sessions ends one that may have been promised the whole expiry time.
    FullTableEvicts,
    /// A client that reads sends no keepalive, though reads keep no session.
    ReadsPutKeepaliveOff,
    /// A client that sends calls sends no keepalive, though no node executes them.
    RefusedCallsPutKeepaliveOff,
    /// A keepalive is acknowledged and does not delay the expiry.
    KeepaliveNotNoted,
    /// All sessions expire after the usual time, whatever their clients asked for.
    ExpiryOfGroup,
    /// A node says that it has noted a sign of life, and has not.
    NotesNotTaken,
    /// An expiry that an earlier leader judged ends a session that a later one keeps.
    ExpiryBeforeLead,
    /// A new leader takes what the last promise told to be decided for what all told.
    FloorOfLastPromise,
    /// A survey is told only of votes in the present ballot.
    SurveyOfCurrentBallot,
    /// A leader stamps batches with its own clock, however far that is from the others'.
    LeaderClockAlone,
    /// A leader takes the middle of the clocks that it has heard of, a majority, for the median of all.
    MiddleOfKnownClocks,
    /// A replica that differed from the majority trusts its objects again after a restart.
    QuarantineForgotten,
    /// A replica that differs goes on from the snapshot at which it differed, and skips what it had executed since.
    HealsWhereItDiffers,
    /// One replica's digest is taken for the agreed one.
    DigestOfOne,
    /// What peers tell of their outcomes is not compared.
    OutcomesNotCompared,
    /// The own digest of outcomes is compared with those of a later slot.
    OutcomesAtWrongSlot,
    /// A node whose log was lost votes again.
    LostLogUnnoticed,
    /// A node that has installed a snapshot waits for the answer to what it asked before.
    TrimmedAskKept,
    /// A new leader waits for the answer to what it asked a peer before it led.
    StaleAskKept,
    /// A node that misses its leader opens a ballot without asking whether others miss it too.
    PreVoteSkipped,
    /// A proposal that was lost is not sent again.
    ProposalsNotSentAgain,
    /// A poison call is skipped when a majority of the replicas has died at it.
    SkipWithoutAllReports,
    /// A poison call that a replica may have answered is skipped.
    SkipOfAnswered,
    /// The caller of a skipped call is not told, and no reply is kept.
    SkipLosesReply,
    /// A call that was skipped before it went to the objects is executed.
    SkipNotHandedOut,
    /// A report of a death that ordering refused is not made again.
    PoisonReportForgotten,
    /// Replicas past a call at which others died do not say so.
    SurvivalNotTold,
    /// Replicas that died at a call that others survived count for the majority that agrees on a snapshot.
    StuckHaveTheirSay,
    /// A replica that executes a call again at which its host died stays counted among those that died.
    RetryNotCounted,
    /// The age of a follower's state counts from when the leader's word arrived.
    AgeFromReceipt,
    /// Kept replies are dropped only when clients acknowledge them.
    KeptRepliesUnbounded,
    /// A client that changes its replica may read an older state than before.
    AnyGoesBack,
    /// A new leader does not confirm the reads that it had asked its predecessor for.
    ReadsNotAskedAgain,
    /// Whoever knows the secret of a session may use every session.
    SecretOfAnySession,
    /// A client remembers the slot of its last answer, not the highest one.
    SeenFallsBack,
    /// A node asks for a snapshot of the very slot whose state it has.
    HeldStateFetched,
    /// A log is called repaired before the promise is restated in it.
    RepairedBeforePromise,
    /// A candidate that lags far is granted its pre-vote though a better one is linked.
    LaggingCandidateGranted,
    /// A node that waits for a snapshot does not ask a peer that reports one of exactly the slot that it needs.
    ExactSnapshotNotAsked,
    /// A client takes a hint who leads for an answer, and pauses between no dials.
    HintCountsAsAnswer,
    /// A client counts each refusal of a node as one more node that it left.
    EachRefusalLeaves,
    /// A replica whose host is down says that its objects are past the call.
    SurvivalToldWhileDown,
    /// A start executes before any peer can have told it that its data directory is an older copy.
    CopyExecutesUnheard,
    /// A start whose data directory lost what earlier ones had noted takes what it finds there for all that they reported.
    LostReportsTrusted,
    /// A damaged acceptor that a snapshot took past slots calls them decided in its log, where votes for other batches stand.
    WatermarkOverJump,
    /// Objects that hold something else than the state that an operator chose are served with the others.
    ResetThawsOthers,
    /// A replica that goes on from a snapshot does not know that an operator has chosen a state before it.
    ResetForgotten,
    /// The objects answer from the state that an operator chose before a majority holds it.
    ThawWithoutMajority,
    /// An operator's word skips a call also where it was not to, because a replica may have executed it.
    SkipAlwaysUnsafe,
    /// Only the node that an operator asked skips the call.
    SkipOnlyWhereAsked,
    /// Objects that fetch the state of a reset, or begin there, go on before its end is decided.
    InstalledAnswersBeforeThaw,
    /// An object's image holds none of its parked calls.
    ParkedNotInImage,
    /// Images hold no timers.
    TimersNotInImage,
    /// Images hold no deadlines of parked calls.
    DeadlinesNotInImage,
    /// A tick has happen what is due only within the second after it.
    TickFiresEarly,
    /// Only the replica that submitted a tick has it executed.
    TickOnlyWhereSubmitted,
    /// A tick that is refused counts as on its way for ever.
    TickForgottenWhenRefused,
    /// A timer that was due once is due again.
    TimerFiresAgain,
    /// In a tick timers run before callers are told that their time is over.
    TimersBeforeDeadlines,
    /// Snapshots hold no answers of calls that were parked.
    WokenNotInSnapshot,
    /// Snapshots hold no parked calls of sessions.
    ParkedNotInSnapshot,
    /// The answer of a parked call is kept only where somebody waits for it.
    WokenOnlyWhereAwaited,
    /// A parked call that comes again is ordered and executed again.
    ParkedExecutesAgain,
    /// Who asks again for a parked call is told that it waits, and never its answer.
    ParkedNotJoined,
    /// What a client acknowledges drops the parked calls before it.
    AcknowledgedDropsParked,
    /// What a client acknowledges drops calls before it that are not executed yet.
    AcknowledgedDropsPending,
    /// The objects hear of no session's end.
    EndNotTold,
    /// Parked calls outlive their session in the table of their object.
    EndKeepsParked,
    /// Of those who wait, the last one is served first.
    NewestTakerFirst,
    /// A fetched snapshot ends no call that is parked here.
    MergeKeepsParked,
    /// A client counts on its session for longer than the group keeps it.
    LifeBeyondExpiry,
    /// A client takes any answer to a keepalive for one to the newest.
    LifeOfNewestKeepalive,
    /// A client counts on its session from when an answer comes.
    LifeFromAnswer,
    /// Who holds a lock has it beyond the end of its session.
    HolderOutlivesSession,
    /// Whom nobody waits for any more still gets what another call gives.
    CancelForgotten,
    /// A leader does not stop at the last slot of its view.
    ProposesPastTheView,
    /// The next view begins one slot early.
    ViewOneSlotEarly,
    /// The next view is in force for a node before it has applied the slots of the one before.
    ViewBeforeItsTime,
    /// A node goes on in the old view: it does not look at what was decided about the next one.
    ViewNotFollowed,
    /// A second change is decided before the first is in force.
    TwoViewsAtOnce,
    /// A snapshot does not say which view follows.
    NextViewNotInSnapshot,
    /// After a restart a node votes in a view of which its log has lost what it promised.
    LostViewVotes,
    /// A start that has lost what earlier ones voted votes all the same.
    LostLifeVotes,
    /// Peers measure a node that came back by what they saw of the incarnation before.
    EarlierIncarnationMeasured,
    /// What an older copy of a directory has learned since it started makes up for what it lacks.
    LearnedCountsAsHeld,
    /// A directory is measured by what its last start began with, which an earlier start may have learned.
    LastStartMeasured,
    /// A snapshot does not say which incarnation of a node may vote.
    RejoinNotInSnapshot,
    /// A node joins without an invitation.
    UninvitedJoins,
    /// A group is set to a level though a member does not speak it.
    LevelUnheard,
    /// An acceptor votes for the trim of logs though it lacks slots before.
    CollectVotedWithGap,
    /// A leader trims its log when it proposes that, not when it is decided.
    CollectAtProposal,
    /// A leader has logs trimmed up to what it has applied, whatever snapshots there are.
    CollectAboveStable,
    /// The trim of logs is proposed in a view whose members may not read it.
    CollectBelowLevel,
    /// A node takes part in a view whose level it does not speak.
    BelowLevelTakesPart,
    /// A node is sent what its build does not read.
    UnreadableSent,
    /// An invitation is open after somebody has joined with it.
    InvitationUsedTwice,
    /// A snapshot does not hold the open invitations.
    InvitationsNotInSnapshot,
    /// A snapshot does not hold the other groups.
    GroupsNotInSnapshot,
    /// What the log has of a view that the snapshot does not know is dropped.
    LaterViewDropped,
    /// A base is written without what the other view's instance promised.
    BaseOfOneView,
    /// Reads whose barrier is the last slot of a view are answered without asking in the next.
    ReadsNotAskedInNextView,
    /// What an old view left unordered is forgotten.
    UnorderedForgotten,
    /// Nobody tells a node that is behind that its view is gone.
    GoneViewNotTold,
    /// A node that hears of a later view does not ask for what it lacks.
    PassedUnnoticed,
    /// What acceptors of the old view noted of keepalives is taken for all there is.
    NotesOfOldView,
    /// The next view counts with the quorums of the one before.
    QuorumsOfOldView,
    /// How many sessions may be open follows a change of the view once that is decided, a window too early.
    LimitsAtDecision,
    /// Who begins with a snapshot has the default limits.
    LimitsNotInSnapshot,
    /// How many replies are kept follows the view that is applied, not the one of the slot that is executed.
    RepliesLimitedAtApply,
    /// Whether clients must acknowledge sooner follows the limit of what is executed, not the one that is in force.
    CrowdedAtExecution,
    /// Where other acceptors vote than asked quorums were made for, as many as before elect a leader: too few to meet who decides.
    KeptPhaseOneMisses,
    /// As many promises make a leader as votes decide.
    PhaseOneByPhaseTwo,
    /// A majority confirms reads, whatever the quorums are.
    ConfirmedByMajority,
    /// A majority grants leases, whatever the quorums are.
    LeasedByMajority,
    /// A node that is no acceptor in the next view goes on voting there.
    RemovedAcceptorVotes,
    /// A node that only learns is counted among those that voted.
    LearnerCounted,
    /// Whoever stands first in a later view leads without the promises of others.
    NextViewWithoutPhaseOne,
    /// Whoever led the view before leads the next one without phase 1, also where that names somebody else.
    FirstBallotOfAnybody,
    /// All acceptors stand in the next view at once and lead it without phase 1, each in the first ballot of its own.
    FirstBallotOfAll,
    /// A leader proposes further ahead of what it has applied than the window.
    WindowIgnored,
    /// A message of another view is passed to the instance in force.
    ViewOfMessageIgnored,
    /// A report that a client closed its connection counts although the client was heard on a later one.
    LateCloseCounts,
    /// The age of a closed connection grows while nobody leads.
    StallAgesClose,
    /// A node that stops reports that its clients have closed their connections.
    ShutdownTakenForDeath,
    /// A new leader does not learn which connections of sessions were heard.
    AttachmentsNotGathered,
    /// A client counts on its session for the whole expiry time although it closed its connection.
    LifeBeyondClose,
    /// A copy of a resume begins another tenancy.
    CopyResumes,
    /// Calls of an earlier tenancy are executed after a resume.
    EarlierTenancyExecutes,
    /// Keepalives and closes of an earlier tenancy count after a resume.
    EarlierTenancyKept,
    /// Calls that a client parked before it was superseded stay parked.
    ResumeKeepsParked,
    /// Snapshots do not tell which client has a session.
    TenantNotInSnapshot,
    /// Of the calls that one step answers only the first is.
    FirstOfManyWoken,
    /// Of what several timers of one tick answer, only what the last one does is told.
    LastTimerAnswers,
    /// Only who leads keeps the answers of a slot's woken calls behind the first one.
    ManyWokenKeptByLeader,
    /// A snapshot taken while its slot is executed holds only the first of the answers that the slot gives to calls that waited.
    ManyWokenNotInSnapshot,
    /// A call that parks and is answered in one slot stays parked in its session.
    WokenInItsSlotParked,
    /// A call that was woken is executed again when it comes again.
    WokenExecutesAgain,
    /// What was executed before its slot was decided counts, whatever is decided there.
    TentativeNotCompared,
    /// A read is answered though the state that it shows is not decided.
    TentativeStateRead,
    /// Objects get further calls before they have told that they went back: what they told of a slot before counts for what it holds now.
    UndoneNotAwaited,
    /// A call that was executed ahead of its decision is executed ahead in a later slot, too.
    AheadTwice,
    /// A snapshot is taken of objects that are ahead of it.
    AheadInSnapshot,
    /// A tentative reply is confirmed whatever is decided.
    ConfirmedNotCompared,
    /// The session keeps a tentative reply for the answer to its call.
    TentativeKept,
    /// Clients are told what is undone at that moment.
    TentativeOfUndone,
    /// A client takes a tentative reply for the answer.
    TentativeEndsCall,
    /// A restored feed wakes its watchers in another order.
    WatchersInOtherOrder,
    /// The image of a feed does not say how many changes were trimmed.
    LostNotInImage,
    /// A watcher with an old number waits for the next change before it is told.
    OldNumberWaits,
    /// Segments of which nothing is needed stay in the log.
    SegmentsKept,
    /// Older snapshots are not removed.
    SnapshotsKept,
    /// No leader judges that a session has expired.
    SessionsKept,
    /// Whoever recovers a fast round counts each value once, however many voted for it.
    ValuesCountedOnce,
    /// An acceptor votes a second time in a fast round after a restart.
    FastRoundCastTwice,
    /// As many votes as a classic round needs decide a fast one.
    FastQuorumTooSmall,
    /// Votes of a fast round are counted whatever they are for.
    FastVotesOfAnyValue,
    /// The leader's watermark is taken for the decision of the own fast vote.
    FastVoteDecidedByWatermark,
    /// A fast round is recovered as soon as two values have votes, though one of them can still be decided.
    RecoveredBeforeCollision,
    /// An acceptor votes in a fast round where it may have lost its vote.
    UnknownSlotCast,
    /// An acceptor goes on voting fast in a ballot of which nobody has told it that it may.
    AnyOfOldBallot,
    /// What lost a collision is not proposed again.
    LoserForgotten,
    /// An acceptor whose log was damaged votes fast again in the ballot in which it may have voted.
    RepairedInItsBallot,
    /// Reads reflect only what the leader itself knows to be voted for.
    FastReadUnasked,
    /// A leader answers an announced read with the confirmations of other reads.
    AnnouncedConfirmReused,
    /// Whoever follows another leader confirms an announced read too, and a leader counts it.
    AnnouncedBallotIgnored,
    /// The barrier of an announced read leaves out what is proposed and voted for.
    AnnouncedBarrierDecided,
    /// A leader answers an announced read that one acceptor too few confirmed.
    AnnouncedByOneTooFew,
    /// A witness trims its log for a snapshot that it does not keep.
    WitnessTrimsUnkept,
    /// A witness counts among those whose digests must agree, and keeps whatever one replica reports.
    WitnessAgrees,
    /// A witness stands for election.
    WitnessLeads,
    /// A node executes though the view names it as a witness.
    WitnessExecutes,
    /// Logs are trimmed as soon as a majority of the replicas holds a snapshot, whoever votes.
    HoldersMissQuorums,
    /// The age of a state counts as if the leader knew all that fast rounds decided.
    FastAgeOfLeader,
}

mod lists;

#[cfg(feature = "zoo")]
mod planting;

#[cfg(feature = "zoo")]
pub use planting::{plant, planted};

/// Nothing is ever planted in this build.
#[cfg(not(feature = "zoo"))]
#[must_use]
#[inline(always)]
pub const fn planted(_plant: Plant) -> bool {
    false
}

#[cfg(not(feature = "zoo"))]
const _: () = assert!(
    !planted(Plant::ForgetPromise),
    "what ships holds no planted bug"
);
