//! What the instance of one view hands to that of another view at the same node, whichever protocol each is of.
//!
//! Whoever leads this view stands at once in the next one, or if it may not lead there, whom that view names, or else the first acceptor.
//! Links stay up. What the node's log has of the other view decides whether it may vote there.

use crate::{Config, Damage, Record, Standing, ViewPast};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, FirstBallot, LinkEpoch, NodeId, Persistence, View};

/// What an instance hands over.
#[derive(Clone, PartialEq, Debug)]
pub struct Handover {
    /// Its own configuration.
    pub config: Config,
    /// Who leads in its view, as far as it knows.
    pub leader: Option<NodeId>,
    /// The peers that are linked.
    pub links: Vec<(NodeId, LinkEpoch)>,
}

/// What an instance of another view begins with.
#[derive(Clone, PartialEq, Debug)]
pub struct Beginning {
    /// Its configuration.
    pub config: Config,
    /// What the node's log has of its view.
    pub records: Vec<Record>,
    /// This node stands at once.
    pub stands: bool,
    /// It led the view before, or needs no phase 1: it asks nobody whether a leader is missed.
    pub succeeds: bool,
    /// Its first ballot here, if it needs no phase 1: the change that led to this view named this start, which said nothing in it yet.
    /// Claim mp-90.
    pub first_ballot: Option<Ballot>,
    /// The peers that are linked.
    pub links: Vec<(NodeId, LinkEpoch)>,
}

impl Handover {
    /// The beginning of the instance of `view`, of which the node's log has `past`.
    #[must_use]
    pub fn begin(self, view: View, standing: Standing, past: ViewPast) -> Beginning {
        let Handover {
            config: own,
            leader,
            links,
        } = self;
        let (is_lost, is_begun) = (past == ViewPast::Lost, past == ViewPast::Begun);
        let (records, damage) = match past {
            ViewPast::None | ViewPast::Begun => (Vec::new(), Damage::default()),
            ViewPast::Records(records) => (records, Damage::default()),
            ViewPast::Damaged(records) => (records, Damage::anything()),
            ViewPast::Lost => (Vec::new(), Damage::anything()),
        };
        let (standing, damage) = match view.persistence {
            Persistence::Disk => (standing, damage),
            // What a node had in memory is lost with each restart, and its directory may be an old copy that names fewer views than it
            // voted in: it votes no more.
            Persistence::Memory if is_lost => (Standing::Observer, Damage::default()),
            Persistence::Memory => (standing, Damage::default()),
        };
        let leader = leader.filter(|leader| view.may_lead(*leader));
        let named = view.first_ballot.map(|first| first.node);
        let first = leader
            .or(named.filter(|node| view.may_lead(*node)))
            .or_else(|| view.acceptors.iter().find(|node| view.may_lead(*node)));
        let config = Config {
            seed: own.seed ^ view.number.0.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            view,
            standing,
            damage,
            ..own
        };
        let led_before = leader == Some(config.own);
        let (node, boot) = (config.own, config.boot);
        let named = config.view.first_ballot;
        let own_first = FirstBallot { node, boot };
        let takes = planted(Plant::FirstBallotOfAll);
        let named = match planted(Plant::FirstBallotOfAnybody) || takes {
            true => Some(own_first),
            false => named.filter(|first| *first == own_first),
        };
        let stands = first == Some(config.own) || takes;
        let may_begin = stands && is_begun && config.standing == Standing::Voter;
        let first_ballot = named
            .filter(|_| may_begin)
            .map(|first| first.of(config.view.number));
        Beginning {
            stands,
            succeeds: led_before || first_ballot.is_some(),
            first_ballot,
            config,
            records,
            links,
        }
    }
}
