//! What a request has been charged, rule by rule, until it is certain that it stays.

use smallvec::SmallVec;

use crate::backend::Reply;
use crate::headers::{Note, Styles, join};
use crate::rule::{Limits, MOST_RULES, Place, Ruled};

/// The charges of one request. Dropped before they are settled they are given back, the last first: the request was
/// refused, or its client is gone.
pub(super) struct Charges<'l> {
    /// Those of the rules that admitted the request, in their order.
    made: SmallVec<[Charge<'l>; MOST_RULES]>,
    /// The places of those that wait in a queue, with their rules, in the same order.
    // Apart, so that charges stay as short as most of them are: they are copied about.
    places: Vec<(usize, Place)>,
    stay: bool,
}

pub(super) struct Charge<'l> {
    /// The rule, by its place.
    pub(super) rule: usize,
    pub(super) shadow: bool,
    pub(super) of: Of<'l>,
}

/// Who was charged.
pub(super) enum Of<'l> {
    Here(&'l Limits, Ruled<'l>),
    /// A backend, which gives nothing back.
    There(&'l str, Reply),
}

impl<'l> Charges<'l> {
    #[inline]
    pub(super) fn new() -> Self {
        Self { made: SmallVec::new(), places: Vec::new(), stay: false }
    }

    #[inline]
    pub(super) fn push(&mut self, charge: Charge<'l>) {
        self.made.push(charge);
    }

    /// Of a request that waits: its own place, or one that another left.
    pub(super) fn push_waiting(&mut self, charge: Charge<'l>, place: Place) {
        self.places.push((charge.rule, place));
        self.made.push(charge);
    }

    /// From now on they stay when they are dropped.
    pub(super) fn settle(&mut self) {
        self.stay = true;
    }

    /// Gives back those of the rules for which `gives_back` is true, settled or not; the others stay.
    pub(super) fn give_back(&mut self, gives_back: impl Fn(usize) -> bool) {
        while let Some(charge) = self.made.pop() {
            let place = self.places.pop_if(|(rule, _)| *rule == charge.rule);
            if let Of::Here(limits, decision) = charge.of
                && gives_back(charge.rule)
            {
                limits.give_back(decision, place.map(|(_, place)| place));
            }
        }
    }

    /// What the response will say of the limits that are enforced.
    pub(super) fn note(&self, styles: Styles) -> Note {
        let enforced = || self.made.iter().filter(|charge| !charge.shadow).map(|charge| &charge.of);
        let mut limits = enforced().filter_map(|of| match of {
            Of::Here(limits, _) => Some(*limits),
            Of::There(..) => None,
        });
        let policy = || match (limits.next(), limits.next()) {
            (Some(only), None) => only.policy(),
            (first, second) => join(first.into_iter().chain(second).chain(limits).flat_map(Limits::policies)),
        };
        Note::of(styles, policy, |showing| {
            for of in enforced() {
                match of {
                    Of::Here(limits, decision) => limits.show(decision, showing),
                    Of::There(name, reply) => showing.limit(name, reply.numbers()),
                }
            }
        })
    }
}

impl Drop for Charges<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.stay {
            self.give_back(|_| true);
        }
    }
}
