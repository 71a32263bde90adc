//! What a majority of the replicas took at one slot: of snapshots and of outcomes, judged by their digests.

use quorate_types::zoo::{Plant, planted};
use quorate_types::{NodeId, NodeSet, View};
use std::collections::BTreeMap;

/// The judgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MajorityVerdict<D> {
    /// A majority took equal digests.
    Agreed(D),
    /// No majority is possible any more.
    Split,
    /// More reports are needed.
    Open,
}

/// Judges what `view`'s replicas took at one slot. A replica that is stuck before the slot, at a call that another survived, has
/// no say until it reports this slot, and those past the call make the majority. A replica that differs and is `silent` is not
/// waited for, but the majority is one of all.
pub(crate) fn verdict<D: Ord + Copy>(
    view: &View,
    (stuck, silent): (NodeSet, NodeSet),
    digest_of: impl Fn(NodeId) -> Option<D>,
) -> MajorityVerdict<D> {
    let mut counts: BTreeMap<D, usize> = BTreeMap::new();
    let mut unheard = 0;
    let mut voters = 0;
    let voting = match planted(Plant::WitnessAgrees) {
        true => view.nodes(),
        false => view.replicas,
    };
    for node in voting.iter() {
        if let Some(digest) = digest_of(node) {
            voters += 1;
            *counts.entry(digest).or_default() += 1;
        } else if !stuck.contains(node) {
            voters += 1;
            unheard += usize::from(!silent.contains(node));
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    let majority = voters / 2 + 1;
    match most {
        Some((digest, count)) if count >= majority => MajorityVerdict::Agreed(digest),
        Some((digest, _)) if planted(Plant::TrimByOne) || planted(Plant::DigestOfOne) => {
            MajorityVerdict::Agreed(digest)
        }
        Some((_, count)) if count + unheard < majority => MajorityVerdict::Split,
        Some(_) | None => MajorityVerdict::Open,
    }
}
