//! Objects are given a snapshot and waited for, before there is a loop.
//!
//! Called at a start, and by the restore of a backup, which so finds out whether a start would succeed.

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use quorate_host::{Host, HostEvent, ObjectImage};
use quorate_types::{Slot, Wall};

/// Returns when the objects have something to do first.
pub(crate) fn restore(
    host: &mut Host,
    slot: Slot,
    images: Vec<ObjectImage>,
) -> Result<Option<Wall>, String> {
    let mut poll = Poll::new().map_err(|error| error.to_string())?;
    poll.registry()
        .register(&mut SourceFd(&host.fd()), Token(0), Interest::READABLE)
        .map_err(|error| error.to_string())?;
    host.restore(slot, images);
    host.flush();
    let mut ready = Events::with_capacity(4);
    let mut due = None;
    loop {
        let mut events = Vec::new();
        host.poll(&mut events);
        for event in events {
            match event {
                HostEvent::Due { at } => due = at,
                HostEvent::Restored { .. } => return Ok(due),
                HostEvent::RestoreFailed { reason, .. } => return Err(reason),
                HostEvent::Down {
                    reason,
                    is_final: true,
                    ..
                } => return Err(reason),
                HostEvent::Up
                | HostEvent::Down { .. }
                | HostEvent::Hanging { .. }
                | HostEvent::Executed { .. }
                | HostEvent::Undone { .. }
                | HostEvent::Queried { .. }
                | HostEvent::Imaged { .. }
                | HostEvent::ImageFailed { .. } => {}
            }
        }
        let wait = host
            .next_wake()
            .map(|at| at.saturating_duration_since(std::time::Instant::now()));
        match poll.poll(&mut ready, wait) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
