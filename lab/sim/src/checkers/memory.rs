//! Memory stays bounded: samples of queue and log sizes never exceed their stated bounds.
//!
//! The seeded world states a bound for each quantity and samples all nodes after each event. A quantity without a
//! bound is a fault of the world, not of the code under test, and panics.

use std::collections::BTreeMap;

use quorate_types::NodeId;

use super::{Property, Violation};

/// Bounds and the highest samples so far.
#[derive(Debug, Default)]
pub struct Memory {
    quantities: BTreeMap<&'static str, Quantity>,
}

#[derive(Debug)]
struct Quantity {
    most: u64,
    /// On any node.
    highest: u64,
}

impl Memory {
    /// States that samples of `quantity` (commands, bytes, slots: as its name says) never exceed `most`.
    pub fn bound(&mut self, quantity: &'static str, most: u64) {
        let stated = Quantity { most, highest: 0 };
        let before = self.quantities.insert(quantity, stated);
        assert!(before.is_none(), "{quantity} is bounded once");
    }

    /// Takes a sample of `node` at `now_ns` of virtual time.
    ///
    /// # Errors
    /// [`Property::BoundedMemory`] when it exceeds its bound.
    pub fn sampled(
        &mut self,
        now_ns: u64,
        node: NodeId,
        quantity: &'static str,
        size: u64,
    ) -> Result<(), Violation> {
        let bounded = self.quantities.get_mut(quantity);
        let bounded = bounded.unwrap_or_else(|| panic!("{quantity} has a bound"));
        bounded.highest = size.max(bounded.highest);
        let most = bounded.most;
        if size <= most {
            return Ok(());
        }
        Err(Violation::new(
            Property::BoundedMemory,
            format!("{node} holds {size} {quantity} at {now_ns} ns, the bound is {most}"),
        ))
    }

    /// The highest sample of `quantity` on any node; 0 before the first. A bound never approached proves little.
    pub fn highest(&self, quantity: &'static str) -> u64 {
        self.quantities
            .get(quantity)
            .map_or(0, |bounded| bounded.highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_at_the_bound_is_fine_and_one_above_is_found() {
        let mut memory = Memory::default();
        memory.bound("queued bytes", 100);
        memory.sampled(1, NodeId(1), "queued bytes", 100).unwrap();
        memory.sampled(2, NodeId(2), "queued bytes", 3).unwrap();
        let broken = memory
            .sampled(3, NodeId(2), "queued bytes", 101)
            .unwrap_err();
        assert_eq!(broken.property, Property::BoundedMemory);
        assert_eq!(memory.highest("queued bytes"), 101);
    }

    #[test]
    #[should_panic(expected = "has a bound")]
    fn a_quantity_without_a_bound_is_refused() {
        let _ = Memory::default().sampled(1, NodeId(1), "forgotten", 1);
    }
}
