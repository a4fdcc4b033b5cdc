//! Header values without an allocation each.
//!
//! A `HeaderValue` is a slice of shared bytes. Each thread cuts them from one of two buffers of its own. When that is used
//! up it goes on in the other one, from its beginning, if nobody holds a slice of it any more. Only when a response of
//! a hundred before is still alive then, a new buffer is allocated.

use std::cell::RefCell;

use bytes::BytesMut;
use http::HeaderValue;

/// Bytes of a buffer: about a hundred values. A value that somebody keeps keeps all of it.
const BUFFER: usize = 4_096;

/// What is free before a value is begun; a longer one may allocate.
const ROOM: usize = 512;

#[derive(Default)]
struct Slab {
    current: BytesMut,
    other: BytesMut,
}

thread_local! {
    static SLAB: RefCell<Slab> = RefCell::default();
}

impl Slab {
    /// The current buffer, empty and with room.
    fn with_room(&mut self) -> &mut BytesMut {
        self.current.clear();
        if !has_room(&mut self.current) {
            std::mem::swap(&mut self.current, &mut self.other);
            if !has_room(&mut self.current) {
                self.current = BytesMut::with_capacity(BUFFER);
            }
        }
        &mut self.current
    }
}

/// Whether there is room without an allocation: at the end, or at the beginning when nobody holds a slice.
fn has_room(buffer: &mut BytesMut) -> bool {
    buffer.capacity() >= ROOM || buffer.try_reclaim(BUFFER)
}

/// The header value that `write` writes. `None` when that is nothing or no legal value, or the thread is about to end.
pub(super) fn cut(write: impl FnOnce(&mut BytesMut)) -> Option<HeaderValue> {
    SLAB.try_with(|slab| {
        let mut slab = slab.try_borrow_mut().ok()?;
        let buffer = slab.with_room();
        write(buffer);
        if buffer.is_empty() {
            return None;
        }
        HeaderValue::from_maybe_shared(buffer.split().freeze()).ok()
    })
    .ok()
    .flatten()
}

/// A number as a header value.
pub(super) fn number(number: u64) -> Option<HeaderValue> {
    cut(|text| text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        for value in [0, 1, 9, 10, 999, 1_000, u64::MAX] {
            assert_eq!(number(value).unwrap(), value.to_string());
        }
    }

    #[test]
    fn values_that_are_kept_are_never_overwritten() {
        let kept: Vec<_> = (0..5_000).map(|value| (value, number(value).unwrap())).collect();
        assert!(kept.iter().all(|(value, text)| text == &value.to_string()));
    }

    #[test]
    fn values_that_are_dropped_in_time_cost_no_allocation() {
        let mut alive = std::collections::VecDeque::from_iter((0..50).map(number));
        let mut next = |value| {
            alive.push_back(number(value));
            alive.pop_front()
        };
        (0..10_000).for_each(|value| drop(next(value)));
        let counted = allocation_counter::measure(|| (0..10_000).for_each(|value| drop(next(value))));
        assert_eq!(counted.count_total, 0);
    }

    #[test]
    fn an_illegal_value_is_none_and_leaves_no_trace() {
        assert_eq!(cut(|slab| slab.extend_from_slice(b"a\nb")), None);
        assert_eq!(number(7).unwrap(), "7");
    }
}
