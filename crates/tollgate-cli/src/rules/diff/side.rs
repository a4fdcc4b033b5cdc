//! What one file decides of a batch of requests.

use std::ops::Range;

use crate::by_rules::{Judge, Requests};

/// What one file decides of a batch of requests.
#[derive(Default)]
pub(super) struct Side {
    /// Of each request, where its refusals end. It is admitted without any.
    ends: Vec<usize>,
    refusals: Vec<Refusal>,
    keys: Vec<u8>,
}

struct Refusal {
    rule: usize,
    /// Where the key ends; it begins where the one before ends.
    key_end: usize,
}

/// The decision of one file.
#[derive(Clone, Copy)]
pub(super) struct Decided<'s> {
    side: &'s Side,
    request: usize,
}

impl Side {
    pub(super) fn of(judge: &mut Judge, requests: &Requests) -> Self {
        let mut side = Self { ends: Vec::with_capacity(requests.len()), ..Self::default() };
        for logged in requests.iter() {
            judge.decide(&logged, |judgement| {
                if !judgement.is_admitted() {
                    for refusing in judgement.refusing() {
                        side.keys.extend_from_slice(refusing.key);
                        side.refusals.push(Refusal { rule: refusing.rule, key_end: side.keys.len() });
                    }
                }
                side.ends.push(side.refusals.len());
            });
        }
        side
    }

    /// The decisions, in the order of the requests.
    pub(super) fn decisions(&self) -> impl Iterator<Item = Decided<'_>> {
        (0..self.ends.len()).map(|request| Decided { side: self, request })
    }
}

impl<'s> Decided<'s> {
    pub(super) fn is_admitted(self) -> bool {
        self.refusals().is_empty()
    }

    /// The rules that refuse the request, by their indices in the file, with the keys.
    pub(super) fn refusing(self) -> impl Iterator<Item = (usize, &'s [u8])> {
        let side = self.side;
        self.refusals().map(move |at| {
            let begin = at.checked_sub(1).map_or(0, |before| side.refusals[before].key_end);
            let Refusal { rule, key_end } = side.refusals[at];
            (rule, &side.keys[begin..key_end])
        })
    }

    fn refusals(self) -> Range<usize> {
        let ends = &self.side.ends;
        self.request.checked_sub(1).map_or(0, |before| ends[before])..ends[self.request]
    }
}
