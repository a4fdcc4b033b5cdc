//! Header values without an allocation for each.
//!
//! A `HeaderValue` is a slice of shared bytes. Each thread writes its values into two buffers. When
//! one is full, the thread reuses the other from its beginning, if all values in it have been
//! dropped. If not, because a response about a hundred values old is still alive, it allocates a
//! new buffer.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;

/// The size of a buffer: about a hundred values. A value that is kept keeps its whole buffer.
const BUFFER_SIZE: usize = 4_096;

/// The free bytes that a value starts with; a longer value may allocate.
const VALUE_SIZE: usize = 512;

#[derive(Default)]
struct ValueBuffers {
    current: BytesMut,
    other: BytesMut,
}

thread_local! {
    static BUFFERS: RefCell<ValueBuffers> = RefCell::default();
}

impl ValueBuffers {
    /// Returns a buffer that is empty and has room for a value.
    fn with_room(&mut self) -> &mut BytesMut {
        self.current.clear();
        if !has_room(&mut self.current) {
            std::mem::swap(&mut self.current, &mut self.other);
            if !has_room(&mut self.current) {
                self.current = BytesMut::with_capacity(BUFFER_SIZE);
            }
        }
        &mut self.current
    }
}

/// Returns whether the buffer has room without an allocation: at its end, or at its beginning if
/// all values in it have been dropped.
fn has_room(buffer: &mut BytesMut) -> bool {
    buffer.capacity() >= VALUE_SIZE || buffer.try_reclaim(BUFFER_SIZE)
}

/// Returns the bytes that `write` writes. `None` if it writes nothing, or if the thread is ending.
pub(super) fn write_bytes(write: impl FnOnce(&mut BytesMut)) -> Option<Bytes> {
    BUFFERS
        .try_with(|buffers| {
            let mut buffers = buffers.try_borrow_mut().ok()?;
            let buffer = buffers.with_room();
            write(buffer);
            (!buffer.is_empty()).then(|| buffer.split().freeze())
        })
        .ok()
        .flatten()
}

/// Returns the header value that `write` writes. `None` if it writes nothing or an illegal value,
/// or if the thread is ending.
pub(super) fn write_value(write: impl FnOnce(&mut BytesMut)) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(write_bytes(write)?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::ValueText;
    use super::*;

    fn number(number: u64) -> Option<HeaderValue> {
        write_value(|text| ValueText::of_header(text).number(number))
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for value in [0, 1, 9, 10, 999, 1_000, u64::MAX] {
            assert_eq!(number(value).unwrap(), value.to_string());
        }
    }

    #[test]
    fn kept_values_are_never_overwritten() {
        let kept: Vec<_> = (0..5_000).map(|value| (value, number(value).unwrap())).collect();
        assert!(kept.iter().all(|(value, text)| text == &value.to_string()));
    }

    #[test]
    fn values_that_are_dropped_in_time_allocate_nothing() {
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
        assert_eq!(write_value(|text| text.extend_from_slice(b"a\nb")), None);
        assert_eq!(number(7).unwrap(), "7");
    }
}
