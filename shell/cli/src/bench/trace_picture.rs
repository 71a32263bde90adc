//! The messages of one command as a picture: a line for each party, time from left to right.

use super::trace::{CommandTrace, LINK, TraceRow};
use std::fmt::Write;

const LEFT: u64 = 110;
const TOP: u64 = 44;
/// Between the lines of two parties.
const ROW: u64 = 64;
/// Width of one message delay.
const DELAY: u64 = 120;

/// Draws it as SVG.
pub(super) fn draw(trace: &CommandTrace) -> String {
    let nodes = (1..=trace.nodes).map(|node| format!("n{node}"));
    let others = nodes.filter(|node| *node != trace.leader);
    let first = ["client".to_owned(), trace.leader.clone()];
    let parties: Vec<String> = first.into_iter().chain(others).collect();
    let end = trace.messages.iter().map(|message| message.arrives_us);
    let width = across(end.max().unwrap_or(0)) + 40;
    let height = TOP + ROW * parties.len() as u64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <defs><marker id=\"tip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\">\
         <path d=\"M0,1 L8,4 L0,7 z\" fill=\"#225588\"/></marker></defs>\n\
         <text x=\"12\" y=\"22\">{}: one command on {} nodes, {}</text>\n",
        trace.ordering,
        trace.nodes,
        trace.delays()
    );
    for (row, party) in parties.iter().enumerate() {
        let y = down(row);
        let role = if *party == trace.leader {
            " (leader)"
        } else {
            ""
        };
        writeln!(
            svg,
            "<text x=\"12\" y=\"{}\">{party}{role}</text><line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"#999999\"/>",
            y + 4,
            width - 20
        )
        .expect("a string takes all");
    }
    for message in &trace.messages {
        svg.push_str(&arrow(message, &parties));
    }
    svg.push_str("</svg>\n");
    svg
}

/// From the sender's line to the receiver's, with its name a third of the way.
fn arrow(message: &TraceRow, parties: &[String]) -> String {
    let row = |party: &String| parties.iter().position(|known| known == party);
    let (Some(from), Some(to)) = (row(&message.from), row(&message.to)) else {
        return String::new();
    };
    let (x1, y1) = (across(message.sent_us), down(from));
    let (x2, y2) = (across(message.arrives_us), down(to));
    // Straight between the ends, so that arrows to several parties do not write over each other.
    let (x, y) = ((2 * x1 + 3 * x2) / 5, (2 * y1 + 3 * y2) / 5);
    format!(
        "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"#225588\" marker-end=\"url(#tip)\"/>\
         <text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#333333\">{}</text>\n",
        x + 5,
        y + 4,
        message.name
    )
}

fn across(us: u64) -> u64 {
    LEFT + us * DELAY / (LINK.0 / 1_000)
}

fn down(row: usize) -> u64 {
    TOP + 20 + ROW * row as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::OrderingName;

    #[test]
    fn every_party_has_a_line_and_every_message_an_arrow() {
        let trace = CommandTrace::of(OrderingName::Paxos, 3, 100).expect("a reply");
        let svg = draw(&trace);
        for party in ["client", "n1", "n2", "n3"] {
            assert!(svg.contains(&format!(">{party}")), "{svg}");
        }
        let arrows = svg.matches("marker-end").count();
        assert_eq!(arrows, trace.messages.len());
        assert_eq!(svg.matches("(leader)").count(), 1);
    }
}
