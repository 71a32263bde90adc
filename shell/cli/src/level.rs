//! `quorate view set level=N`: a group goes to another level, once all its members speak it. docs/upgrades.md.

use crate::error::{CliError, code};
use crate::group::GroupAccess;
use crate::status;
use crate::view_setting::SettingPlan;
use quorate_client::Operation;
use quorate_node::ViewStatus;
use quorate_types::{GroupLimits, Level, Levels, OrderingName, ViewChange};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long one node may take to say what it speaks.
const ANSWER_MAX: Duration = Duration::from_millis(1_000);

/// Between two looks at what nodes ask of each other.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The lowest and highest number that a level can have here: those of this program.
pub(crate) fn parse(text: &str) -> Option<Level> {
    text.parse().ok().map(Level)
}

/// What a member speaks, as far as was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spoken {
    Nothing,
    /// It is of a build that says nothing of levels.
    Unnamed,
    Speaks(Levels),
}

/// A change of the level, and what is known before it.
#[derive(Debug)]
pub(crate) struct LevelPlan {
    view: ViewStatus,
    level: Level,
    heard: Vec<(u16, Spoken)>,
}

impl LevelPlan {
    /// Asks every member what it speaks.
    pub(crate) fn read(level: Level, access: &GroupAccess) -> Result<LevelPlan, CliError> {
        let document = status::of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
        LevelPlan::of(level, &document)
    }

    fn of(level: Level, document: &Value) -> Result<LevelPlan, CliError> {
        let view = status::view_in(document)?;
        if view.level == level.0 {
            return Err(CliError::usage(format!(
                "view {} is at level {level}: there is nothing to change",
                view.number
            )));
        }
        if let Ok(ordering) = view.ordering.parse::<OrderingName>()
            && ordering.level() > level
            && level >= Level::UNNAMED
        {
            return Err(CliError::conflict(format!(
                "view {} orders with {ordering}, which takes level {}: nothing has changed",
                view.number,
                ordering.level()
            ))
            .advise("switch to paxos first: quorate view switch --ordering paxos"));
        }
        refuse_below(level, &view)?;
        let groups = document["groups"].as_array().into_iter().flatten();
        let began_above = groups.filter(|group| group["first_level"].is_u64());
        let began_above: Vec<&str> = began_above
            .filter_map(|group| group["name"].as_str())
            .collect();
        if level < Level::FURTHER_GROUPS && !began_above.is_empty() {
            return Err(CliError::conflict(format!(
                "the groups {} began at a level that takes {}: a node that speaks less could not begin them anew; nothing has changed",
                began_above.join(", "),
                Level::FURTHER_GROUPS
            ))
            .advise("stay at that level as long as they are there"));
        }
        let nodes = document["nodes"].as_array().into_iter().flatten();
        let nodes: Vec<&Value> = nodes.collect();
        let heard = view.members.iter().map(|member| {
            let mut of = nodes.iter().filter(|node| node["id"] == member.node);
            (
                member.node,
                of.next().map_or(Spoken::Nothing, |node| heard(node)),
            )
        });
        Ok(LevelPlan {
            heard: heard.collect(),
            level,
            view,
        })
    }

    /// Members that do not speak the level, or were not heard, each with what is known.
    fn unspoken(&self) -> Vec<String> {
        let level = self.level;
        let told = self.heard.iter().filter_map(|(node, heard)| match heard {
            Spoken::Nothing => Some(format!("node {node} was not heard")),
            Spoken::Unnamed if level == Level::UNNAMED => None,
            Spoken::Unnamed => Some(format!(
                "node {node} is of a build that knows no levels: it speaks level {}",
                Level::UNNAMED
            )),
            Spoken::Speaks(levels) if levels.has(level) => None,
            Spoken::Speaks(levels) => Some(format!("node {node} speaks {levels}")),
        });
        told.collect()
    }
}

impl SettingPlan for LevelPlan {
    fn view(&self) -> &ViewStatus {
        &self.view
    }

    fn operation(&self, change: ViewChange) -> Operation {
        let level = self.level;
        Operation::SetLevel { change, level }
    }

    fn preview(&self) -> String {
        let unspoken = self.unspoken();
        let text = format!("level {} instead of {}", self.level, self.view.level);
        match unspoken.is_empty() {
            true => format!("{text}; all members speak it"),
            false => format!("{text}: refused, {}", unspoken.join("; ")),
        }
    }

    fn preview_fields(&self) -> Value {
        let unspoken = self.unspoken();
        let speak = self.heard.iter().map(|(node, heard)| match heard {
            Spoken::Nothing => json!({"node": node, "speaks": null}),
            Spoken::Unnamed => {
                json!({"node": node, "speaks": [Level::UNNAMED.0, Level::UNNAMED.0]})
            }
            Spoken::Speaks(levels) => {
                json!({"node": node, "speaks": [levels.oldest().0, levels.newest().0]})
            }
        });
        json!({
            "level": self.level.0, "before": self.view.level, "members": speak.collect::<Vec<_>>(),
            "warning": (!unspoken.is_empty()).then(|| unspoken.join("; ")),
        })
    }

    fn told(&self) -> String {
        format!("level {}", self.level)
    }

    fn told_fields(&self) -> Value {
        json!({ "level": self.level.0 })
    }

    fn check(&self, _is_forced: bool) -> Result<(), CliError> {
        let unspoken = self.unspoken();
        if unspoken.is_empty() {
            return Ok(());
        }
        Err(CliError::conflict(format!(
            "the group stays at level {}, because not every member speaks level {}: {}; nothing has changed",
            self.view.level,
            self.level,
            unspoken.join("; ")
        ))
        .advise("start these nodes with a version that speaks it (without --speaks), or remove them from the group"))
    }

    /// Waits until no node that is up asks for another level: what was decided at a higher one is in snapshots then, and a node can be
    /// started with a version that does not speak that.
    fn settle(&self, access: &GroupAccess, until: Instant) -> Result<(), CliError> {
        loop {
            let document = status::of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
            let nodes = document["nodes"].as_array().into_iter().flatten();
            let asks = |node: &Value| node["up"] == true && node["asks"] != self.level.0;
            let others: Vec<String> = nodes
                .filter(|node| asks(node))
                .map(|node| node["id"].to_string())
                .collect();
            if others.is_empty() {
                return Ok(());
            }
            if Instant::now() + LOOK_EVERY > until {
                return Err(CliError::with_code(
                    code::OUTCOME_UNKNOWN,
                    format!(
                        "the group is at level {}, and these nodes ask for another one still: {}",
                        self.level,
                        others.join(", ")
                    ),
                )
                .advise("wait until `quorate status -o json` shows the level as what each node asks; quorate snapshot may help"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn heard(node: &Value) -> Spoken {
    let level = |at: usize| Some(Level(u16::try_from(node["speaks"][at].as_u64()?).ok()?));
    let named = level(0).zip(level(1));
    match named.and_then(|(oldest, newest)| Levels::new(oldest, newest)) {
        _ if node["up"] != true => Spoken::Nothing,
        Some(levels) => Spoken::Speaks(levels),
        None => Spoken::Unnamed,
    }
}

/// Refuses a level that is below what the view has.
fn refuse_below(level: Level, view: &ViewStatus) -> Result<(), CliError> {
    if level < Level::QUORUMS && view.counts().is_some_and(|quorums| quorums.is_asked()) {
        return Err(CliError::conflict(format!(
            "view {} has the quorums {}, which take level {}: nothing has changed",
            view.number,
            view.quorums.rule,
            Level::QUORUMS
        ))
        .advise("go back to majorities first: quorate view set quorums=majority"));
    }
    if level < Level::LIMITS && !view.limits.are_default() {
        return Err(CliError::conflict(format!(
                "view {} has other limits than the defaults, which take level {}: nothing has changed",
                view.number,
                Level::LIMITS
            ))
            .advise(format!(
                "go back to the defaults first: quorate view set sessions={}, quorate view set replies={}",
                GroupLimits::SESSIONS_DEFAULT,
                GroupLimits::REPLIES_DEFAULT
            )));
    }
    if level < Level::WITNESSES && view.replicas.len() < view.members.len() {
        return Err(CliError::conflict(format!(
            "view {} has witnesses, which take level {}: nothing has changed",
            view.number,
            Level::WITNESSES
        ))
        .advise("let them leave first: quorate view remove NODE"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_do_not_speak_a_level_or_were_not_heard_are_named() {
        let member =
            |node: u16| json!({"node": node, "incarnation": "00", "roles": [], "address": "-"});
        let document = json!({
            "view": {"number": 3, "first_slot": 1, "ordering": "paxos", "replicas": [1, 2, 3, 4], "acceptors": [1, 2, 3],
                "window": 8, "persist": "disk", "members": [member(1), member(2), member(3), member(4)]},
            "nodes": [{"id": 1, "up": true, "speaks": [19, 20]}, {"id": 2, "up": true}, {"id": 3, "up": false},
                {"id": 4, "up": true, "speaks": [19, 19]}],
        });
        let plan = LevelPlan::of(Level(20), &document).unwrap();
        let unspoken = [
            "node 2 is of a build that knows no levels: it speaks level 19",
            "node 3 was not heard",
            "node 4 speaks level 19",
        ];
        assert_eq!(plan.unspoken(), unspoken);
        let mut newer = document.clone();
        newer["view"]["level"] = json!(28);
        newer["groups"] = json!([{"name": "low"}, {"name": "high", "first_level": 28}]);
        let stays = LevelPlan::of(Level(27), &newer).unwrap_err();
        assert_eq!(stays.code, code::CONFLICT);
        assert!(stays.text.contains("the groups high began"), "{stays:?}");
        let same = LevelPlan::of(Level(19), &document).unwrap_err();
        assert_eq!(same.code, code::USAGE);
    }
}
