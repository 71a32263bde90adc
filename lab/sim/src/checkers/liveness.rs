//! Once faults stop, every operation of a healthy client completes within a stated virtual time.
//!
//! The seeded world reports calls, answers and the moments at which faults stop or begin again. No deadline runs
//! while faults last. A call needs a session, and a full table of sessions has no place before one of them expires: a
//! client that was refused for that is owed its place first, within a bound of its own.

use std::collections::BTreeMap;

use super::{Property, Violation};

/// Operations under way and what is owed to them.
#[derive(Debug)]
pub struct Liveness {
    within_ns: u64,
    /// A full table has a place again so long after a leader began to judge, and after the last sign of life in a session
    /// that nobody uses, at the latest.
    place_within_ns: u64,
    judged_since_ns: u64,
    places: BTreeMap<u64, Place>,
    quiet_since_ns: Option<u64>,
    /// When nodes that lag have caught up after faults stopped, and what waited then is ordered.
    caught_up_ns: u64,
    /// When nodes were last seen to execute again what was decided when faults stopped.
    replayed_ns: u64,
    /// Client and time of the call by the world's number of the operation.
    waiting: BTreeMap<u64, (u64, u64)>,
    completed_in_quiet: u64,
}

/// A client's place in the table of sessions, where it was ever refused one.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The table was full when the client asked last.
    Awaited,
    /// It had room from then on.
    Free(u64),
}

impl Liveness {
    /// Owes an answer within `within_ns` of virtual time, and a place in a full table within `place_within_ns`; faults
    /// are on.
    pub fn new(within_ns: u64, place_within_ns: u64) -> Self {
        Self {
            within_ns,
            place_within_ns,
            judged_since_ns: 0,
            places: BTreeMap::new(),
            quiet_since_ns: None,
            caught_up_ns: 0,
            replayed_ns: 0,
            waiting: BTreeMap::new(),
            completed_in_quiet: 0,
        }
    }

    /// Takes note that from `now_ns` on no fault happens and all that was broken is mended. A client may be with the node that
    /// lags most, which answers reads once it has caught up: at the pace that its limits and links allow, it needs
    /// `catching_up_ns` for that.
    ///
    /// What waits by then is ordered before what is called later: the group orders one operation in `each_ns` at least, as its limits,
    /// links and disks allow.
    pub fn faults_stopped(&mut self, now_ns: u64, catching_up_ns: u64, each_ns: u64) {
        self.quiet_since_ns = Some(now_ns);
        let backlog_ns = each_ns.saturating_mul(self.waiting.len() as u64);
        let delay_ns = catching_up_ns.saturating_add(backlog_ns);
        self.caught_up_ns = now_ns.saturating_add(delay_ns);
    }

    /// Takes note that nodes that were started execute what their snapshots lack. Each answers once it is through. Who says so bounds
    /// the time of it: a node that does not go on owes its answers all the same.
    pub fn replays(&mut self, now_ns: u64) {
        self.replayed_ns = now_ns;
    }

    /// Takes note that faults happen again.
    pub fn faults_began(&mut self) {
        self.quiet_since_ns = None;
    }

    /// Takes note that a leader begins: how long sessions were silent before counts for nothing.
    pub fn leader_began(&mut self, now_ns: u64) {
        self.judged_since_ns = now_ns;
    }

    /// Takes note that a copy of a call reaches a node in a session that no client uses: it may keep the place of that
    /// session for as long again.
    pub fn left_session_called(&mut self, now_ns: u64) {
        self.judged_since_ns = now_ns;
    }

    /// Takes note that `client` is refused a session while the table is full.
    pub fn found_no_place(&mut self, client: u64) {
        self.places.insert(client, Place::Awaited);
    }

    /// Takes note that `client` has a session, or is refused one though the table has room.
    pub fn found_place(&mut self, now_ns: u64, client: u64) {
        if let Some(place @ Place::Awaited) = self.places.get_mut(&client) {
            *place = Place::Free(now_ns);
        }
    }

    /// Takes note of a call; `operation` is a number that the world gives once.
    pub fn invoked(&mut self, now_ns: u64, client: u64, operation: u64) {
        let before = self.waiting.insert(operation, (client, now_ns));
        assert!(before.is_none(), "operation {operation} is called once");
    }

    /// Takes note that an operation ended for its client, with a result or an error that says so.
    ///
    /// # Errors
    /// [`Property::Liveness`] when it came later than owed.
    pub fn completed(&mut self, now_ns: u64, operation: u64) -> Result<(), Violation> {
        let late = self.late(now_ns, operation);
        self.waiting.remove(&operation);
        self.completed_in_quiet += u64::from(self.quiet_since_ns.is_some());
        late
    }

    /// Takes note that a client is gone: nothing is owed to it.
    pub fn client_lost(&mut self, client: u64) {
        self.waiting.retain(|_, (caller, _)| *caller != client);
    }

    /// Looks whether anything is overdue at `now_ns`.
    ///
    /// # Errors
    /// [`Property::Liveness`] naming the first overdue operation.
    pub fn check(&self, now_ns: u64) -> Result<(), Violation> {
        self.waiting
            .keys()
            .try_for_each(|operation| self.late(now_ns, *operation))
    }

    /// Operations completed while no faults were on: at the end of a run 0 means that nothing was shown.
    pub fn completed_in_quiet(&self) -> u64 {
        self.completed_in_quiet
    }

    fn late(&self, now_ns: u64, operation: u64) -> Result<(), Violation> {
        let (Some(quiet_ns), Some((client, called_ns))) =
            (self.quiet_since_ns, self.waiting.get(&operation))
        else {
            return Ok(());
        };
        let place_ns = match self.places.get(client) {
            None => 0,
            Some(Place::Free(at_ns)) => *at_ns,
            Some(Place::Awaited) => {
                let began_ns = quiet_ns.max(self.judged_since_ns);
                began_ns.saturating_add(self.place_within_ns)
            }
        };
        let ready_ns = self.caught_up_ns.max(self.replayed_ns);
        let begun_ns = ready_ns.max(*called_ns).max(place_ns);
        let owed_ns = begun_ns.saturating_add(self.within_ns);
        if now_ns <= owed_ns {
            return Ok(());
        }
        Err(Violation::new(
            Property::Liveness,
            format!(
                "operation {operation} of client {client}, called at {called_ns} ns, was owed by {owed_ns} ns; faults stopped at {quiet_ns} ns, it is {now_ns} ns"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_owed_while_faults_last() {
        let mut owed = Liveness::new(10, 0);
        owed.invoked(0, 1, 1);
        owed.check(1000).unwrap();
        owed.faults_stopped(1000, 0, 0);
        owed.check(1010).unwrap();
        owed.completed(1010, 1).unwrap();
        owed.check(u64::MAX).unwrap();
        assert_eq!(owed.completed_in_quiet(), 1);
    }

    #[test]
    fn an_operation_that_hangs_or_answers_late_after_faults_stopped_is_found() {
        let mut owed = Liveness::new(10, 0);
        owed.invoked(0, 1, 1);
        owed.faults_stopped(5, 0, 0);
        owed.invoked(20, 2, 2);
        let broken = owed.check(16).unwrap_err();
        assert_eq!(broken.property, Property::Liveness);
        assert!(broken.detail.contains("client 1"), "{broken}");
        assert!(owed.completed(16, 1).is_err());
        owed.check(30).unwrap();
        assert!(owed.check(31).is_err());
    }

    #[test]
    fn who_may_be_with_a_node_that_lags_is_owed_an_answer_after_it_caught_up() {
        let mut owed = Liveness::new(10, 0);
        owed.invoked(0, 1, 1);
        owed.faults_stopped(100, 50, 0);
        owed.check(160).unwrap();
        assert!(owed.check(161).is_err());
        owed.completed(160, 1).unwrap();
        owed.invoked(170, 1, 2);
        owed.check(180).unwrap();
        assert!(owed.check(181).is_err(), "the time to catch up is over");
    }

    #[test]
    fn an_answer_is_owed_after_nodes_have_executed_what_they_began_behind() {
        let mut owed = Liveness::new(10, 0);
        owed.invoked(0, 1, 1);
        owed.faults_stopped(100, 0, 0);
        owed.replays(105);
        owed.replays(109);
        owed.check(119).unwrap();
        assert!(
            owed.check(120).is_err(),
            "they are through, or do not go on"
        );
    }

    #[test]
    fn what_waits_when_faults_stop_is_owed_an_answer_after_it_can_be_ordered() {
        let mut owed = Liveness::new(10, 0);
        owed.invoked(0, 1, 1);
        owed.invoked(0, 2, 2);
        owed.faults_stopped(100, 0, 25);
        owed.check(160).unwrap();
        assert!(owed.check(161).is_err());
    }

    #[test]
    fn who_waits_for_a_place_in_a_full_table_is_owed_it_first() {
        let mut owed = Liveness::new(10, 100);
        owed.faults_stopped(0, 0, 0);
        owed.invoked(0, 1, 1);
        owed.invoked(0, 2, 2);
        owed.found_no_place(1);
        owed.completed(5, 2).unwrap();
        owed.check(110).unwrap();
        assert!(owed.check(111).is_err(), "the table has had time for it");
        owed.leader_began(50);
        owed.check(160).unwrap();
        assert!(owed.check(161).is_err());
        owed.left_session_called(55);
        owed.check(165).unwrap();
        assert!(owed.check(166).is_err());
        owed.found_place(60, 1);
        owed.found_place(65, 1);
        owed.check(70).unwrap();
        assert!(owed.check(71).is_err(), "with a place it is like any other");
    }

    #[test]
    fn a_lost_client_and_a_new_fault_owe_nothing() {
        let mut owed = Liveness::new(10, 0);
        owed.faults_stopped(0, 0, 0);
        owed.invoked(0, 1, 1);
        owed.invoked(0, 2, 2);
        owed.client_lost(1);
        owed.completed(3, 2).unwrap();
        owed.check(100).unwrap();
        owed.invoked(100, 2, 3);
        owed.faults_began();
        owed.check(200).unwrap();
    }
}
