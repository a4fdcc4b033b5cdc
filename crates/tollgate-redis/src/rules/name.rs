//! The name of a rule's limits in its store.
//!
//! ```text
//!   per-client             the rule's own limits
//!   per-client_tpaid       those of its tier `paid`
//!   a__b_sc_cd             of the rule `a_b/c:d`: `_` is written `__`, `/` is `_s`, `:` is `_c`
//!   _h0123456789abcdef...  of a name that would be too long: its hash
//! ```
//!
//! Each `_` begins a sign of two characters, so different rules and tiers have different names.

use crate::name::push_hash;

/// The longest name of a limiter.
const LONGEST: usize = 64;

/// The name of the limits of a rule, or of its tier.
pub(crate) fn of(rule: &str, tier: Option<&str>) -> String {
    let mut name = String::new();
    push(&mut name, rule);
    if let Some(tier) = tier {
        name.push_str("_t");
        push(&mut name, tier);
    }
    if name.len() <= LONGEST {
        return name;
    }
    let mut hashed = "_h".to_owned();
    push_hash(&mut hashed, name.as_bytes());
    hashed
}

fn push(name: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '_' => name.push_str("__"),
            '/' => name.push_str("_s"),
            ':' => name.push_str("_c"),
            c => name.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn different_rules_and_tiers_never_share_a_name() {
        let parts = ["a", "a_", "a_t", "_", "__", "t", "ta", "_ta", "a/b", "a:b", "a_sb", "a_cb", "a.b", "h"];
        let mut names = HashSet::new();
        for rule in parts {
            assert!(names.insert(of(rule, None)), "{rule}");
            for tier in parts {
                assert!(names.insert(of(rule, Some(tier))), "{rule} {tier}");
            }
        }
        let long = "x".repeat(64);
        assert_ne!(of(&long, Some("a")), of(&long, Some("b")));
        assert!(names.iter().all(|name| name.len() <= 64));
        assert_eq!((of(&long, None).len(), of(&long, Some("a")).len()), (64, 34));
    }
}
