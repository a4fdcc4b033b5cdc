//! A buffer for the bytes of a key. Keys of usual length need no allocation.

use std::fmt;

use tollgate::spelling::{Spelled, Spelling};

/// The bytes that need no allocation.
const INLINE: usize = 128;

/// A buffer for the bytes of a key.
///
/// **Cost.** Up to 128 bytes are stored inline. A longer key allocates. It is not truncated, so
/// long keys with the same beginning stay distinct.
///
/// # Examples
///
/// ```
/// use tollgate_http::KeyBuf;
///
/// let mut key = KeyBuf::new();
/// key.push("tenant-");
/// key.push(7_u32.to_be_bytes());
/// assert_eq!(key.as_bytes(), b"tenant-\0\0\0\x07");
/// ```
#[derive(Clone)]
pub struct KeyBuf {
    inline: [u8; INLINE],
    /// The length of the key in `inline`, while `long` is empty.
    len: usize,
    /// The whole key, once it is longer than `inline`.
    long: Vec<u8>,
}

impl KeyBuf {
    /// Makes an empty buffer, which means "no key".
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self { inline: [0; INLINE], len: 0, long: Vec::new() }
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        match self.inline.get_mut(self.len..self.len + bytes.len()) {
            Some(free) if self.long.is_empty() => {
                free.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            _ => self.push_long(bytes),
        }
    }

    #[cold]
    fn push_long(&mut self, bytes: &[u8]) {
        if self.long.is_empty() {
            self.long.reserve(self.len + bytes.len());
            self.long.extend_from_slice(&self.inline[..self.len]);
        }
        self.long.extend_from_slice(bytes);
    }

    /// Returns the bytes written so far.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        if self.long.is_empty() { &self.inline[..self.len] } else { &self.long }
    }

    /// Returns whether no bytes were written.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// Removes all bytes.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
        self.long.clear();
    }

    /// Removes all bytes after the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        if self.long.is_empty() || len == 0 {
            self.len = len.min(self.len);
        }
        self.long.truncate(len);
    }

    /// Respells the value that begins here and ends with the buffer.
    pub(super) fn respell(&mut self, begin: usize, spelling: Spelling) {
        let bytes = if self.long.is_empty() { &mut self.inline[..self.len] } else { &mut self.long[..] };
        let Spelled { len, padding } = spelling(&mut bytes[begin..]);
        self.truncate(begin + len);
        self.push(padding);
    }

    /// Inserts a byte.
    #[cold]
    pub(super) fn insert(&mut self, at: usize, byte: u8) {
        self.push([byte]);
        let bytes = if self.long.is_empty() { &mut self.inline[..self.len] } else { &mut self.long[..] };
        bytes[at..].rotate_right(1);
    }

    /// Appends the length of the bytes that `write` writes, then the bytes. The length keeps them
    /// apart from the bytes that follow. Returns whether `write` wrote any.
    pub(super) fn push_part(&mut self, write: impl FnOnce(&mut Self)) -> bool {
        let mut part = Self::new();
        write(&mut part);
        self.push((part.as_bytes().len() as u64).to_le_bytes());
        self.push(part.as_bytes());
        !part.is_empty()
    }
}

impl Default for KeyBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl AsRef<[u8]> for KeyBuf {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Shows the length only: keys are often secrets.
impl fmt::Debug for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBuf({} bytes)", self.as_bytes().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_length_keeps_every_byte() {
        for step in [1, 7, INLINE - 1, INLINE, INLINE + 1, 1_000] {
            let (mut key, mut all) = (KeyBuf::new(), Vec::new());
            for part in 0..5_u8 {
                let bytes = vec![part; step];
                key.push(&bytes);
                all.extend(bytes);
                assert_eq!(key.as_bytes(), all);
            }
            all.insert(3, 9);
            key.insert(3, 9);
            assert_eq!(key.as_bytes(), all);
            key.truncate(2);
            key.push([7]);
            assert_eq!(key.as_bytes(), [all[0], all[1], 7]);
            key.truncate(0);
            assert!(key.is_empty());
            key.push("again");
            assert_eq!(key.as_bytes(), b"again");
            key.clear();
            assert!(key.is_empty());
            key.push("again");
            assert_eq!(key.as_bytes(), b"again");
        }
    }
}
