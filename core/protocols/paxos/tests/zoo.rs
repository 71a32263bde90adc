//! Plants each bug that the spreading of values, their multicast and announced reads can have, and shows that a test finds it.

mod member;
mod staged;

use quorate_types::zoo::{Plant, plant};
use std::panic::catch_unwind;

/// Links bring what shows the last one too rarely: the simulator finds the others.
const ANNOUNCED: [Plant; 4] = [
    Plant::AnnouncedConfirmReused,
    Plant::AnnouncedBarrierDecided,
    Plant::AnnouncedByOneTooFew,
    Plant::AnnouncedBallotIgnored,
];

/// Claim mp-73. Claim mp-76. Claim mp-80. Claim mp-81. Claim mp-82. Claim mp-83.
#[test]
fn each_planted_bug_is_found() {
    assert!(ANNOUNCED.ends_with(&Plant::SCRIPTED));
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for bug in (Plant::SPREAD.into_iter())
        .chain(ANNOUNCED)
        .chain(Plant::MULTICAST)
    {
        plant(Some(bug));
        let by_script = catch_unwind(staged::play_scripts).is_err();
        let by_bound = catch_unwind(member::keeps_what_is_bounded).is_err();
        plant(None);
        println!("{bug:?}: by a script {by_script}, by what is kept {by_bound}");
        if !by_script && !by_bound {
            missed.push(bug);
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "no test finds {missed:?}");
    staged::play_scripts();
    member::keeps_what_is_bounded();
}
