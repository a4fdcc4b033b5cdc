//! The bytes of a key, without an allocation up to a length that few keys exceed.

use std::fmt;

/// Bytes that are kept in place.
const INLINE: usize = 128;

/// The bytes of a key while they are put together.
///
/// **Cost.** Up to 128 bytes are kept in place. A longer key allocates, and is never cut short: two long keys that begin
/// alike stay two.
///
/// # Examples
///
/// ```
/// use tollgate_tower::KeyBuf;
///
/// let mut key = KeyBuf::new();
/// key.push("tenant-");
/// key.push(7_u32.to_be_bytes());
/// assert_eq!(key.as_bytes(), b"tenant-\0\0\0\x07");
/// ```
#[derive(Clone)]
pub struct KeyBuf {
    inline: [u8; INLINE],
    /// Of `inline`, while `long` is empty.
    len: usize,
    /// All of the key, once it is longer.
    long: Vec<u8>,
}

impl KeyBuf {
    /// No bytes, which is no key.
    #[must_use]
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

    /// What was written.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        if self.long.is_empty() { &self.inline[..self.len] } else { &self.long }
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// Forgets what was written.
    pub fn clear(&mut self) {
        self.len = 0;
        self.long.clear();
    }

    /// Appends what `write` writes behind its length, so that what follows cannot be taken for a part of it. `false`
    /// when it writes nothing.
    pub(crate) fn part(&mut self, write: impl FnOnce(&mut Self)) -> bool {
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

/// Says how long the key is and not what it is: keys are often secrets.
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
            key.clear();
            assert!(key.is_empty());
            key.push("again");
            assert_eq!(key.as_bytes(), b"again");
        }
    }
}
