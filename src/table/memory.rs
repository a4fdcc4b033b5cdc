//! Zeroed memory, reserved once and committed by the operating system page by page as it is touched; and the hint
//! that a line of it is about to be.
//!
//! The one module with `unsafe`: an all-zero table is a valid empty one, and `calloc` hands out
//! zero pages without writing them, which no safe constructor does; nor is there a safe form of the hint.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Deref;
use std::ptr::NonNull;

use crate::error::Error;

/// Types of which all-zero bytes are a valid value.
///
/// # Safety
///
/// The implementor must be valid when all its bytes are zero, and must not need dropping.
pub(crate) unsafe trait Zeroable: Sync + Send {}

// SAFETY: an atomic integer is valid in any bit pattern and owns nothing.
unsafe impl Zeroable for crate::sync::AtomicU64 {}

// SAFETY: a bucket is made of atomic integers only.
unsafe impl Zeroable for crate::table::bucket::Bucket {}

/// A boxed slice of zeroes.
///
/// `alloc_zeroed` writes the zeroes itself when asked for more than the alignment that `calloc` keeps, which would
/// commit every page. So this asks for `calloc`'s alignment and finds the aligned start itself.
#[derive(Debug)]
pub(crate) struct Zeroed<T: Zeroable> {
    base: NonNull<u8>,
    layout: Layout,
    start: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its memory and hands out shared references to `T: Sync + Send` only.
unsafe impl<T: Zeroable> Send for Zeroed<T> {}

// SAFETY: as above.
unsafe impl<T: Zeroable> Sync for Zeroed<T> {}

impl<T: Zeroable> Zeroed<T> {
    /// `len` zeroes.
    pub(crate) fn new(len: usize) -> Result<Self, Error> {
        let refused = Error::OutOfMemory { bytes: len.saturating_mul(size_of::<T>()) };
        if len == 0 {
            let (base, start) = (NonNull::dangling(), NonNull::dangling());
            return Ok(Self { base, layout: Layout::new::<()>(), start, len });
        }
        let bytes = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(align_of::<T>()));
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, align_of::<u64>()).ok());
        let Some(layout) = layout else { return Err(refused) };
        // SAFETY: the layout's size is not zero, since `len` and `T` are not.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { return Err(refused) };
        // SAFETY: at most `align_of::<T>()` bytes beyond `base`, which the layout has room for.
        let start = unsafe { base.add(base.align_offset(align_of::<T>())) };
        Ok(Self { base, layout, start: start.cast(), len })
    }
}

impl<T: Zeroable> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` reserved `len` values from `start`, aligned, zeroed, and so valid; they live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> Drop for Zeroed<T> {
    fn drop(&mut self) {
        if self.len != 0 {
            // SAFETY: `base` came from `alloc_zeroed` with this layout, and nothing in it needs dropping.
            unsafe { dealloc(self.base.as_ptr(), self.layout) };
        }
    }
}

/// Asks the processor for the cache line where `place` begins, to read it soon. A hint: it waits for nothing and changes
/// nothing, and where it is not known how to give it, it is not given.
#[inline]
pub(crate) fn prefetch<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place: *const T = place;
        // SAFETY: the instruction takes any address without a fault, and belongs to every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;
    use crate::table::bucket::Bucket;

    #[test]
    fn buckets_start_on_their_own_cache_lines() {
        let buckets = Zeroed::<Bucket>::new(3).unwrap();
        assert_eq!(buckets.len(), 3);
        assert!(buckets.iter().all(|bucket| std::ptr::from_ref(bucket).addr() % 256 == 0));
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        let bytes = usize::MAX / 256 * 256;
        let refused = Zeroed::<Bucket>::new(usize::MAX / 256);
        assert_eq!(refused.unwrap_err(), Error::OutOfMemory { bytes });
        assert!(matches!(Zeroed::<Bucket>::new(1 << 54), Err(Error::OutOfMemory { .. })));
    }

    #[test]
    fn zeroes_are_zero_and_can_be_written() {
        let words = Zeroed::<crate::sync::AtomicU64>::new(1000).unwrap();
        assert!(words.iter().all(|word| word.swap(7, Ordering::Relaxed) == 0));
        assert!(Zeroed::<crate::sync::AtomicU64>::new(0).unwrap().is_empty());
    }
}
