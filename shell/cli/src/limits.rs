//! `quorate view set sessions=5000` and `replies=67108864`: limits that all nodes of a group share.

use crate::error::CliError;
use crate::group::GroupAccess;
use crate::status;
use crate::view_deciding::ANSWER_MAX;
use crate::view_setting::SettingPlan;
use quorate_client::Operation;
use quorate_node::{LimitsStatus, ViewStatus};
use quorate_types::{Level, LimitChange, ViewChange};
use serde_json::{Value, json};

/// A change of a limit, and what is known before it.
#[derive(Debug)]
pub(crate) struct LimitPlan {
    view: ViewStatus,
    limit: LimitChange,
}

impl LimitPlan {
    pub(crate) fn read(limit: LimitChange, access: &GroupAccess) -> Result<LimitPlan, CliError> {
        let document = status::of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
        LimitPlan::of(limit, &document)
    }

    fn of(limit: LimitChange, document: &Value) -> Result<LimitPlan, CliError> {
        let view = status::view_in(document)?;
        let (now, next) = now_and_next(view.limits, limit);
        if now == next {
            return Err(CliError::usage(format!(
                "view {} has {limit}: there is nothing to change",
                view.number
            )));
        }
        let needed = Level::LIMITS;
        if view.level < needed.0 {
            return Err(CliError::conflict(format!(
                "the group is at level {}, whose members need not know other limits than the defaults: they take level {needed}; \
                 nothing has changed",
                view.level
            ))
            .advise(format!(
                "raise the group first, once all members speak it: quorate view set level={needed}"
            )));
        }
        Ok(LimitPlan { view, limit })
    }

    /// The limits of the view that the change makes.
    fn limits(&self) -> LimitsStatus {
        let mut limits = self.view.limits;
        match self.limit {
            LimitChange::Sessions(count) => limits.sessions = count,
            LimitChange::Replies(bytes) => limits.replies = bytes,
        }
        limits
    }
}

impl SettingPlan for LimitPlan {
    fn view(&self) -> &ViewStatus {
        &self.view
    }

    fn operation(&self, change: ViewChange) -> Operation {
        let limit = self.limit;
        Operation::SetLimit { change, limit }
    }

    fn preview(&self) -> String {
        let (before, _) = now_and_next(self.view.limits, self.limit);
        format!("{} instead of {before}", self.limit)
    }

    fn preview_fields(&self) -> Value {
        json!({ "limits": self.limits(), "before": self.view.limits })
    }

    fn told(&self) -> String {
        self.limit.to_string()
    }

    fn told_fields(&self) -> Value {
        json!({ "limits": self.limits() })
    }
}

/// What the limit that is changed is, and what it is to be.
fn now_and_next(limits: LimitsStatus, limit: LimitChange) -> (u64, u64) {
    match limit {
        LimitChange::Sessions(count) => (limits.sessions, count),
        LimitChange::Replies(bytes) => (limits.replies, bytes),
    }
}

/// A limit that an operator writes.
pub(crate) fn parse(name: &str, text: &str) -> Result<LimitChange, String> {
    let much = text.parse().map_err(|_| {
        "sessions=COUNT and replies=BYTES take a whole number, for example replies=67108864"
            .to_owned()
    })?;
    let limit = match name {
        "sessions" => LimitChange::Sessions(much),
        _ => LimitChange::Replies(much),
    };
    limit.checked().map_err(|why| why.to_string())
}

/// What a table says of limits: nothing where they are the defaults.
pub(crate) fn told(limits: LimitsStatus) -> String {
    match limits.are_default() {
        true => String::new(),
        false => format!(
            "at most {} sessions, which keep {} bytes of large replies\n",
            limits.sessions, limits.replies
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::code;

    /// Claim rp-154.
    #[test]
    fn a_limit_is_refused_below_its_level_to_what_is_and_where_no_group_has_it() {
        let document = |level: u16| {
            json!({"view": {"number": 3, "first_slot": 1, "ordering": "paxos", "replicas": [1], "acceptors": [1], "window": 8,
                "level": level, "persist": "disk", "members": [], "limits": {"sessions": 7, "replies": 67_108_864}}})
        };
        let few = LimitChange::Sessions(5);
        let low = LimitPlan::of(few, &document(28)).unwrap_err();
        assert_eq!(low.code, code::CONFLICT);
        assert!(low.text.contains("they take level 29"), "{low:?}");
        let same = LimitPlan::of(LimitChange::Sessions(7), &document(29)).unwrap_err();
        assert_eq!(same.code, code::USAGE);
        let plan = LimitPlan::of(few, &document(29)).unwrap();
        assert_eq!(
            (plan.limits().sessions, plan.limits().replies),
            (5, 64 << 20)
        );
        for (name, text) in [
            ("sessions", "0"),
            ("sessions", "1000001"),
            ("sessions", "-1"),
            ("replies", "16777215"),
            ("replies", "536870913"),
            ("replies", "64MiB"),
        ] {
            assert!(parse(name, text).is_err(), "{name}={text}");
        }
        assert_eq!(parse("sessions", "5"), Ok(few));
    }

    #[test]
    fn a_table_tells_limits_only_where_they_are_not_the_defaults() {
        assert_eq!(told(LimitsStatus::default()), "");
        let few = LimitsStatus {
            sessions: 5,
            ..LimitsStatus::default()
        };
        assert!(told(few).starts_with("at most 5 sessions, which keep 268435456 bytes"));
    }
}
