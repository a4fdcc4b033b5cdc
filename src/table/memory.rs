//! Zeroed memory: reserved from the operating system at once, committed page by page as it is
//! touched, and returned when dropped. And prefetching.
//!
//! The only module with `unsafe`: an all-zero table is a valid empty one, and no safe constructor
//! makes one of untouched pages; nor is there a safe form of the prefetch. An allocator's zeroed
//! memory would not do: it may be recycled memory that the allocator clears, and so commits, at
//! once.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::NonNull;

use memmap2::{MmapMut, MmapOptions};

use crate::error::BuildError;
use crate::sync::{AtomicU64, Ordering::Relaxed};

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

/// The largest page size that a system uses by default: memory is committed ahead in such pages.
const LARGEST_PAGE: usize = 1 << 16;

/// A slice of zeroes in pages of its own.
#[derive(Debug)]
pub(crate) struct Zeroed<T: Zeroable> {
    /// Keeps the memory. `None` for no values.
    pages: Option<MmapMut>,
    start: NonNull<T>,
    len: usize,
    /// Which of those pages were committed [ahead](Self::commit), a bit each.
    ahead: Box<[AtomicU64]>,
}

// SAFETY: it owns its pages and hands out shared references to `T: Sync + Send` only.
unsafe impl<T: Zeroable> Send for Zeroed<T> {}

// SAFETY: as above.
unsafe impl<T: Zeroable> Sync for Zeroed<T> {}

impl<T: Zeroable> Zeroed<T> {
    /// `len` zeroes.
    pub(crate) fn new(len: usize) -> Result<Self, BuildError> {
        const { assert!(align_of::<T>() <= 4096, "a page's alignment must be enough") };
        let refused = BuildError::OutOfMemory { bytes: len.saturating_mul(size_of::<T>()) };
        if len == 0 {
            return Ok(Self { pages: None, start: NonNull::dangling(), len, ahead: Box::default() });
        }
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
        // Most of it may stay untouched, so no swap is reserved for it.
        let pages = bytes.map(|bytes| MmapOptions::new().len(bytes).no_reserve_swap().map_anon());
        let Some(Ok(mut pages)) = pages else { return Err(refused) };
        let start = NonNull::new(pages.as_mut_ptr().cast()).filter(|start: &NonNull<T>| start.is_aligned());
        let Some(start) = start else { return Err(refused) };
        let ahead = pages.len().div_ceil(LARGEST_PAGE).div_ceil(u64::BITS as usize);
        Ok(Self { pages: Some(pages), start, len, ahead: (0..ahead).map(|_| AtomicU64::new(0)).collect() })
    }
}

impl<T: Zeroable> Zeroed<T> {
    /// Commits the memory of this value, and of those beside it, unless a thread has done so: one
    /// system call instead of up to sixteen page faults. Where the system cannot do it, pages are
    /// committed as they are touched.
    #[inline]
    pub(crate) fn commit(&self, value: usize) {
        let offset = value * size_of::<T>();
        let bit = 1 << (offset / LARGEST_PAGE % u64::BITS as usize);
        let Some(word) = self.ahead.get(offset / LARGEST_PAGE / u64::BITS as usize) else { return };
        // Relaxed: a second thread that finds pages not yet committed commits them by touching
        // them.
        if word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Relaxed) & bit == 0 {
            self.commit_page(offset - offset % LARGEST_PAGE);
        }
    }

    /// Whether this value's memory was committed so.
    #[cfg(test)]
    pub(crate) fn is_committed(&self, value: usize) -> bool {
        let page = value * size_of::<T>() / LARGEST_PAGE;
        self.ahead[page / u64::BITS as usize].load(Relaxed) >> (page % u64::BITS as usize) & 1 == 1
    }

    #[cold]
    fn commit_page(&self, offset: usize) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Some(pages) = &self.pages {
            let len = LARGEST_PAGE.min(pages.len() - offset);
            let _ = pages.advise_range(memmap2::Advice::PopulateWrite, offset, len);
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        let _ = (&self.pages, offset);
    }
}

impl<T: Zeroable> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` mapped `len` values from `start`, aligned, zeroed, and so valid; the pages
        // live as long as `self`, which alone owns them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// Prefetches the cache line at `line`. A hint: it does not wait and changes nothing; on other
/// processors it does nothing.
#[inline]
pub(crate) fn prefetch<T>(line: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line: *const T = line;
        // SAFETY: the instruction takes any address without a fault, and belongs to every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
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
    fn memory_is_committed_once_and_stays_zero() {
        let words = Zeroed::<crate::sync::AtomicU64>::new(65 << 13).unwrap();
        words.commit((3 << 13) + 1);
        words.commit((65 << 13) - 1);
        assert!((0..65).all(|page| words.is_committed(page << 13) == [3, 64].contains(&page)));
        assert!(words[3 << 13..4 << 13].iter().all(|word| word.swap(7, Relaxed) == 0));
        words.commit(3 << 13);
        assert_eq!(words[3 << 13].load(Relaxed), 7);
        // No such value: nothing happens.
        words.commit(1 << 30);
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        let bytes = usize::MAX / 256 * 256;
        let refused = Zeroed::<Bucket>::new(usize::MAX / 256);
        assert_eq!(refused.unwrap_err(), BuildError::OutOfMemory { bytes });
        assert!(matches!(Zeroed::<Bucket>::new(1 << 54), Err(BuildError::OutOfMemory { .. })));
    }

    #[test]
    fn zeroes_are_zero_and_can_be_written() {
        let words = Zeroed::<crate::sync::AtomicU64>::new(1000).unwrap();
        assert!(words.iter().all(|word| word.swap(7, Ordering::Relaxed) == 0));
        assert!(Zeroed::<crate::sync::AtomicU64>::new(0).unwrap().is_empty());
    }
}
