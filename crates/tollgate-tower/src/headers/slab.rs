//! Header values without an allocation each.
//!
//! A `HeaderValue` is a slice of shared bytes. Each thread cuts them from a buffer of its own; when the buffer is used
//! up and nobody holds a slice of it any more, it is used from its beginning again. Only when a response of the last
//! sixty or so is still alive then, a new buffer is allocated.

use std::cell::RefCell;

use bytes::BytesMut;
use http::HeaderValue;

/// Bytes of a thread's buffer: about sixty values. A value that somebody keeps keeps all of it.
const BUFFER: usize = 2_048;

thread_local! {
    static SLAB: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(BUFFER));
}

/// The header value that `write` writes. `None` when it is no legal value, or the thread is about to end.
pub(crate) fn cut(write: impl FnOnce(&mut BytesMut)) -> Option<HeaderValue> {
    SLAB.try_with(|slab| {
        let mut slab = slab.try_borrow_mut().ok()?;
        slab.clear();
        write(&mut slab);
        HeaderValue::from_maybe_shared(slab.split().freeze()).ok()
    })
    .ok()
    .flatten()
}

/// A number as a header value.
pub(super) fn number(number: u64) -> Option<HeaderValue> {
    cut(|slab| digits(number, |text| slab.extend_from_slice(text)))
}

/// The decimal digits of a number.
pub(crate) fn digits(mut number: u64, write: impl FnOnce(&[u8])) {
    let mut text = [b'0'; 20];
    let mut begin = text.len();
    loop {
        begin -= 1;
        text[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return write(&text[begin..]);
        }
    }
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
        drop(number(1));
        let counted = allocation_counter::measure(|| (0..10_000).for_each(|value| drop(number(value))));
        assert_eq!(counted.count_total, 0);
    }

    #[test]
    fn an_illegal_value_is_none_and_leaves_no_trace() {
        assert_eq!(cut(|slab| slab.extend_from_slice(b"a\nb")), None);
        assert_eq!(number(7).unwrap(), "7");
    }
}
