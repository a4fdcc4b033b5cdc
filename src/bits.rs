//! Bit fields of a word. Each is declared `above` the one before, so fields cannot overlap.

/// A run of bits in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    shift: u32,
    /// The largest value that fits: as many ones as the field has bits.
    max: u64,
}

impl Field {
    /// The field at the bottom of the word.
    pub(crate) const fn lowest(width: u32) -> Self {
        Self { shift: 0, max: ones(width) }
    }

    /// The field that starts where this one ends.
    pub(crate) const fn above(self, width: u32) -> Self {
        assert!(self.end() + width <= u64::BITS, "the fields must fit the word");
        Self { shift: self.end(), max: ones(width) }
    }

    /// The field's first bit.
    pub(crate) const fn start(self) -> u32 {
        self.shift
    }

    /// The first bit above the field.
    pub(crate) const fn end(self) -> u32 {
        self.shift + bits(self.max)
    }

    /// The largest value that fits.
    pub(crate) const fn max(self) -> u64 {
        self.max
    }

    /// The field's value in `word`.
    pub(crate) const fn get(self, word: u64) -> u64 {
        (word >> self.shift) & self.max
    }

    /// A word that is zero but for this field. `value` must fit.
    pub(crate) const fn of(self, value: u64) -> u64 {
        debug_assert!(value <= self.max, "the value must fit its field");
        value << self.shift
    }

    /// `word` with the field set to `value`, which must fit.
    pub(crate) const fn set(self, word: u64, value: u64) -> u64 {
        (word & !(self.max << self.shift)) | self.of(value)
    }
}

/// The word whose lowest `width` bits are set.
const fn ones(width: u32) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (u64::BITS - width) }
}

/// How many bits it takes to write `value`.
pub(crate) const fn bits(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_reads_back_and_leaves_its_neighbours() {
        let low = Field::lowest(7);
        let middle = low.above(20);
        let high = middle.above(37);
        assert_eq!(high.end(), u64::BITS);
        let word = middle.set(u64::MAX, 5);
        assert_eq!((low.get(word), middle.get(word), high.get(word)), (low.max(), 5, high.max()));
        assert_eq!(low.of(1) | middle.of(2) | high.of(3), high.set(middle.set(1, 2), 3));
    }

    #[test]
    fn bits_counts_the_digits() {
        assert_eq!([bits(0), bits(1), bits(2), bits(255), bits(256)], [0, 1, 2, 8, 9]);
    }
}
