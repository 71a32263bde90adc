//! Questions of other threads to the loop. The loop answers at the end of a turn. If the queue is full,
//! the caller is told at once; callers that time out are dropped.

use crate::limits::QUESTIONS;
use crate::node::Node;
use crate::status::NodeStatus;
use mio::Waker;
use quorate_types::Time;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tokio::sync::oneshot;

/// Where the answer to "how are you" goes.
type Question = oneshot::Sender<NodeStatus>;

/// The loop's end.
pub(crate) struct Questions(Receiver<Question>);

/// The asking end.
#[derive(Clone)]
pub(crate) struct Asker {
    queue: SyncSender<Question>,
    waker: Arc<Waker>,
}

/// Both ends.
pub(crate) fn questions(waker: Arc<Waker>) -> (Asker, Questions) {
    let (queue, receiver) = sync_channel(QUESTIONS);
    (Asker { queue, waker }, Questions(receiver))
}

impl Asker {
    /// Asks; `None` when the loop has too many questions already or has ended.
    pub(crate) fn ask(&self) -> Option<oneshot::Receiver<NodeStatus>> {
        let (sender, answer) = oneshot::channel();
        self.queue.try_send(sender).ok()?;
        self.waker.wake().ok()?;
        Some(answer)
    }
}

impl Node {
    /// Answers everything that was asked.
    pub(crate) fn answer_questions(&mut self, now: Time) {
        let mut status = None;
        while let Ok(question) = self.questions.0.try_recv() {
            let status = status.get_or_insert_with(|| self.status(now));
            // Who asked may have given up.
            let _ = question.send(status.clone());
        }
    }
}
