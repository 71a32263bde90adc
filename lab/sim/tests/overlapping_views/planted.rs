//! The exploration finds bugs of views where they are planted. Only a build with the feature `zoo` can plant any.

use crate::world::{Breach, World};
use crate::{grown, grown_by_its_leader, replaced, replaced_sooner_or_later};
use quorate_types::zoo::Plant;
use stateright::{Checker, HasDiscoveries, Model};

/// Plants a bug in a world. Returns what must not be and is.
fn breaches(mut world: World, plant: Plant) -> Vec<Breach> {
    world.plant = Some(plant);
    let checker = world.checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures);
    let found = checker.spawn_bfs().join().discoveries();
    let ends = found.into_values().map(|path| path.last_state().breach);
    ends.flatten().collect()
}

fn shows(plant: Plant, world: World, breach: Breach) {
    let found = breaches(world, plant);
    assert!(found.contains(&breach), "{plant:?}: {found:?}");
}

#[test]
fn bugs_of_views_are_found_where_they_are_planted() {
    shows(
        Plant::ProposesPastTheView,
        replaced_sooner_or_later(),
        Breach::OtherView,
    );
    shows(
        Plant::ViewOneSlotEarly,
        replaced_sooner_or_later(),
        Breach::TooEarly,
    );
    shows(
        Plant::ViewBeforeItsTime,
        replaced_sooner_or_later(),
        Breach::TooEarly,
    );
    shows(
        Plant::ViewNotFollowed,
        replaced_sooner_or_later(),
        Breach::OtherView,
    );
    shows(Plant::WindowIgnored, replaced(), Breach::OtherView);
    shows(Plant::RemovedAcceptorVotes, replaced(), Breach::OtherView);
    shows(Plant::QuorumsOfOldView, grown(), Breach::NoQuorum);
    shows(Plant::NextViewWithoutPhaseOne, grown(), Breach::TwoBatches);
    shows(
        Plant::FirstBallotOfAll,
        grown_by_its_leader(),
        Breach::TwoBatches,
    );
}
