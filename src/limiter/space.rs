//! What a table may take, and how its keys are named: the settings that every limiter has.

use crate::error::BuildError;
use crate::key::KeyHasher;
use crate::table::{Size, Table, WhenFull};

/// Keys a table is made for unless told otherwise: 2 MiB of address space.
const DEFAULT_KEYS: usize = 1 << 16;

/// Bytes a limiter may reserve unless told otherwise.
pub(crate) const DEFAULT_BUDGET: usize = 1 << 30;

/// The settings of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    /// Whether there are keys. Otherwise the limit is one for everything.
    pub(crate) has_keys: bool,
    pub(crate) max_keys: usize,
    pub(crate) memory_budget: usize,
    pub(crate) trusted_keys: bool,
    pub(crate) when_full: WhenFull,
}

impl Default for Space {
    fn default() -> Self {
        Self {
            has_keys: true,
            max_keys: DEFAULT_KEYS,
            memory_budget: DEFAULT_BUDGET,
            trusted_keys: false,
            when_full: WhenFull::default(),
        }
    }
}

impl Space {
    /// An error for a setting that a limiter without keys cannot keep.
    pub(crate) fn judge(&self) -> Result<(), BuildError> {
        let is_given = self.max_keys != DEFAULT_KEYS;
        if is_given && !self.has_keys { Err(BuildError::NoKeys { field: "max_keys" }) } else { Ok(()) }
    }

    /// How many keys there may be in debt.
    pub(crate) fn keys(&self) -> usize {
        if self.has_keys { self.max_keys } else { 1 }
    }

    /// The table's size when each of its slots has a ring of `ring_len`.
    pub(crate) fn size(&self, ring_len: u64) -> Result<Size, BuildError> {
        if self.has_keys { Size::for_keys(self.max_keys, ring_len) } else { Ok(Size::of_one_key(ring_len)) }
    }

    /// Reserves the table, if the budget allows it.
    pub(crate) fn table(&self, size: Size) -> Result<Table, BuildError> {
        if size.bytes() > self.memory_budget {
            return Err(BuildError::OverBudget { needed: size.bytes(), budget: self.memory_budget });
        }
        Table::new(size, self.when_full)
    }

    /// A hasher with a new secret.
    pub(crate) fn hasher(&self) -> KeyHasher {
        KeyHasher::random(self.trusted_keys)
    }
}
