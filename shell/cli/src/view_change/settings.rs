//! The settings of a view that a command changes.

use crate::{level, limits};
use quorate_types::{Level, LimitChange, QuorumRule, ViewChange};

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    Window(u64),
    Level(Level),
    Quorums(QuorumRule),
    Limit(LimitChange),
}

/// Reads what is to be set, such as `window=64`.
pub(super) fn setting(text: &str) -> Result<Setting, String> {
    let known = "the settings of a view are window=SLOTS, for example window=64, level=N, quorums=PHASE1,PHASE2, sessions=COUNT, and \
                 replies=BYTES";
    if let Some((name @ ("sessions" | "replies"), much)) = text.split_once('=') {
        return limits::parse(name, much).map(Setting::Limit);
    }
    if let Some(("quorums", rule)) = text.split_once('=') {
        return match rule.parse() {
            Ok(rule) => Ok(Setting::Quorums(rule)),
            Err(why) => Err(why.to_string()),
        };
    }
    if let Some(("level", level)) = text.split_once('=') {
        let level = level::parse(level).ok_or_else(|| known.to_owned())?;
        return Ok(Setting::Level(level));
    }
    let Some(("window", slots)) = text.split_once('=') else {
        return Err(known.to_owned());
    };
    let window = slots.parse().map_err(|_| known.to_owned())?;
    if (1..=ViewChange::WINDOW_MAX).contains(&window) {
        Ok(Setting::Window(window))
    } else {
        let most = ViewChange::WINDOW_MAX;
        Err(format!("the window takes 1 to {most} slots"))
    }
}
