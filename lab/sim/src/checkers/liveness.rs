//! Once faults stop, every operation of a healthy client completes within a stated virtual time.
//!
//! The seeded world reports calls, answers and the moments at which faults stop or begin again. No deadline runs
//! while faults last.

use std::collections::BTreeMap;

use super::{Property, Violation};

/// Operations under way and what is owed to them.
#[derive(Debug)]
pub struct Liveness {
    within_ns: u64,
    quiet_since_ns: Option<u64>,
    /// Client and time of the call by the world's number of the operation.
    waiting: BTreeMap<u64, (u64, u64)>,
    completed_in_quiet: u64,
}

impl Liveness {
    /// Owes an answer within `within_ns` of virtual time; faults are on.
    pub fn new(within_ns: u64) -> Self {
        Self {
            within_ns,
            quiet_since_ns: None,
            waiting: BTreeMap::new(),
            completed_in_quiet: 0,
        }
    }

    /// Takes note that from `now_ns` on no fault happens and all that was broken is mended.
    pub fn faults_stopped(&mut self, now_ns: u64) {
        self.quiet_since_ns = Some(now_ns);
    }

    /// Takes note that faults happen again.
    pub fn faults_began(&mut self) {
        self.quiet_since_ns = None;
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
        let owed_ns = quiet_ns.max(*called_ns).saturating_add(self.within_ns);
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
        let mut owed = Liveness::new(10);
        owed.invoked(0, 1, 1);
        owed.check(1000).unwrap();
        owed.faults_stopped(1000);
        owed.check(1010).unwrap();
        owed.completed(1010, 1).unwrap();
        owed.check(u64::MAX).unwrap();
        assert_eq!(owed.completed_in_quiet(), 1);
    }

    #[test]
    fn an_operation_that_hangs_or_answers_late_after_faults_stopped_is_found() {
        let mut owed = Liveness::new(10);
        owed.invoked(0, 1, 1);
        owed.faults_stopped(5);
        owed.invoked(20, 2, 2);
        let broken = owed.check(16).unwrap_err();
        assert_eq!(broken.property, Property::Liveness);
        assert!(broken.detail.contains("client 1"), "{broken}");
        assert!(owed.completed(16, 1).is_err());
        owed.check(30).unwrap();
        assert!(owed.check(31).is_err());
    }

    #[test]
    fn a_lost_client_and_a_new_fault_owe_nothing() {
        let mut owed = Liveness::new(10);
        owed.faults_stopped(0);
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
