//! Values that nodes spread: what is kept of them is bounded and goes, whoever is dead, and no name is given twice.

mod member;

use member::{Member, PAYLOAD, is_spread, keeps_what_is_bounded};
use quorate_ordering::{Event, LinkState, Ordering, Standing};
use quorate_paxos::Message;
use quorate_paxos::message::{Holds, Spread};
use quorate_testkit::{VIEW, call};
use quorate_types::{Duration, LinkEpoch, NodeId, NodeSet, Slot, Time};

const NOW: Time = member::NOW;

/// Claim mp-75.
#[test]
fn what_one_node_spreads_is_kept_up_to_a_bound_and_for_a_time() {
    keeps_what_is_bounded();
}

/// Claim mp-75.
#[test]
fn a_decided_value_is_forgotten_though_a_node_is_dead() {
    let mut member = Member::new(Standing::Voter);
    let state = LinkState::Down;
    let peer = NodeId(3);
    member.event(Event::Link { peer, state });
    assert!(member.is_kept(1) && member.is_kept(2));
    let weight = member.held_bytes() / 2;
    member.learns(vec![call(2, 1, &PAYLOAD)]);
    let before = member.held_bytes();
    member.now = NOW + Duration::from_millis(3_000);
    member.event(Event::Wake);
    assert_eq!(
        before - member.held_bytes(),
        weight,
        "one value was left, not two"
    );
}

/// Claim mp-73: the view names no incarnation of a node that came back without its directory: it may have given the name.
#[test]
fn who_may_have_forgotten_a_life_gives_no_names() {
    let commands = || vec![call(1, 1, b"a")];
    let mut forgetful = Member::new(Standing::Observer);
    let commands_of = commands();
    let sent = forgetful.event(Event::Submit {
        commands: commands_of,
    });
    assert!(!sent.iter().any(is_spread), "{sent:?}");
    let mut whole = Member::new(Standing::Voter);
    let sent = whole.event(Event::Submit {
        commands: commands(),
    });
    assert!(sent.iter().any(is_spread), "{sent:?}");
}

/// What is open is bounded: further commands wait, and are refused where the queue is full.
#[test]
fn a_node_has_a_bounded_number_of_values_open() {
    let mut member = Member::new(Standing::Voter);
    let mut spread = 0;
    for sequence in 0..1000 {
        let commands = vec![call(1, sequence, b"a")];
        let sent = member.event(Event::Submit { commands });
        spread += sent.iter().filter(|message| is_spread(message)).count();
    }
    assert_eq!(spread, 256, "the others wait and gather");
    assert_eq!(member.instance.status().waiting, 1000);
}

/// Claim mp-76.
#[test]
fn what_was_told_on_another_link_than_the_one_that_is_up_counts_for_nothing() {
    let mut member = Member::new(Standing::Voter);
    let commands = vec![call(1, 1, b"a")];
    let sent = member.event(Event::Submit { commands });
    let spread = sent.into_iter().find_map(|message| match message {
        Message::Spread(spread) => Some(spread),
        _ => None,
    });
    let value = spread.expect("it is spread").value;
    let late = Event::Receive {
        from: NodeId(2),
        link: LinkEpoch(7),
        view: VIEW,
        message: Message::Holds(Holds {
            values: vec![value],
        }),
    };
    let before = member.instance.clone();
    member.event(late);
    assert_eq!(member.instance, before, "it changes nothing");
    let holds = Holds {
        values: vec![value],
    };
    member.hears(2, Message::Holds(holds));
    assert_ne!(member.instance, before, "on its link it counts");
}

/// The sender may have started anew and hold nothing.
///
/// Claim mp-76.
#[test]
fn a_value_from_an_earlier_link_than_the_one_that_is_up_is_not_counted() {
    let hears = |link| {
        let mut member = Member::new(Standing::Voter);
        let spread = Spread {
            value: member::value(2, 1),
            commands: vec![call(2, 1, b"a")],
        };
        let before = member.instance.clone();
        member.event(Event::Receive {
            from: NodeId(2),
            link: LinkEpoch(link),
            view: VIEW,
            message: Message::Spread(spread),
        });
        member.instance != before
    };
    assert!(hears(1), "on its link it counts");
    assert!(!hears(0), "it changes nothing");
}

/// Claim mp-75.
#[test]
fn settled_values_take_no_memory_while_an_older_one_is_open() {
    let mut member = Member::new(Standing::Voter);
    assert!(member.is_kept(1));
    let mut sizes = Vec::new();
    for number in 2..2_002_u64 {
        assert!(member.is_kept(number));
        let commands = vec![call(2, number, &PAYLOAD)];
        member.executes(Slot(number - 1), commands);
        if number % 500 == 1 {
            sizes.push(format!("{:?}", member.instance).len());
        }
    }
    let most = sizes[0] + sizes[0] / 2;
    assert!(sizes.iter().all(|size| *size < most), "{sizes:?}");
}

/// A peer that lags takes no more values for a while, and does not say so. It is not left out for good.
#[test]
fn who_has_told_nothing_for_long_is_spread_to_again() {
    let mut member = Member::new(Standing::Voter);
    let both: NodeSet = [NodeId(2), NodeId(3)].into_iter().collect();
    let mut spread_to = |number, after, answer: &[u16]| {
        member.now = member.now + Duration::from_millis(after);
        let commands = vec![call(1, number, b"a")];
        let sent = member.sends(Event::Submit {
            commands: commands.clone(),
        });
        let spread = sent.into_iter().find_map(|(to, message)| match message {
            Message::Spread(spread) => Some((to, spread.value)),
            _ => None,
        });
        let (to, value) = spread.expect("it is spread");
        let values = vec![value];
        for from in answer {
            let values = values.clone();
            member.hears(*from, Message::Holds(Holds { values }));
        }
        member.executes(Slot(number), commands);
        to
    };
    for number in 1..=256 {
        assert_eq!(spread_to(number, 0, &[2]), both);
    }
    let without = NodeSet::only(NodeId(2));
    assert_eq!(spread_to(257, 10, &[2]), without, "no credit");
    assert_eq!(spread_to(258, 500, &[2]), both, "one is tried");
    assert_eq!(spread_to(259, 10, &[2]), without, "and no more");
    assert_eq!(spread_to(260, 500, &[2, 3]), both);
    assert_eq!(spread_to(261, 10, &[2, 3]), both, "it takes them again");
}

/// Claim mp-73.
#[test]
fn one_command_is_spread_under_one_name_however_long_it_is_open() {
    let mut member = Member::new(Standing::Voter);
    let commands = vec![call(1, 1, b"a")];
    let mut sent = member.event(Event::Submit { commands });
    for _ in 0..20 {
        member.now = member.now + Duration::from_millis(100);
        sent.extend(member.event(Event::Wake));
    }
    let names = sent.into_iter().filter_map(|message| match message {
        Message::Spread(spread) => Some(spread.value.number),
        _ => None,
    });
    let names: Vec<u64> = names.collect();
    assert!(names.len() > 2, "it is spread again");
    assert!(names.iter().all(|number| *number == 1), "{names:?}");
}
