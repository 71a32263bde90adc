//! What a script expects of a node.

use super::{Done, Stage};
use crate::ScriptedProtocol;
use crate::render;
use crate::words::{node, slot};
use quorate_ordering::{Ordering, Role};

impl<P: ScriptedProtocol> Stage<P> {
    pub(super) fn expect(&mut self, words: &[&str]) -> Done {
        if let ["no", kind] = words {
            let found =
                (self.in_flight.iter()).find(|(_, _, message)| render::kind(message) == *kind);
            return match found {
                None => Ok(()),
                Some((from, to, message)) => Err(format!(
                    "in flight: {from}->{to} {}",
                    render::message::<P>(message)
                )),
            };
        }
        let [who, rest @ ..] = words else {
            return Err("expect what?".into());
        };
        let id = node(who)?;
        let instance = self.nodes.get(&id).and_then(|node| node.instance.as_ref());
        let status = instance.ok_or(format!("{id} is down"))?.status();
        let holds = match rest {
            ["leads"] => matches!(status.role, Role::Leader { .. }),
            ["follows", "nobody"] => status.role == Role::Follower { leader: None },
            ["follows", leader] => {
                let leader = Some(node(leader)?);
                status.role == Role::Follower { leader }
            }
            ["decided", at] => status.decided == slot(at)?,
            ["trimmed", at] => status.trimmed == slot(at)?,
            [
                "rounds",
                fast,
                "fast",
                classic,
                "classic",
                collisions,
                "collisions",
            ] => {
                let counted = status.rounds.unwrap_or_default();
                let counted = [counted.fast, counted.classic, counted.collisions];
                counted.map(|count| count.to_string()) == [*fast, *classic, *collisions]
            }
            ["promised", text] => render::ballot(status.promised) == *text,
            _ => return Err("no such expectation".into()),
        };
        if holds {
            Ok(())
        } else {
            Err(format!("it is not so: {status:?}"))
        }
    }
}
