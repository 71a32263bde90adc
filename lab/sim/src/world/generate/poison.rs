//! Draws calls that end hosts, with what may happen while deaths are reported.

use super::super::fault::{Fault, Lasts, Who};
use super::super::schedule::Timed;
use super::{Draw, timed};
use quorate_types::{Duration, NodeSet};

/// Within this the hosts of a group have died at a call for good, and the call is skipped.
const REPORTED_MS: u64 = 500;

/// Until then some hosts have not died for good.
const DYING_MS: u64 = 160;

/// What is submitted to the ordering is refused after this, usually.
const SUBMITTED_MS: u64 = 3000;

/// Replicas that die within this do not learn what the others know.
const TOGETHER_MS: u64 = 40;

impl Draw<'_> {
    /// A call that ends every host, or some, or every host after it was answered; something else happens beside it.
    pub(super) fn poison(&mut self, at: u64) -> Vec<Timed> {
        let all: NodeSet = self.setup.node_ids().collect();
        let some = self.some_of(all);
        let (kills, after_ms) = match self.random.below(10) {
            0..=4 => (all, 0),
            5..=7 if !some.is_empty() => (some, 0),
            _ => (all, self.random.between(50, 600)),
        };
        let after = Duration::from_millis(after_ms);
        match self.random.below(8) {
            0 | 1 => return self.poison_once(at, all),
            2 | 3 => return self.poison_two(at, all),
            _ => {}
        }
        let lasts = Lasts::Always;
        let poison = Fault::Poison {
            kills,
            after,
            lasts,
        };
        let mut faults = vec![timed(at, poison)];
        if after_ms > 0 && self.random.chance(400) {
            faults.extend(self.poison_again(at + after_ms, all));
            return faults;
        }
        if after_ms > 0 {
            for node in all.iter().map(Who::Node) {
                let due = at + after_ms + self.random.below(TOGETHER_MS);
                faults.push(self.soon(due, |outputs, down| Fault::Crash {
                    node,
                    outputs,
                    down,
                }));
            }
            return faults;
        }
        let due = (at + self.random.between(20, REPORTED_MS)).min(self.until_ms - 1);
        let long = self.random.millis(SUBMITTED_MS, 2 * SUBMITTED_MS);
        let dying = (at + self.random.between(40, DYING_MS)).min(self.until_ms - 1);
        let rest = Duration::from_millis(self.until_ms - dying);
        let node = Who::Node(self.node());
        let beside = match self.random.below(6) {
            0 => self.soon(due, |outputs, down| Fault::Crash {
                node: Who::Leader,
                outputs,
                down,
            }),
            1 => self.soon(due, |outputs, down| Fault::Crash {
                node,
                outputs,
                down,
            }),
            2 => self.soon(at, |_, span| Fault::Isolate { node, span }),
            3 | 4 => {
                let node = *self.random.pick(&[Who::Leader, node]);
                let span = rest.min(long);
                timed(dying, Fault::Strand { node, span })
            }
            _ => return faults,
        };
        faults.push(beside);
        faults
    }

    /// A call that ends every host until a node has started again; some nodes do while deaths are reported, and some stand alone.
    fn poison_once(&mut self, at: u64, kills: NodeSet) -> Vec<Timed> {
        let (after, lasts) = (Duration::ZERO, Lasts::Once);
        let poison = Fault::Poison {
            kills,
            after,
            lasts,
        };
        let mut faults = vec![timed(at, poison)];
        for node in kills.iter() {
            let due = at + self.random.between(40, REPORTED_MS);
            if self.random.chance(600) {
                let node = Who::Node(node);
                let crash = self.soon(due, |outputs, _| Fault::Crash {
                    node,
                    outputs,
                    down: Duration::from_millis(20),
                });
                faults.push(crash);
                if self.random.chance(400) {
                    // It says that it executes the call again long before it does.
                    faults.push(self.soon(due, |_, span| Fault::Hang { node, span }));
                }
            } else if self.random.chance(500) {
                // It dies late, and so reports late.
                let node = Who::Node(node);
                faults.push(self.soon(at, |_, span| Fault::Hang { node, span }));
            }
        }
        faults
    }

    /// Two calls that end hosts, at a moment from which on calls gather for one slot. One of them ends hosts until a node has started
    /// again, or only some hosts, so that others come to the second one.
    fn poison_two(&mut self, at: u64, all: NodeSet) -> Vec<Timed> {
        let some = self.some_of(all);
        let (kills, lasts) = match self.random.below(4) {
            0 if !some.is_empty() => (some, Lasts::Always),
            _ => (all, Lasts::Once),
        };
        let others = all.iter().filter(|node| !kills.contains(*node)).collect();
        let second = match self.random.below(3) {
            0 if lasts == Lasts::Always => others,
            _ => all,
        };
        let after = Duration::ZERO;
        let one = Fault::Poison {
            kills,
            after,
            lasts,
        };
        let lasts = Lasts::Always;
        let other = Fault::Poison {
            kills: second,
            after,
            lasts,
        };
        let gather = self.random.between(20, 300);
        let node = Who::Node(self.node());
        let node = *self.random.pick(&[Who::Leader, node]);
        let span = Duration::from_millis(gather.min(self.until_ms - at));
        let mut faults = vec![timed(at, one), timed(at, other)];
        if self.random.chance(500) {
            faults.reverse();
        }
        faults.push(timed(at, Fault::Pause { node, span }));
        for node in all.iter().map(Who::Node) {
            let due = at + gather + self.random.between(40, 2 * REPORTED_MS);
            let what = self.random.below(10);
            if what < 4 {
                let crash = self.soon(due, |outputs, _| Fault::Crash {
                    node,
                    outputs,
                    down: Duration::from_millis(20),
                });
                faults.push(crash);
            } else if what < 6 {
                faults.push(self.soon(at, |_, span| Fault::Hang { node, span }));
            }
        }
        faults
    }

    /// Hosts end at another call, and the next ones execute again what was answered.
    fn poison_again(&mut self, at: u64, all: NodeSet) -> Option<Timed> {
        let some = self.some_of(all);
        let (after, lasts) = (Duration::ZERO, Lasts::Always);
        let kills = if some.is_empty() || self.random.chance(600) {
            all
        } else {
            some
        };
        let poison = Fault::Poison {
            kills,
            after,
            lasts,
        };
        let at = at + self.random.below(200);
        (at < self.until_ms).then(|| timed(at, poison))
    }

    /// Some of these nodes, and not all.
    fn some_of(&mut self, all: NodeSet) -> NodeSet {
        let spared = self.node();
        let others = all.iter().filter(|node| *node != spared);
        others.filter(|_| self.random.chance(600)).collect()
    }

    /// A fault before the end, which lasts for up to two seconds.
    fn soon(&mut self, at: u64, fault: impl FnOnce(u64, Duration) -> Fault) -> Timed {
        let at = at.min(self.until_ms - 1);
        let outputs = self.random.below(12);
        let span = self.span(self.until_ms - at, 2000);
        timed(at, fault(outputs, span))
    }
}
