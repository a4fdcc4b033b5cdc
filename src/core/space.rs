//! What a table of keys may take, and how its keys are named: the settings that every keyed limiter
//! has.

use crate::error::BuildError;
use crate::key::KeyHasher;
use crate::table::{Size, Table, WhenFull};

/// Keys a table is made for unless told otherwise: 2 MiB of address space.
const DEFAULT_KEYS: usize = 1 << 16;

/// Bytes a limiter may reserve unless told otherwise.
pub(crate) const DEFAULT_BUDGET: usize = 1 << 30;

/// The settings of a table of keys.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    pub(crate) max_keys: usize,
    pub(crate) memory_budget: usize,
    pub(crate) trusted_keys: bool,
    pub(crate) when_full: WhenFull,
}

impl Default for Space {
    fn default() -> Self {
        Self {
            max_keys: DEFAULT_KEYS,
            memory_budget: DEFAULT_BUDGET,
            trusted_keys: false,
            when_full: WhenFull::default(),
        }
    }
}

impl Space {
    /// The table's size when each of its slots has a ring of `ring_len`.
    pub(crate) fn size(&self, ring_len: u64) -> Result<Size, BuildError> {
        Size::for_keys(self.max_keys, ring_len)
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
