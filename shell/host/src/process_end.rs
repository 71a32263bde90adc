//! Why a host process cannot be used any more, and how that is told.

use crate::arguments::raised_as;
use crate::event::RunningCall;
use crate::protocol::Broken;
use quorate_types::{ObjectId, Outcome};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Why a process cannot be used any more.
#[derive(Debug)]
pub(crate) enum ProcessEnd {
    /// The stream ended or broke.
    Stream(Option<io::Error>),
    Broken(Broken),
    /// A read changed its object: the process holds a state that no other replica has.
    ReadWrote {
        object: ObjectId,
        method: String,
    },
    /// What it executed ahead of decisions could not be undone in it.
    NotUndone(String),
    /// A call or a read ran longer than this.
    Late(Duration),
    /// A call took more steps than it may, and what it changed must go.
    Spent,
    /// The files of its code have changed since the node started.
    OtherCode,
}

/// Why the host is down.
pub(crate) fn reason(ended: &ProcessEnd, status: &str) -> String {
    match ended {
        ProcessEnd::Stream(None) => format!("the host process ended ({status})"),
        ProcessEnd::Stream(Some(error)) => match error.kind() {
            // It ended before it had read everything.
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                format!("the host process ended ({status})")
            }
            _ => format!("the host process ended ({status}): {error}"),
        },
        ProcessEnd::Broken(broken) => broken.to_string(),
        ProcessEnd::ReadWrote { object, method } => format!(
            "`{method}` of object {} is declared read-only and changed it: the state is made anew from snapshot and log, \
             and the method runs as a read no more; remove the declaration or the change",
            object.0
        ),
        ProcessEnd::NotUndone(why) => why.clone(),
        ProcessEnd::Late(limit) => {
            format!("a call ran longer than --call-timeout allows, {limit:?}")
        }
        ProcessEnd::Spent => "a call took more steps than --budget allows: the state is made anew without it".to_owned(),
        ProcessEnd::OtherCode => "the objects' code has changed on the disk since this node started, and calls that are \
            acknowledged would be executed again with it: put the old code back, or stop the group and start it \
            with --accept-code"
            .to_owned(),
    }
}

/// Why the host is down where what undoes a call ended it, or was ended.
pub(crate) fn undo_ended(call: &RunningCall, ended: &ProcessEnd, status: &str) -> String {
    let RunningCall { object, method, .. } = call;
    let what = match ended {
        ProcessEnd::NotUndone(_) | ProcessEnd::Late(_) => "does not end in time".to_owned(),
        ProcessEnd::Stream(_)
        | ProcessEnd::Broken(_)
        | ProcessEnd::ReadWrote { .. }
        | ProcessEnd::Spent
        | ProcessEnd::OtherCode => format!("ended the host process ({status})"),
    };
    format!(
        "what undoes `{method}` of object {} {what}: this host does without it from here on, and starts anew instead. \
         Mend it (`quorate check` tries it), or remove @quorate.undoes",
        object.0
    )
}

/// The answer to a read that ended its process. It was executed here only and has changed nothing.
pub(crate) fn ended_read(call: Option<&RunningCall>, ended: &ProcessEnd) -> Outcome {
    let method = call.map_or("the method", |call| &call.method);
    let text = match ended {
        ProcessEnd::Late(limit) => format!(
            "`{method}` ran longer than {limit:?}, which --call-timeout allows, and was ended"
        ),
        ProcessEnd::Stream(_)
        | ProcessEnd::Broken(_)
        | ProcessEnd::ReadWrote { .. }
        | ProcessEnd::NotUndone(_)
        | ProcessEnd::Spent
        | ProcessEnd::OtherCode => {
            format!("`{method}` ended the host process")
        }
    };
    raised_as("quorate.ReadEnded".to_owned(), text)
}
