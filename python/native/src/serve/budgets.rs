//! Calls that take more steps than their object's budget: ended, told to the node, and undone by it.

use super::Server;
use crate::frames::{OpenOutcomes, reply};
use crate::{decode, steps};
use pyo3::prelude::*;

impl Server<'_> {
    /// Wakes a call within the budget of its object. Where it takes more steps, the answer says that instead.
    #[inline]
    pub(super) fn is_spent_by(&mut self, object: u32, payload: &[u8]) -> PyResult<bool> {
        let start = self.outbox.0.len();
        steps::begin(self.budget_of(object));
        let answered = self.answer(object, payload);
        let is_spent = steps::end();
        answered?;
        if is_spent {
            self.outbox.0.truncate(start);
            let method = decode::method(self.host.py(), payload)?;
            self.spent(start, object, method)?;
        }
        Ok(is_spent)
    }

    /// Steps that one call of an object may take; 0 for any number. What is created has the budget of the group's first object.
    #[inline]
    pub(super) fn budget_of(&self, object: u32) -> i64 {
        let found = self.budgets.iter().find(|(number, _)| *number == object);
        let of_group = || self.budgets.first();
        found.or_else(of_group).map_or(0, |(_, budget)| *budget)
    }

    /// Appends the error of a call that took more steps than it may.
    #[cold]
    pub(super) fn spent(&mut self, start: usize, object: u32, method: &str) -> PyResult<()> {
        let told = (
            self.objects.get(&object),
            method,
            self.budget_of(object),
            self.ended_at.take(),
        );
        let error = self.host.call_method1("spent", told);
        let error = error.map_or_else(|failure| failure, PyErr::from_value);
        self.raised(start, error)
    }

    /// Tells the node which call must leave no trace, and how it ended. The node replaces this process by one that does not
    /// get the call.
    #[cold]
    pub(super) fn tell_spent(
        &mut self,
        part: &OpenOutcomes,
        index: u32,
        answer: usize,
    ) -> PyResult<()> {
        self.activity.idle();
        let outcome = self.outbox.drop_part(part, answer);
        let start = self.outbox.begin(reply::SPENT);
        self.outbox.u64(self.slot);
        self.outbox.u32(index);
        self.outbox.0.extend_from_slice(&outcome);
        self.outbox.end(start);
        self.is_over = true;
        Ok(())
    }
}
