//! Changes of a view that are nobody's: its level, its quorums, how it orders, a limit. All stay who they are.
//!
//! Each says what is known before it, and refuses there what cannot be; this has it decided, and tells what has become of it.

use crate::error::CliError;
use crate::group::GroupAccess;
use crate::print;
use crate::view_deciding::{perform, same_acceptors};
use quorate_client::Operation;
use quorate_node::ViewStatus;
use quorate_types::ViewChange;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A change, and what is known before it.
pub(crate) trait SettingPlan {
    /// The view that is changed.
    fn view(&self) -> &ViewStatus;

    /// What is asked of the group.
    fn operation(&self, change: ViewChange) -> Operation;

    /// What would be, for people.
    fn preview(&self) -> String;

    /// What would be, for scripts: the fields beside the number of the view that is changed.
    fn preview_fields(&self) -> Value;

    /// What the new view has, for people.
    fn told(&self) -> String;

    /// The same for scripts.
    fn told_fields(&self) -> Value;

    /// Refuses what is known not to do.
    fn check(&self, _is_forced: bool) -> Result<(), CliError> {
        Ok(())
    }

    /// Waits for what has to follow once it is decided.
    fn settle(&self, _access: &GroupAccess, _until: Instant) -> Result<(), CliError> {
        Ok(())
    }

    /// The number of the view that the change makes.
    fn number(&self) -> u64 {
        self.view().number + 1
    }
}

/// How a change is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) is_dry: bool,
    pub(crate) is_forced: bool,
    pub(crate) as_json: bool,
    pub(crate) timeout: Duration,
}

/// Makes the change, or only says what would be.
pub(crate) fn run(
    plan: &dyn SettingPlan,
    access: &GroupAccess,
    how: Manner,
) -> Result<(), CliError> {
    let (view, number) = (plan.view(), plan.number());
    if how.is_dry {
        let now = view.number;
        return print::line(match how.as_json {
            true => with(json!({ "after": now }), plan.preview_fields()).to_string(),
            false => format!("view {number} would follow view {now}: {}", plan.preview()),
        });
    }
    plan.check(how.is_forced)?;
    let until = Instant::now() + how.timeout;
    let asked = plan.operation(same_acceptors(view));
    let slot = perform(access, how.timeout, (view.number, &asked))?;
    plan.settle(access, until)?;
    print::line(match how.as_json {
        true => {
            let own = json!({ "number": number, "first_slot": slot });
            with(own, plan.told_fields()).to_string()
        }
        false => format!(
            "view {number} is in force from slot {slot}: {}",
            plan.told()
        ),
    })
}

/// One object with the fields of both.
fn with(mut fields: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    fields
}
