//! Chooses the node to talk to: the leader if it is known, else the next address.

use quorate_types::NodeId;
use std::collections::BTreeSet;

/// Which node a client stays with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preference {
    /// Move to the leader when a node names it: calls then need no forwarding.
    Leader,
    /// Stay with whichever node answers: reads of level `any` spread over the replicas.
    Anyone,
}

/// The addresses of a group, and which one is dialled next.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// `host:port` of each known node; the id is learned at the first welcome.
    addresses: Vec<(Option<NodeId>, String)>,
    /// The addresses that the client began with: they are tried again after a round in which no member answered.
    given: Vec<String>,
    current: usize,
    /// Nodes that fell silent or refused to serve, and after a round of all nodes those that were dead. A hint leads back to none of
    /// them before a node answers or, in the first round, another one leads: nodes that name different leaders would else lead past
    /// the others for ever. At most one for each address.
    shunned: BTreeSet<NodeId>,
    /// Nodes that were left since one answered last: they were dead, fell silent or refused to serve.
    left_in_a_row: usize,
    /// Addresses at which another cluster answered since the own one did.
    foreign: BTreeSet<usize>,
}

impl Route {
    pub(crate) fn new(addresses: Vec<String>, first: usize) -> Route {
        assert!(
            !addresses.is_empty(),
            "an endpoint names at least one address"
        );
        let current = first % addresses.len();
        let given = addresses.clone();
        let addresses = addresses
            .into_iter()
            .map(|address| (None, address))
            .collect();
        Route {
            addresses,
            given,
            current,
            shunned: BTreeSet::new(),
            left_in_a_row: 0,
            foreign: BTreeSet::new(),
        }
    }

    /// The address to dial.
    pub(crate) fn address(&self) -> &str {
        &self.addresses[self.current].1
    }

    /// A node welcomed the client and told who the members are. It may yet refuse everything.
    pub(crate) fn welcomed(&mut self, node: NodeId, members: Vec<(NodeId, String)>) {
        let in_use = self.addresses[self.current].clone();
        self.foreign.clear();
        self.renew(members);
        self.current = self.position(node).unwrap_or_else(|| {
            // Who is no member leaves soon: after it comes the first one.
            self.addresses.insert(0, in_use);
            0
        });
    }

    /// The node in use tells that other nodes are members than before.
    pub(crate) fn changed(&mut self, members: Vec<(NodeId, String)>) {
        let in_use = self.addresses[self.current].0;
        self.foreign.clear();
        self.renew(members);
        let position = in_use.and_then(|node| self.position(node));
        // Who is gone stops soon: from there it goes on to the first member.
        self.current = position.unwrap_or(self.addresses.len() - 1);
    }

    fn renew(&mut self, members: Vec<(NodeId, String)>) {
        if members.is_empty() {
            return;
        }
        self.addresses = members
            .into_iter()
            .map(|(node, address)| (Some(node), address))
            .collect();
        let is_known = |node: &NodeId| self.addresses.iter().any(|(id, _)| id == &Some(*node));
        self.shunned.retain(is_known);
    }

    /// No member has answered for a round: those that the client began with may know others.
    fn add_given(&mut self) {
        for address in &self.given {
            if !self.addresses.iter().any(|(_, known)| known == address) {
                self.addresses.push((None, address.clone()));
            }
        }
    }

    /// The node in use answers an operation: it serves.
    pub(crate) fn answered(&mut self) {
        self.left_in_a_row = 0;
        self.shunned.clear();
    }

    /// The connection failed or fell silent, or its node refused to serve: go on to the next address.
    pub(crate) fn advance(&mut self) {
        self.left_in_a_row += 1;
        if self.current + 1 == self.addresses.len() {
            self.add_given();
        }
        self.current = (self.current + 1) % self.addresses.len();
    }

    /// How many addresses are known.
    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    /// How often every address was left since one answered last.
    pub(crate) fn rounds(&self) -> u32 {
        u32::try_from(self.left_in_a_row / self.addresses.len()).unwrap_or(u32::MAX)
    }

    /// Another cluster answers at the address in use; says whether one does at every address.
    pub(crate) fn found_foreign(&mut self) -> bool {
        self.foreign.insert(self.current);
        self.foreign.len() == self.addresses.len()
    }

    /// The node in use is of no use: it fell silent or refused to serve, or nobody has answered for a round of all nodes.
    pub(crate) fn shun(&mut self) {
        self.shunned.extend(self.addresses[self.current].0);
    }

    /// A node names `leader` as the leader. Returns whether that is a known node other than the one in use.
    pub(crate) fn hinted(&mut self, leader: NodeId) -> bool {
        match self.position(leader) {
            Some(position) if position != self.current && !self.shunned.contains(&leader) => {
                self.current = position;
                if self.rounds() == 0 {
                    self.shunned.clear();
                }
                true
            }
            Some(_) | None => false,
        }
    }

    fn position(&self, node: NodeId) -> Option<usize> {
        self.addresses.iter().position(|(id, _)| *id == Some(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> Route {
        let mut route = Route::new(vec!["a:1".into()], 0);
        let members = [(1, "a:1"), (2, "b:1"), (3, "c:1")];
        let members = members.map(|(node, address)| (NodeId(node), address.to_string()));
        route.welcomed(NodeId(1), members.into());
        route
    }

    #[test]
    fn dead_addresses_are_tried_in_turn_and_counted() {
        let mut route = route();
        let seen: Vec<String> = (0..3)
            .map(|_| {
                route.advance();
                route.address().to_string()
            })
            .collect();
        assert_eq!(seen, ["b:1", "c:1", "a:1"]);
        assert_eq!(route.rounds(), 1);
        route.answered();
        assert_eq!(route.rounds(), 0);
    }

    #[test]
    fn a_hint_does_not_lead_back_to_the_node_that_fell_silent_before_another_one_leads() {
        let mut route = route();
        route.shun();
        route.advance();
        assert!(!route.hinted(NodeId(1)));
        assert!(route.hinted(NodeId(3)));
        assert!(route.hinted(NodeId(1)));
    }

    #[test]
    fn hints_lead_to_none_of_several_nodes_that_refused_in_turn() {
        let mut route = route();
        for refused in [1, 2] {
            assert_eq!(route.current, refused - 1);
            route.shun();
            route.advance();
        }
        assert!(!route.hinted(NodeId(1)));
        assert!(!route.hinted(NodeId(2)));
        assert_eq!(route.address(), "c:1");
    }

    /// Leaves `times` nodes, of which 3 names 4 as the leader and 5 names 2; all refuse. Returns who was dialled.
    fn goes_round(route: &mut Route, times: usize) -> BTreeSet<usize> {
        let mut dialled = BTreeSet::new();
        let mut was_hinted = false;
        for _ in 0..times {
            loop {
                let at = route.current + 1;
                dialled.insert(at);
                let leader = NodeId(if at == 5 { 2 } else { 4 });
                // A session follows no second hint within its pause.
                was_hinted = !was_hinted && route.hinted(leader);
                if !was_hinted {
                    break;
                }
            }
            route.shun();
            route.advance();
        }
        dialled
    }

    #[test]
    fn hints_of_nodes_that_name_different_leaders_do_not_lead_past_the_others_for_ever() {
        let mut route = Route::new(vec!["1:1".into()], 0);
        let members = (1..=6).map(|node| (NodeId(node), format!("{node}:1")));
        route.welcomed(NodeId(5), members.collect());
        goes_round(&mut route, 6);
        assert_eq!(goes_round(&mut route, 18).len(), 6);
    }

    #[test]
    fn a_hint_moves_only_to_a_known_other_node() {
        let mut route = route();
        assert!(!route.hinted(NodeId(1)));
        assert!(!route.hinted(NodeId(9)));
        assert!(route.hinted(NodeId(3)));
        assert_eq!(route.address(), "c:1");
    }

    #[test]
    fn a_node_that_is_no_member_leads_to_all_that_are() {
        for members in [&[3][..], &[2, 3, 4]] {
            let given = vec!["a:1".to_owned(), "b:1".to_owned()];
            let mut route = Route::new(given, 0);
            let named = |node: &u16| (NodeId(*node), format!("m{node}:1"));
            route.welcomed(NodeId(1), members.iter().map(named).collect());
            for member in members {
                route.advance();
                assert_eq!(route.address(), format!("m{member}:1"));
            }
        }
    }
}
