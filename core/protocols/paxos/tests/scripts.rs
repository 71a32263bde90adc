//! Plays the scripts of this protocol.

mod staged;

#[test]
fn every_script_runs_as_written() {
    staged::play_scripts();
}
