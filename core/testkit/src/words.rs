//! The words of a script's line: `n1`, `s7`, `n1->n2`, `20ms`.

use quorate_types::{NodeId, Slot};

pub(crate) fn node(word: &str) -> Result<NodeId, String> {
    let digits = word
        .strip_prefix('n')
        .ok_or(format!("`{word}` is no node"))?;
    digits
        .parse()
        .map(NodeId)
        .map_err(|_| format!("`{word}` is no node"))
}

pub(crate) fn slot(word: &str) -> Result<Slot, String> {
    let digits = word
        .strip_prefix('s')
        .ok_or(format!("`{word}` is no slot"))?;
    digits
        .parse()
        .map(Slot)
        .map_err(|_| format!("`{word}` is no slot"))
}

pub(crate) fn pair(word: &str) -> Result<(NodeId, NodeId), String> {
    let (from, to) = word
        .split_once("->")
        .ok_or(format!("`{word}` is no link"))?;
    Ok((node(from)?, node(to)?))
}

pub(crate) fn millis(word: &str) -> Result<u64, String> {
    let digits = word
        .strip_suffix("ms")
        .ok_or(format!("`{word}` is no span"))?;
    digits.parse().map_err(|_| format!("`{word}` is no span"))
}
