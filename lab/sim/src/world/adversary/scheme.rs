//! Several choices of the scheduler that belong together: a leader is superseded while a question that it asked before it led
//! is still under way, and learns from the late answer.
//!
//! A node falls behind and asks; it catches up from one answer while another question is late. It leads, proposes what
//! nobody hears of, and is superseded behind its back. Then its late question is answered. Each part is left out now and
//! then, and how much happens in between is drawn.

use super::Adversary;
use crate::world::trace::Tag;
use quorate_acceptor::Testimony;
use quorate_types::NodeId;

impl Adversary {
    pub(super) fn scheme(&mut self) {
        let Some(leader) = self.leader() else {
            return;
        };
        let acceptors = self.setup.acceptors();
        let others = self.others(leader);
        let voters: Vec<NodeId> = others
            .into_iter()
            .filter(|id| acceptors.contains(*id))
            .collect();
        let Some(victim) = (!voters.is_empty()).then(|| *self.random.pick(&voters)) else {
            return;
        };
        self.note(Tag::Fault, victim, || {
            format!("{victim} is schemed against")
        });
        self.falls_behind(victim, leader);
        self.asks_twice(victim);
        self.slow.remove(&victim);
        self.stand(victim);
        self.calm();
        self.slow.insert(victim);
        self.submit(victim);
        let successor = *self.random.pick(&self.others(victim));
        if self.random.chance(700) {
            self.blocked.insert((victim, successor));
            self.blocked.insert((successor, victim));
        }
        self.stand(successor);
        self.calm();
        self.submit(successor);
        self.calm();
        self.pass();
        self.calm();
        for _ in 0..self.random.between(1, 4) {
            self.arrives_of(victim, |said| matches!(said, Testimony::AsksDecided { .. }));
            self.arrives_of(victim, |said| {
                matches!(said, Testimony::TellsDecided { .. })
            });
        }
        self.pass();
    }

    /// Slots are decided that `victim` does not hear of.
    fn falls_behind(&mut self, victim: NodeId, leader: NodeId) {
        self.slow.insert(victim);
        for _ in 0..self.random.between(1, 3) {
            self.submit(leader);
            self.calm();
        }
        self.pass();
        self.calm();
        self.arrives_of(victim, |said| {
            matches!(said, Testimony::Leads { .. } | Testimony::Proposes { .. })
        });
    }

    /// It asks one peer after another, and one of them answers.
    fn asks_twice(&mut self, victim: NodeId) {
        for _ in 0..self.random.between(2, 12) {
            self.pass();
        }
        self.arrives_of(victim, |said| matches!(said, Testimony::AsksDecided { .. }));
        self.arrives_of(victim, |said| {
            matches!(said, Testimony::TellsDecided { .. })
        });
    }

    /// Prompt messages arrive and commits end until nothing is left to do, or the scheduler loses patience.
    pub(super) fn calm(&mut self) {
        for _ in 0..self.random.between(20, 200) {
            let prompt = self
                .posted
                .iter()
                .position(|posted| !posted.is_late && self.can_arrive(posted));
            match prompt {
                Some(index) if self.random.chance(700) => self.arrive(index),
                Some(_) | None => self.sync(),
            }
            if self.broken.is_some() {
                return;
            }
        }
    }

    /// A message from or to `id` arrives that says such a thing, however late it is.
    fn arrives_of(&mut self, id: NodeId, says: impl Fn(&Testimony<'_>) -> bool) {
        let fits = |index: &usize| {
            let posted = &self.posted[*index];
            let is_near = posted.from == id || posted.to == id;
            is_near && self.can_arrive(posted) && says(&posted.message.testimony())
        };
        let able: Vec<usize> = (0..self.posted.len()).filter(fits).collect();
        if !able.is_empty() && self.random.chance(850) {
            let index = *self.random.pick(&able);
            self.arrive(index);
        }
    }
}
