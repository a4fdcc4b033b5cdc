//! Header values that never change, so that a response takes one without a copy and without a counter that all cores
//! share.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use http::HeaderValue;

/// The header value of this text, which stays in memory for as long as the process does: for what is configured, of
/// which there are few, and not for what is computed. The same text stays once.
pub(crate) fn interned(text: &str) -> Option<HeaderValue> {
    static KNOWN: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let text = known.get(text).copied().unwrap_or_else(|| {
        let text: &'static str = String::from(text).leak();
        known.insert(text);
        text
    });
    // `from_static` panics on what is no legal value.
    HeaderValue::from_str(text).ok().map(|_| HeaderValue::from_static(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_once_and_costs_no_allocation_again() {
        let first = interned("\"once\";q=1").unwrap();
        let second = interned("\"once\";q=1").unwrap();
        assert_eq!(first.as_bytes().as_ptr(), second.as_bytes().as_ptr());
        assert_eq!(allocation_counter::measure(|| drop(second.clone())).count_total, 0);
        assert_eq!(interned("a\nb"), None);
    }
}
