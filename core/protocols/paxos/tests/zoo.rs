//! Plants each bug that announced reads can have, and shows that a script finds it.

mod staged;

use quorate_types::zoo::{Plant, plant};
use staged::play_scripts;

/// Links bring what shows the last one too rarely: the simulator finds the others.
const PLANTS: [Plant; 4] = [
    Plant::AnnouncedConfirmReused,
    Plant::AnnouncedBarrierDecided,
    Plant::AnnouncedByOneTooFew,
    Plant::AnnouncedBallotIgnored,
];

#[test]
fn each_planted_bug_is_found() {
    assert!(PLANTS.ends_with(&Plant::SCRIPTED));
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for bug in PLANTS {
        plant(Some(bug));
        let is_seen = std::panic::catch_unwind(play_scripts).is_err();
        plant(None);
        if !is_seen {
            missed.push(bug);
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "no script finds {missed:?}");
    play_scripts();
}
