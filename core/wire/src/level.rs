//! What a receiver must speak to read a peer message. Nodes look only where a linked peer speaks less than they do.

use quorate_any::AnyMessage;
use quorate_any::paxos::Message;
use quorate_replica::PeerMessage;
use quorate_types::{Batch, Command, Level};

/// The lowest level whose builds read `message`. What a snapshot holds is not looked at: it is not sent beyond its view.
#[must_use]
pub fn peer_level(message: &PeerMessage<AnyMessage>) -> Level {
    let message = match message {
        PeerMessage::Ordering {
            message: AnyMessage::Paxos(message),
            ..
        } => message,
        PeerMessage::Ordering {
            message: AnyMessage::FastPaxos(_),
            ..
        } => return Level::FAST_ROUNDS,
        PeerMessage::Replica(_) => return Level::UNNAMED,
    };
    match message {
        Message::Accept(accept) => of_commands(accept.batch.commands()),
        // Who speaks of rings reads every command.
        Message::Pass(_) | Message::Gathered(_) => Level::RING,
        Message::Multicast(_) | Message::Fetched(_) | Message::PassId(_) | Message::Hears(_) => {
            Level::MULTICAST
        }
        Message::Attested(_) => Level::BROADCAST,
        // As who speaks of spread values does.
        Message::Spread(_) | Message::Holds(_) | Message::Named(_) | Message::Want(_) => {
            Level::SPREAD_VALUES
        }
        Message::Promise(page) => highest(page.votes.iter().map(|vote| of_batch(&vote.batch))),
        Message::Learned(learned) => highest(learned.batches.iter().map(of_batch)),
        Message::Forward(forward) => of_commands(&forward.commands),
        Message::PreVote(_)
        | Message::PreVoted(_)
        | Message::Prepare(_)
        | Message::Nack(_)
        | Message::Accepted(_)
        | Message::Seen(_)
        | Message::Decided(_)
        | Message::Heartbeat(_)
        | Message::Heard(_)
        | Message::Learn(_)
        | Message::Trimmed(_)
        | Message::Returned(_)
        | Message::Confirm(_)
        | Message::Confirmed(_)
        | Message::AskBarrier(_)
        | Message::Barrier(_)
        | Message::TakeOver(_)
        | Message::Survey(_)
        | Message::Surveyed(_) => Level::UNNAMED,
    }
}

fn of_batch(batch: &Batch) -> Level {
    of_commands(batch.commands())
}

fn of_commands(commands: &[Command]) -> Level {
    highest(commands.iter().map(Command::level))
}

fn highest(levels: impl Iterator<Item = Level>) -> Level {
    levels.max().unwrap_or(Level::UNNAMED)
}
