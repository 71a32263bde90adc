//! Reads one segment back and tells a torn tail, which may be cut, from damage, which never may.
//!
//! The proof rests on one habit of the writer: a commit is written only after the one before it is synced. So whatever has
//! something of a later commit behind it was durable once, and anything missing from it is damage. Only the last commit can be
//! torn, and a torn commit has a sector that was never written: a present but wrong sector is damage even there.
//! Called by `replay`. Refuses to judge records: they are bytes.

use std::collections::BTreeMap;

use crate::limits::SECTOR_BYTES;
use crate::record::{CommitReader, Item};
use crate::sector::{Owner, Place, SectorFound, round_up};

/// How far a segment is known to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealed {
    /// It is the last one: its tail may be torn.
    Open,
    /// The next segment says that it ends here: all before is durable, all behind was torn.
    At(u64),
    /// There is a next segment, but its header is lost: nothing may be cut.
    Somewhere,
}

/// A segment to read.
pub(crate) struct SegmentToRead<'a> {
    pub(crate) owner: Owner,
    pub(crate) number: u32,
    pub(crate) content: &'a [u8],
    pub(crate) block_bytes: u64,
    /// Where commits begin.
    pub(crate) start: u64,
    pub(crate) first_commit: u64,
    pub(crate) sealed: Sealed,
}

/// What was read.
#[derive(Debug)]
pub(crate) struct SegmentScan {
    /// Each with its offset in the segment (`Item::at` is relative to it).
    pub(crate) items: Vec<(u64, Item)>,
    /// Where the log ends in this segment.
    pub(crate) end: u64,
    /// All commits here have lower numbers.
    pub(crate) next_commit: u64,
    /// Nothing is written behind the end, so the log may go on here.
    pub(crate) clean: bool,
    /// Where sectors that were durable are not as they were written, rising. Not all of them cost a record.
    pub(crate) flawed: Vec<u64>,
}

impl SegmentScan {
    /// All sectors from where the scan is up to `end` are not as they were written, and nothing names what they held.
    fn lose_upto(&mut self, end: u64) {
        self.items
            .push((self.end, Item::Damaged { at: 0, entry: None }));
        self.flawed.extend((self.end..end).step_by(SECTOR_BYTES));
        self.end = end;
    }
}

impl SegmentToRead<'_> {
    pub(crate) fn scan(&self) -> SegmentScan {
        let found: Vec<SectorFound> = self
            .content
            .chunks_exact(SECTOR_BYTES)
            .enumerate()
            .map(|(index, sector)| self.examine(sector, (index * SECTOR_BYTES) as u64))
            .collect();
        let commits = self.commits(&found);
        let newest = commits
            .values()
            .map(|place| place.commit)
            .max()
            .unwrap_or(0);
        let mut scan = SegmentScan {
            items: Vec::new(),
            end: self.start,
            next_commit: self.first_commit,
            clean: true,
            flawed: Vec::new(),
        };
        let limit = match self.sealed {
            Sealed::At(end) => end,
            Sealed::Open | Sealed::Somewhere => self.content.len() as u64,
        };
        while scan.end < limit {
            let next = commits
                .range(scan.end..limit)
                .find(|(_, place)| place.commit >= scan.next_commit)
                .map(|(start, place)| (*start, *place));
            let Some((start, place)) = next else {
                self.tail(&found, limit, &mut scan);
                break;
            };
            if start > scan.end {
                scan.lose_upto(start);
            }
            let durable = self.sealed != Sealed::Open || newest > place.commit;
            if !self.commit(&found, start, place, durable, &mut scan) {
                break;
            }
        }
        scan.next_commit = scan.next_commit.max(newest + 1);
        let behind = found.iter().skip((scan.end / SECTOR_BYTES as u64) as usize);
        scan.clean = behind
            .into_iter()
            .all(|found| *found == SectorFound::Absent);
        scan
    }

    /// What a sector is to this segment. What an earlier segment wrote into the same file was never written here.
    fn examine(&self, sector: &[u8], offset: u64) -> SectorFound {
        match self.owner.examine(sector, offset) {
            SectorFound::Valid(place) if place.segment < self.number => SectorFound::Absent,
            found @ (SectorFound::Valid(_) | SectorFound::Absent | SectorFound::Wrong) => found,
        }
    }

    /// Where commits start, as their valid sectors tell. Where a later try was written over an earlier one, the later counts.
    fn commits(&self, found: &[SectorFound]) -> BTreeMap<u64, Place> {
        let mut commits: BTreeMap<u64, Place> = BTreeMap::new();
        for (sector, found) in found.iter().enumerate() {
            let SectorFound::Valid(place) = found else {
                continue;
            };
            let offset = (sector * SECTOR_BYTES) as u64;
            let before = place.index as u64 * SECTOR_BYTES as u64;
            if place.data == 0 || place.segment != self.number || offset < self.start + before {
                continue;
            }
            let known = commits.entry(offset - before).or_insert(*place);
            if place.commit > known.commit {
                *known = *place;
            }
        }
        commits
    }

    /// Reads the commit at `start`. False if it is torn: the log ends before it.
    fn commit(
        &self,
        found: &[SectorFound],
        start: u64,
        place: Place,
        durable: bool,
        scan: &mut SegmentScan,
    ) -> bool {
        let first = (start / SECTOR_BYTES as u64) as usize;
        let sectors = &found[first..found.len().min(first + place.total as usize)];
        let is_good = |(index, found): (usize, &SectorFound)| {
            *found
                == SectorFound::Valid(Place {
                    index: index as u32,
                    ..place
                })
        };
        let good: Vec<bool> = sectors.iter().enumerate().map(is_good).collect();
        let never_written = sectors
            .iter()
            .zip(&good)
            .any(|(found, good)| !good && *found != SectorFound::Wrong);
        if never_written && !durable {
            return false;
        }
        let flawed = good.iter().enumerate().filter(|(_, good)| !**good);
        scan.flawed
            .extend(flawed.map(|(index, _)| start + (index * SECTOR_BYTES) as u64));
        let from = first * SECTOR_BYTES;
        let content = &self.content[from..from + good.len() * SECTOR_BYTES];
        let reader = CommitReader {
            content,
            good: &good,
            data: place.data as usize,
        };
        scan.items
            .extend(reader.items().into_iter().map(|item| (start, item)));
        scan.end = round_up(
            start + place.total as u64 * SECTOR_BYTES as u64,
            self.block_bytes,
        )
        .min(self.content.len() as u64);
        scan.next_commit = place.commit + 1;
        true
    }

    /// Judges what lies behind the last commit of which anything is valid.
    fn tail(&self, found: &[SectorFound], limit: u64, scan: &mut SegmentScan) {
        let first = (scan.end / SECTOR_BYTES as u64) as usize;
        let wrong = found[first..]
            .iter()
            .take_while(|found| **found == SectorFound::Wrong)
            .count() as u64;
        let damaged_to = match self.sealed {
            Sealed::At(_) => limit,
            // The smallest commit has two sectors. If one of them was never written, the commit is torn.
            Sealed::Open if wrong < 2 => return,
            Sealed::Somewhere if wrong == 0 => return,
            Sealed::Open | Sealed::Somewhere => {
                let end = scan.end + wrong * SECTOR_BYTES as u64;
                round_up(end, self.block_bytes).min(self.content.len() as u64)
            }
        };
        scan.lose_upto(damaged_to);
    }
}
