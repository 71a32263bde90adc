//! Every rule of tidy, applied to this repository.

use quorate_tidy::repository::Repository;
use quorate_tidy::{
    arrows, claims, dependencies, functions, glossary, links, machines, names, openings, sizes,
    traps, types, unsafety, way, words,
};

#[track_caller]
fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn imports_are_those_of_the_map() {
    none(arrows::problems(
        &Repository::read(),
        &arrows::Arrows::read(),
    ));
}

#[test]
fn claims_have_a_row_a_file_and_a_test() {
    none(claims::problems(&Repository::read()));
}

#[test]
fn known_traps_are_shown_to_be_none() {
    none(traps::problems(&Repository::read()));
}

#[test]
fn dependencies_have_a_reason() {
    none(dependencies::problems(&Repository::read()));
}

#[test]
fn files_hold_one_idea() {
    none(sizes::problems(&Repository::read()));
}

#[test]
fn functions_fit_a_reader() {
    none(functions::problems(&Repository::read()));
}

#[test]
fn links_lead_somewhere() {
    none(links::problems(&Repository::read()));
}

#[test]
fn modules_open_by_saying_what_they_are_for() {
    none(openings::problems(&Repository::read()));
}

#[test]
fn names_say_something() {
    none(names::problems(&Repository::read()));
}

#[test]
fn nothing_names_one_machine() {
    none(machines::problems(&Repository::read()));
}

#[test]
fn the_glossary_is_in_order() {
    none(glossary::problems(&Repository::read()));
}

#[test]
fn one_type_name_means_one_thing() {
    none(types::problems(&Repository::read()));
}

#[test]
fn the_way_of_a_call_is_as_long_as_the_map_says() {
    none(way::problems(&Repository::read()));
}

#[test]
fn unsafe_code_stays_where_the_map_says() {
    none(unsafety::problems(&Repository::read()));
}

#[test]
fn words_are_finished_and_from_the_glossary() {
    none(words::problems(&Repository::read()));
}
