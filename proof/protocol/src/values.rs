//! The model's words: what `src/table/{word,name,header}.rs` have, with fewer bits.

/// Slots a bucket.
pub(crate) const SLOTS: usize = 2;

/// Buckets, of which one is in use from the first.
pub(crate) const BUCKETS: usize = 4;

/// A key: its low bits tell its bucket, bit 2 its home slot.
pub(crate) type Key = u8;

/// What a slot stores of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Name {
    /// No key has had the slot.
    #[default]
    Untouched,
    Vacant,
    /// A thread is emptying the slot of a key that has moved.
    Emptied,
    /// Vacant, with remaining debt.
    Owed,
    Key(Key),
    /// Belonged to the key, which has moved or is about to.
    Moved(Key),
}

impl Name {
    pub(crate) fn is_vacant(self) -> bool {
        matches!(self, Self::Untouched | Self::Vacant | Self::Moved(_))
    }

    /// The key's, in its slot or moving out.
    pub(crate) fn is_of(self, key: Key) -> bool {
        matches!(self, Self::Key(own) | Self::Moved(own) if own == key)
    }

    pub(crate) fn key(self) -> Option<Key> {
        match self {
            Self::Key(key) | Self::Moved(key) => Some(key),
            _ => None,
        }
    }
}

/// A slot's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) frozen: bool,
    pub(crate) parity: bool,
    pub(crate) payload: u8,
}

impl Word {
    pub(crate) fn charged(self, payload: u8) -> Self {
        Self { frozen: false, payload, ..self }
    }

    pub(crate) fn held(self) -> Self {
        Self { frozen: true, ..self }
    }

    pub(crate) fn claimed(self, payload: u8) -> Self {
        Self { frozen: true, parity: !self.parity, payload }
    }

    pub(crate) fn detached(self) -> Self {
        Self { frozen: false, parity: !self.parity, ..self }
    }
}

/// A bucket's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) parity: [bool; SLOTS],
    pub(crate) shared: bool,
    pub(crate) splitting: bool,
    /// 0 in a bucket that was never opened nor split.
    pub(crate) level: u8,
    /// Insertions and charges of the overflow word.
    changes: u16,
}

impl Header {
    /// All of it, in 23 bits.
    pub(crate) fn bits(self) -> u32 {
        let parity = self.parity.iter().fold(0, |bits, &parity| bits << 1 | u32::from(parity));
        let state = parity << 2 | u32::from(self.shared) << 1 | u32::from(self.splitting);
        (state << 3 | u32::from(self.level)) << 16 | u32::from(self.changes)
    }

    pub(crate) fn commits(self, place: usize, word: Word) -> bool {
        self.parity[place] == word.parity
    }

    pub(crate) fn committing(mut self, place: usize, shared: bool) -> Self {
        self.parity[place] ^= true;
        Self { shared, changes: self.changes + 1, ..self }
    }

    pub(crate) fn sharing(self) -> Self {
        Self { shared: true, changes: self.changes + 1, ..self }
    }

    pub(crate) fn splitting(self) -> Self {
        Self { splitting: true, ..self }
    }

    pub(crate) fn split(self, level: u8) -> Self {
        Self { splitting: false, level, ..self }
    }

    pub(crate) fn sibling(self, level: u8) -> Self {
        Self { level, shared: self.shared, ..Self::default() }
    }

    /// The level of this bucket; `None` before it is open. One bucket is in use from the first.
    pub(crate) fn level_of(self, number: usize) -> Option<u8> {
        match self.level {
            0 => (number == 0).then_some(0),
            level => Some(level),
        }
    }
}

/// The bucket that has the key at this level.
pub(crate) fn number_at(level: u8, key: Key) -> usize {
    usize::from(key) & ((1 << level) - 1)
}

/// The bucket from which this one is split off.
pub(crate) fn parent(number: usize) -> usize {
    number & !(1 << number.ilog2())
}
