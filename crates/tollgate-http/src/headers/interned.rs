//! Constant header values, which a response gets without a copy and without a reference counter
//! that all cores share.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use http::HeaderValue;

/// Returns a header value whose text is leaked, once for each distinct text. Use it for configured
/// values, which are few, not for computed ones. `None` if the text is no legal header value.
pub(super) fn interned(text: &str) -> Option<HeaderValue> {
    static LEAKED: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut leaked = LEAKED.lock().unwrap_or_else(PoisonError::into_inner);
    let leaked = leaked.get_or_insert_default();
    let text = leaked.get(text).copied().unwrap_or_else(|| {
        let text: &'static str = String::from(text).leak();
        leaked.insert(text);
        text
    });
    // Checked first, because `from_static` panics on an illegal value.
    HeaderValue::from_str(text).ok().map(|_| HeaderValue::from_static(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_leaked_once_and_its_clones_allocate_nothing() {
        let first = interned("\"once\";q=1").unwrap();
        let second = interned("\"once\";q=1").unwrap();
        assert_eq!(first.as_bytes().as_ptr(), second.as_bytes().as_ptr());
        assert_eq!(allocation_counter::measure(|| drop(second.clone())).count_total, 0);
        assert_eq!(interned("a\nb"), None);
    }
}
