//! The limits of one response in a shared buffer, until they become text.

use std::time::Duration;

use bytes::BytesMut;

use super::LimitState;

/// The name of a limit, and its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'i> {
    pub(crate) name: &'i [u8],
    pub(crate) state: LimitState,
}

impl Item<'_> {
    /// Returns whether it is known when more of the limit is available.
    pub(super) fn has_reset(&self) -> bool {
        self.state.reset < Duration::MAX
    }
}

/// The limits that [`encode`] has written, in the same order.
#[derive(Clone, Debug)]
pub(super) struct Items<'i>(&'i [u8]);

/// The bytes of four numbers: limit, remaining, nanoseconds of the reset, length of the name. The
/// name follows them.
const HEAD: usize = 32;

/// The nanoseconds of a reset that is not known.
const UNKNOWN: u64 = u64::MAX;

/// Appends a limit. A reset of more than 584 years counts as not known.
#[inline]
pub(super) fn encode(bytes: &mut BytesMut, name: &str, state: LimitState) {
    let reset = u64::try_from(state.reset.as_nanos()).unwrap_or(UNKNOWN);
    let mut head = [0; HEAD];
    for (to, number) in head.chunks_exact_mut(8).zip([state.limit, state.remaining, reset, name.len() as u64])
    {
        to.copy_from_slice(&number.to_ne_bytes());
    }
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(name.as_bytes());
}

impl<'i> Items<'i> {
    pub(super) fn new(encoded: &'i [u8]) -> Self {
        Self(encoded)
    }
}

impl<'i> Iterator for Items<'i> {
    type Item = Item<'i>;

    #[inline]
    fn next(&mut self) -> Option<Item<'i>> {
        let (head, rest) = self.0.split_first_chunk::<HEAD>()?;
        let number = |index: usize| {
            let bytes = head[index * 8..].first_chunk().copied().unwrap_or_default();
            u64::from_ne_bytes(bytes)
        };
        let (name, rest) = rest.split_at_checked(number(3) as usize)?;
        self.0 = rest;
        let (limit, remaining) = (number(0), number(1));
        let reset = if number(2) == UNKNOWN { Duration::MAX } else { Duration::from_nanos(number(2)) };
        Some(Item { name, state: LimitState { limit, remaining, reset } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_items_are_those_that_were_encoded() {
        let long = "n".repeat(1_000);
        let reset = Duration::from_nanos(u64::MAX - 1);
        let most = LimitState { limit: u64::MAX, remaining: u64::MAX, reset };
        let unknown = LimitState { reset: Duration::MAX, ..most };
        let none = LimitState { limit: 0, remaining: 0, reset: Duration::ZERO };
        let mut bytes = BytesMut::new();
        let items = [("api/s", none), ("", most), (&*long, none), ("uploads", unknown)];
        items.iter().for_each(|(name, state)| encode(&mut bytes, name, *state));
        let decoded: Vec<_> = Items::new(&bytes).map(|item| (item.name, item.state)).collect();
        assert_eq!(decoded, items.map(|(name, state)| (name.as_bytes(), state)));
    }
}
