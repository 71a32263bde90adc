//! Numbers that look random and repeat with their seed.

pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn seeded(seed: u64) -> Draw {
        Draw(seed)
    }

    /// A step of SplitMix64.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// Small numbers as often as large ones: as many as there are lengths in bits.
    pub(crate) fn of_any_size(&mut self, bits: u32) -> u64 {
        let shift = 64 - self.below(u64::from(bits) + 1) as u32;
        self.number().checked_shr(shift).unwrap_or(0)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.number() & 1 == 1
    }

    pub(crate) fn bytes(&mut self, length_limit: u64) -> Vec<u8> {
        let length = self.below(length_limit);
        (0..length).map(|_| self.number() as u8).collect()
    }

    pub(crate) fn text(&mut self, length_limit: u64) -> String {
        const LETTERS: [char; 8] = ['a', 'Z', '0', '_', ' ', '\n', 'é', '語'];
        let length = self.below(length_limit);
        (0..length)
            .map(|_| LETTERS[self.below(8) as usize])
            .collect()
    }

    pub(crate) fn option<T>(&mut self, draw: impl FnOnce(&mut Draw) -> T) -> Option<T> {
        self.flag().then(|| draw(self))
    }

    pub(crate) fn list<T>(&mut self, limit: u64, mut draw: impl FnMut(&mut Draw) -> T) -> Vec<T> {
        let count = self.below(limit);
        (0..count).map(|_| draw(self)).collect()
    }

    /// Half of the times one, in a box.
    pub(crate) fn boxed<T>(&mut self, draw: impl FnOnce(&mut Draw) -> T) -> Option<Box<T>> {
        self.flag().then(|| Box::new(draw(self)))
    }
}
