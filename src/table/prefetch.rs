//! Asks the processor for a cache line before it is needed.
#![allow(unsafe_code)]

/// Begins to load the line at `place`, if this processor can; never faults.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint: it reads nothing that the program can see and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = place;
}
