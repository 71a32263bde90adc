//! A leader that leaves before other faults: clients whose sessions end by closed connections must not take that for their death.

use super::super::fault::{Fault, Who};
use super::super::random::Random;
use super::super::schedule::Timed;
use super::super::setup::Setup;
use super::timed;

/// In some runs the first leader leaves in good order, with the clients that it has: few other nodes have forgotten anything yet.
pub(super) fn early(setup: &Setup) -> Option<Timed> {
    let mut random = Random::new(setup.seed, "leaves early", 0);
    let is_drawn = random.chance(250) && setup.nodes >= 3;
    let (node, down) = (Who::Leader, random.millis(300, 1500));
    is_drawn.then(|| timed(random.between(1500, 5000), Fault::Leave { node, down }))
}
