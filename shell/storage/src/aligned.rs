//! Memory that begins at a multiple of what direct writes ask for: what was gathered in it is written without another copy.

/// What positions, lengths and memory of direct writes must be multiples of on common devices.
pub(crate) const ALIGNMENT: usize = 4096;

/// Room for a fixed number of bytes, filled front to back.
#[derive(Debug)]
pub(crate) struct AlignedMemory {
    memory: Vec<u8>,
    /// Where the first aligned byte is. Invariant: `memory` is never moved, because it never grows.
    skip: usize,
    room: usize,
    filled: usize,
}

impl AlignedMemory {
    pub(crate) fn new(room: usize) -> AlignedMemory {
        let memory = vec![0; room + ALIGNMENT];
        AlignedMemory {
            skip: memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT),
            memory,
            room,
            filled: 0,
        }
    }

    /// Bytes in it.
    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Appends `data`, for which there must be room.
    pub(crate) fn extend(&mut self, data: &[u8]) {
        assert!(data.len() <= self.room - self.filled, "there is room");
        let at = self.skip + self.filled;
        self.memory[at..at + data.len()].copy_from_slice(data);
        self.filled += data.len();
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.skip..self.skip + self.filled]
    }

    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }
}

/// Whether a direct write may come from where `data` lies.
pub(crate) fn is_aligned(data: &[u8]) -> bool {
    data.as_ptr().align_offset(ALIGNMENT) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gathered_lies_where_a_direct_write_may_take_it() {
        let mut memory = AlignedMemory::new(10_000);
        for round in 0..3 {
            memory.extend(&[round; 4096]);
            memory.extend(&[round; 10]);
            assert!(is_aligned(memory.bytes()) && !is_aligned(&memory.bytes()[10..]));
            assert_eq!((memory.len(), memory.bytes()[4105]), (4106, round));
            memory.clear();
            assert!(memory.is_empty());
        }
    }
}
