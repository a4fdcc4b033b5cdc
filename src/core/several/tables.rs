//! The tables of several limits.

use std::ops::Deref;

use crate::algorithm::{AnyRule, Payload, for_rule};
use crate::core::sealed;
use crate::table::dated::Dated;
use crate::table::ruling::{Ask, Standing};
use crate::table::{Fingerprint, HomeProbe, Probe, RingPlace, Table};
use crate::time::Timestamp;

/// Several limits for each key, each with a table of its own.
///
/// Named in the types that a [`MultiLimiter`](crate::MultiLimiter) hands out. There is no value of
/// it.
pub enum Several {}

impl sealed::Sealed for Several {}

/// The tables of the limits, in the order in which they are charged. A decision has a pointer to
/// them and no length: of 128 bytes it is moved in place, of more by a call.
pub struct Tables {
    pub(super) tables: Box<[Table]>,
    /// Which one each was of those given to the builder.
    pub(super) numbers: Box<[usize]>,
    /// How many they are, if all of their rules are [brief](AnyRule::is_brief) and there is no
    /// observer; otherwise 0.
    pub(super) brief: usize,
}

impl Deref for Tables {
    type Target = [Table];

    #[inline]
    fn deref(&self) -> &[Table] {
        &self.tables
    }
}

impl Tables {
    /// Looks at the key's home slot by the very algorithm, which is known from here on: only the
    /// log goes by its ring.
    #[inline(always)]
    pub(super) fn glance(
        &self,
        index: usize,
        Dated { rule, term }: Dated<'_, AnyRule>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Option<HomeProbe<'_>> {
        let (view, fingerprint) = (self[index].view(fingerprint), fingerprint.kept());
        for_rule!(rule, rule => view.probe_home(Ask { rule: Dated { rule, term }, fingerprint, cost }, now))
    }

    /// Looks at the key wherever it is.
    #[inline]
    pub(super) fn look(
        &self,
        index: usize,
        Dated { rule, term }: Dated<'_, AnyRule>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Probe<'_> {
        let (view, fingerprint) = (self[index].view(fingerprint), fingerprint.kept());
        for_rule!(rule, rule => view.probe_slot(Ask { rule: Dated { rule, term }, fingerprint, cost }, now))
    }

    /// The key's payload, and its place.
    pub(super) fn probe(
        &self,
        index: usize,
        rule: Dated<'_, AnyRule>,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> (Payload, RingPlace) {
        let table = &self[index];
        let found = table.probe(Ask { rule, fingerprint, cost: 1 }, rule.moment_to_read(now));
        let Standing { payload, ring, basis } = found.unwrap_or_else(Standing::from);
        (payload, table.place_of(ring, basis))
    }

    /// The table of the limit of this number, as given to the builder.
    pub(crate) fn numbered(&self, number: usize) -> Option<&Table> {
        let index = self.numbers.iter().position(|&other| other == number)?;
        self.get(index)
    }

    /// The numbers of the limits, as given to the builder, in the order in which they are charged.
    pub(crate) fn numbers(&self) -> &[usize] {
        &self.numbers
    }
}
