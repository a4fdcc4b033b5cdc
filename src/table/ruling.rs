//! A request, and how the table answers it.

use crate::algorithm::Payload;
use crate::ring::Ring;
use crate::table::basis::Basis;
use crate::table::fingerprint::Fingerprint;
use crate::table::versioned::VersionedRef;

/// A request, as the table needs it.
pub(crate) struct Ask<'r, R> {
    pub(crate) rule: VersionedRef<'r, R>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) cost: u64,
}

impl<R> Clone for Ask<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Ask<'_, R> {}

impl<R> Ask<'_, R> {
    /// The same by what the slot of the key stores.
    pub(crate) fn kept(self) -> Self {
        Self { fingerprint: self.fingerprint.kept(), ..self }
    }
}

/// The table's answer.
#[derive(Clone, Copy)]
pub(crate) struct Ruling<'a> {
    pub(crate) allowed: bool,
    /// The key's payload after the request.
    pub(crate) payload: Payload,
    pub(crate) ring: Ring<'a>,
    pub(crate) basis: Basis,
}

impl<'a> Ruling<'a> {
    /// By the key's own word.
    #[inline]
    pub(crate) fn own(allowed: bool, payload: Payload, ring: Ring<'a>) -> Self {
        Self { allowed, payload, ring, basis: Basis::Own }
    }
}
