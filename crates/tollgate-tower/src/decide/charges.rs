//! What a request has been charged, rule by rule, until it is certain that it stays.

use crate::backend::Reply;
use crate::headers::{Note, Numbers, Shown, Styles, join};
use crate::rule::{Limits, MOST_RULES, Ruled};

/// The charges of one request. Dropped before they are settled they are given back, the last first: the request was
/// refused, or its client is gone.
pub(super) struct Charges<'l> {
    /// As many as there are rules that admitted the request, in their order.
    made: [Option<Charge<'l>>; MOST_RULES],
    len: usize,
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

impl<'l> Of<'l> {
    fn here(&self) -> Option<(&Limits, &Ruled<'l>)> {
        match self {
            Self::Here(limits, decision) => Some((limits, decision)),
            Self::There(..) => None,
        }
    }

    fn there(&self) -> Option<Shown<'_>> {
        match self {
            Self::Here(..) => None,
            Self::There(name, reply) => Some(shown(name, *reply)),
        }
    }
}

impl<'l> Charges<'l> {
    #[inline]
    pub(super) fn new() -> Self {
        Self { made: [const { None }; MOST_RULES], len: 0, stay: false }
    }

    pub(super) fn push(&mut self, charge: Charge<'l>) {
        self.made[self.len] = Some(charge);
        self.len += 1;
    }

    /// From now on they stay when they are dropped.
    pub(super) fn settle(&mut self) {
        self.stay = true;
    }

    /// Gives back those of the rules for which `gives_back` is true, settled or not.
    pub(super) fn give_back(&mut self, gives_back: impl Fn(usize) -> bool) {
        for charge in self.made.iter_mut().rev() {
            if let Some(Charge { of: Of::Here(limits, decision), .. }) =
                charge.take_if(|charge| gives_back(charge.rule))
            {
                limits.engine.refund(decision);
            }
        }
    }

    /// What the response will say of the limits that are enforced.
    pub(super) fn note(&self, styles: Styles) -> Note {
        let shown = self.enforced().flat_map(|of| {
            let here = of.here().map(|(limits, decision)| limits.shown(decision));
            here.into_iter().flatten().chain(of.there())
        });
        let mut limits = self.enforced().filter_map(Of::here).map(|(limits, _)| limits);
        match (limits.next(), limits.next()) {
            (Some(only), None) => Note::of(styles, shown, || only.policy()),
            (first, second) => {
                let all = first.into_iter().chain(second).chain(limits);
                Note::of(styles, shown, || join(all.flat_map(Limits::policies)))
            }
        }
    }

    fn enforced(&self) -> impl Iterator<Item = &Of<'l>> {
        let charges = self.made[..self.len].iter().flatten();
        charges.filter(|charge| !charge.shadow).map(|charge| &charge.of)
    }
}

/// What a backend's limit shows.
pub(super) fn shown(name: &str, reply: Reply) -> Shown<'_> {
    Shown { name, numbers: Numbers { limit: reply.limit, remaining: reply.remaining, reset: reply.wait } }
}

impl Drop for Charges<'_> {
    fn drop(&mut self) {
        if !self.stay {
            self.give_back(|_| true);
        }
    }
}
