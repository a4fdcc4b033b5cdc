//! The names under which the store keeps the state of a key.
//!
//! ```text
//!   tg1:{k:alice}:login:b
//!   '+'  '-----'  '---' '- the kind of the quota, and the width of a window or log
//!    |      |       '----- the limit, and its number if it is one of several
//!    |      '------------- the tag: a cluster keeps all names with the same tag in one slot
//!    '-------------------- the prefix
//! ```
//!
//! The tag of a short key of harmless characters is the key. The tag of any other key is `#` and
//! half of its SHA-256 in hexadecimal digits. No key has the tag of another one: `#` is not among
//! the harmless characters. The `k:` stands inside of the braces because `{}` is not a hash tag,
//! so the empty key's limits could lie in different slots.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The longest key that is its own tag.
const LONGEST_TAG: usize = 80;

/// Appends the tag of `key` to `out`.
fn push_tag(out: &mut String, key: &[u8]) {
    let is_harmless = |&byte: &u8| byte.is_ascii_alphanumeric() || b"._:@/-".contains(&byte);
    match std::str::from_utf8(key) {
        Ok(text) if key.len() <= LONGEST_TAG && key.iter().all(is_harmless) => out.push_str(text),
        _ => {
            out.push('#');
            push_hash(out, key);
        }
    }
}

/// Appends half of the SHA-256 of some bytes, in hexadecimal digits.
pub(crate) fn push_hash(out: &mut String, bytes: &[u8]) {
    for byte in &Sha256::digest(bytes)[..16] {
        write!(out, "{byte:02x}").expect("a string grows");
    }
}

/// The tag of `key`.
pub(crate) fn tag(key: &[u8]) -> String {
    let mut tag = String::new();
    push_tag(&mut tag, key);
    tag
}

/// The name of `key` in the limit with this suffix, such as `login:b`.
pub(crate) fn of_key(prefix: &str, key: &[u8], suffix: &str) -> String {
    let mut name = String::with_capacity(prefix.len() + key.len().min(LONGEST_TAG) + suffix.len() + 40);
    name.push_str(prefix);
    name.push_str(":{k:");
    push_tag(&mut name, key);
    name.push_str("}:");
    name.push_str(suffix);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_harmless_key_is_its_own_tag() {
        assert_eq!(of_key("tg1", b"alice", "login:b"), "tg1:{k:alice}:login:b");
        assert_eq!(of_key("tg1", b"", "login:b"), "tg1:{k:}:login:b");
        let longest = [b'a'; LONGEST_TAG];
        assert_eq!(tag(&longest).as_bytes(), longest);
    }

    #[test]
    fn any_other_key_is_hashed() {
        // From `printf 'a b' | sha256sum`.
        assert_eq!(tag(b"a b"), "#c8687a08aa5d6ed2044328fa6a697ab8");
        let odd: [&[u8]; 8] =
            [b"}", b"{", b"a\0b", b"\xff", b"\r\n", b"#c8687a08", "\u{e9}".as_bytes(), &[b'a'; 81]];
        for key in odd {
            let tag = tag(key);
            assert!(tag.len() == 33 && tag.starts_with('#'), "{tag}");
            assert!(tag[1..].bytes().all(|byte| byte.is_ascii_hexdigit()));
        }
    }
}
