//! Where the permits that a request spent belong, so that they can be put back.

use super::permits::Generation;
use super::slot::Place;

/// Where the spent permits of a request are put back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeasedPermits {
    // Small, since an answer has them: there are `table::KEYS` slots, of two leases.
    pub(crate) slot: u32,
    lease: u8,
    generation: Generation,
}

impl LeasedPermits {
    pub(crate) fn new(slot: usize, Place { lease, generation }: Place) -> Self {
        Self { slot: slot as u32, lease: lease as u8, generation }
    }

    pub(crate) fn place(self) -> Place {
        Place { lease: self.lease.into(), generation: self.generation }
    }
}
