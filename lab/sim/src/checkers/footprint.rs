//! Nothing grows with time: what each node keeps stays below its stated bound, and later hours need no more than earlier ones.
//!
//! The first span of a run settles and counts for nothing. After it no sample may exceed its bound. What is usual in a span, the median
//! of the spans' highest samples, may be a fifth higher in the last third of the run than in the first one, or one grain where samples
//! are small numbers of things: a leak lifts all spans, and faults only some. Called by the world in runs of hours.

use std::collections::BTreeMap;
use std::fmt;

use quorate_types::{Duration, NodeId};

use super::{Property, Violation};

/// In how many spans a run is looked at.
pub const SPANS: u64 = 24;

/// Samples of the last spans are at most so many percent of those of the first ones.
const GROWN_PERCENT: u64 = 120;

/// Something that each node keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bounded {
    /// What it is, with its unit.
    pub what: &'static str,
    /// No node ever keeps more.
    pub most: u64,
    /// A sample may be higher by this without meaning anything.
    pub grain: u64,
}

/// The highest samples of all spans.
#[derive(Clone, Debug)]
pub struct Footprint {
    span: Duration,
    kept: BTreeMap<&'static str, (Bounded, [u64; SPANS as usize])>,
}

/// What is usual in the first spans but one and in the last ones, what there was at most, and what it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Highest {
    /// What was sampled.
    pub kept: Bounded,
    /// In the first third.
    pub first: u64,
    /// In all spans.
    pub ever: u64,
    /// In the last third.
    pub last: u64,
}

impl Footprint {
    /// Watches over `kept` in a run of [`SPANS`] spans.
    pub fn new(span: Duration, kept: impl IntoIterator<Item = Bounded>) -> Footprint {
        let kept = kept.into_iter();
        Footprint {
            span,
            kept: kept
                .map(|kept| (kept.what, (kept, [0; SPANS as usize])))
                .collect(),
        }
    }

    /// Takes a sample of `node` at `now_ns` of virtual time.
    ///
    /// # Errors
    /// [`Property::BoundedMemory`] when it exceeds its bound.
    pub fn sampled(
        &mut self,
        now_ns: u64,
        node: NodeId,
        what: &'static str,
        size: u64,
    ) -> Result<(), Violation> {
        let found = self.kept.get_mut(what);
        let (kept, spans) = found.unwrap_or_else(|| panic!("{what} has a bound"));
        let span = now_ns / self.span.0;
        if span == 0 || span >= SPANS {
            return Ok(());
        }
        let highest = &mut spans[span as usize];
        *highest = size.max(*highest);
        if size <= kept.most {
            return Ok(());
        }
        Err(Violation::new(
            Property::BoundedMemory,
            format!(
                "{node} keeps {size} {what} at {} s, the bound is {}",
                now_ns / 1_000_000_000,
                kept.most
            ),
        ))
    }

    /// The highest samples, by name.
    pub fn highest(&self) -> impl Iterator<Item = Highest> {
        let third = SPANS as usize / 3;
        self.kept.values().map(move |(kept, spans)| Highest {
            kept: *kept,
            first: median(&spans[1..third]),
            ever: spans.iter().copied().max().unwrap_or(0),
            last: median(&spans[SPANS as usize - third..]),
        })
    }

    /// Looks back on the whole run.
    ///
    /// # Errors
    /// [`Property::BoundedMemory`] when something grew.
    pub fn finish(&self) -> Result<(), Violation> {
        for Highest {
            kept, first, last, ..
        } in self.highest()
        {
            let what = kept.what;
            let allowed = (first * GROWN_PERCENT / 100).max(first + kept.grain);
            if last > allowed {
                return Err(Violation::new(
                    Property::BoundedMemory,
                    format!(
                        "{what} grow: {first} are usual in the first third, {last} in the last one"
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// The median of the spans' highest samples, the higher one of two.
fn median(spans: &[u64]) -> u64 {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

impl fmt::Display for Highest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<28} {:>9} {:>9} {:>9} {:>9}",
            self.kept.what, self.first, self.last, self.ever, self.kept.most
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration(1_000);

    fn footprint(sizes: impl Fn(u64) -> u64, most: u64) -> Result<(), Violation> {
        let things = Bounded {
            what: "things",
            most,
            grain: 2,
        };
        let mut footprint = Footprint::new(SPAN, [things]);
        for span in 0..=SPANS {
            footprint.sampled(span * SPAN.0, NodeId(1), "things", sizes(span))?;
        }
        footprint.finish()
    }

    #[test]
    fn what_stays_is_fine_whatever_the_first_span_and_the_end_have() {
        let sizes = |span| match span {
            0 | SPANS => 10_000,
            _ => 95 + span % 5,
        };
        footprint(sizes, 100).unwrap();
    }

    #[test]
    fn a_few_spans_may_have_more_than_is_usual() {
        let sizes = |span| match span {
            18 | 21 => 180,
            _ => 100,
        };
        footprint(sizes, 200).unwrap();
    }

    #[test]
    fn what_exceeds_its_bound_is_found_at_once() {
        let broken = footprint(|span| 90 + span, 100).unwrap_err();
        assert_eq!(broken.property, Property::BoundedMemory);
        assert!(
            broken.detail.contains("keeps 101 things"),
            "{}",
            broken.detail
        );
    }

    #[test]
    fn what_grows_below_its_bound_is_found_at_the_end() {
        let broken = footprint(|span| 100 + 2 * span, 1_000).unwrap_err();
        assert!(broken.detail.contains("grow"), "{}", broken.detail);
        footprint(|span| 1 + span / 12, 10).unwrap();
    }
}
