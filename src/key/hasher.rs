//! The secret by which one limiter turns keys into fingerprints.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

use crate::key::Key;

/// A limiter's secret: turns a key into its 64-bit fingerprint.
///
/// It is drawn at random when the limiter is built, and leaves it only in the file of a
/// [save](crate::Limiter::save): a client that knew it could choose keys that share a bucket.
#[derive(Clone)]
pub struct KeyHasher {
    /// Xored in before each round.
    masks: [u64; 3],
    /// Odd, so that multiplying by one can be undone.
    factors: [u64; 3],
    long: Long,
    secret: Box<Secret>,
}

/// What a [`KeyHasher`] is made of.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    pub(crate) trusted: bool,
    pub(crate) words: [u64; 10],
}

#[derive(Clone)]
enum Long {
    /// A keyed pseudo-random function, for keys that clients choose.
    Prf(SipHasher13),
    /// A faster hash, for keys that the caller controls.
    Trusted(ahash::RandomState),
}

/// A fresh secret, for keys that clients choose.
impl Default for KeyHasher {
    fn default() -> Self {
        Self::random(false)
    }
}

impl KeyHasher {
    /// The fingerprint of another key, of the kind `K`: for a key that is made of keys.
    #[must_use]
    #[inline]
    pub fn key<K: ?Sized>(&self, key: impl Key<K>) -> u64 {
        key.fingerprint(self)
    }

    /// A fresh secret.
    pub(crate) fn random(trusted: bool) -> Self {
        // The standard library keys its hasher from the operating system's randomness.
        let source = RandomState::new();
        Self::new(Secret { trusted, words: std::array::from_fn(|word| source.hash_one(word)) })
    }

    /// The hasher of this secret. It makes the same fingerprints as another hasher of the secret if
    /// their [`sample`](Self::sample)s are equal.
    pub(crate) fn new(secret: Secret) -> Self {
        let [mask0, mask1, mask2, factor0, factor1, factor2, seeds @ ..] = secret.words;
        let masks = [mask0, mask1, mask2];
        let factors = [factor0 | 1, factor1 | 1, factor2 | 1];
        let long = if secret.trusted {
            Long::Trusted(ahash::RandomState::with_seeds(seeds[0], seeds[1], seeds[2], seeds[3]))
        } else {
            Long::Prf(SipHasher13::new_with_keys(seeds[0], seeds[1]))
        };
        Self { masks, factors, long, secret: Box::new(secret) }
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The fingerprints of some keys, folded into one word. Another build of the crate may make
    /// other fingerprints of the same secret: ahash depends on its version and on the processor.
    pub(crate) fn sample(&self) -> u64 {
        let bytes: [u8; 200] = std::array::from_fn(|at| at as u8);
        let lengths = [0, 3, 8, 9, 16, 17, 32, 33, 64, 65, 200];
        lengths.iter().fold(0, |all, &len| self.short(all ^ self.bytes(&bytes[..len])))
    }

    /// The fingerprint of a key that fits 64 bits. Two keys never have the same: it takes three
    /// rounds of xor, multiply and byte swap, each of which can be undone.
    #[must_use]
    #[inline]
    pub fn short(&self, key: u64) -> u64 {
        let round = |key: u64, i: usize| (key ^ self.masks[i]).wrapping_mul(self.factors[i]);
        let mixed = round(round(round(key, 0).swap_bytes(), 1).swap_bytes(), 2);
        mixed ^ (mixed >> 32)
    }

    /// The fingerprint of a longer key: SipHash-1-3, or ahash when the limiter's keys are trusted.
    #[must_use]
    #[inline]
    pub fn long(&self, key: &[u8]) -> u64 {
        match &self.long {
            Long::Prf(hasher) => hasher.hash(key),
            Long::Trusted(state) => state.hash_one(key),
        }
    }

    /// The fingerprint of a byte string of any length: by [`short`](Self::short) if it is short,
    /// else by [`long`](Self::long).
    ///
    /// Up to 7 bytes are packed together with their length, which takes the top byte; 8 bytes fill
    /// the word. Of those, the ones whose last byte looks like a length, below 8, are hashed by
    /// `long`: there are more byte strings of up to 8 bytes than 64-bit words. All others never
    /// have the same fingerprint.
    #[must_use]
    #[inline]
    pub fn bytes(&self, key: &[u8]) -> u64 {
        if key.len() > 8 {
            return self.long(key);
        }
        let packed = packed(key);
        if key.len() < 8 {
            return self.short(packed | (key.len() as u64) << 56);
        }
        // Ends in 0 to 7: the word of a shorter key.
        if packed >> 56 < 8 {
            return self.long(key);
        }
        self.short(packed)
    }
}

/// At most 8 bytes, the first of them the lowest.
// Packed in registers: a load of the whole word from memory would wait for the stores of its bytes.
#[inline]
fn packed(key: &[u8]) -> u64 {
    match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            let beyond = 8 * (key.len() as u32 - 4);
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << beyond
        }
        _ => key.iter().rev().fold(0, |packed, &byte| packed << 8 | u64::from(byte)),
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Undoes `short`, which shows that it is a bijection.
    fn long_way_back(hasher: &KeyHasher, fingerprint: u64) -> u64 {
        let inverse =
            |odd: u64| (0..6).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))));
        let undo = |mixed: u64, i: usize| mixed.wrapping_mul(inverse(hasher.factors[i])) ^ hasher.masks[i];
        undo(undo(undo(fingerprint ^ (fingerprint >> 32), 2).swap_bytes(), 1).swap_bytes(), 0)
    }

    #[test]
    fn short_keys_never_collide() {
        let hasher = KeyHasher::random(false);
        for key in (0..10_000).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX]) {
            assert_eq!(long_way_back(&hasher, hasher.short(key)), key);
        }
    }

    #[test]
    fn byte_strings_of_different_lengths_do_not_collide() {
        let hasher = KeyHasher::random(false);
        let keys: Vec<Vec<u8>> =
            (0..=8).map(|len| vec![0; len]).chain((1..=8).map(|len| vec![8; len])).collect();
        let mut fingerprints: Vec<u64> = keys.iter().map(|key| hasher.bytes(key)).collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        assert_eq!(fingerprints.len(), keys.len());
    }

    /// The byte string whose fingerprint this is, if it is one of those that never share.
    fn read_back(hasher: &KeyHasher, fingerprint: u64) -> Vec<u8> {
        let word = long_way_back(hasher, fingerprint).to_le_bytes();
        let len = if word[7] < 8 { word[7].into() } else { 8 };
        word[..len].to_vec()
    }

    #[test]
    fn a_short_byte_string_is_recovered_from_its_fingerprint() {
        let hasher = KeyHasher::random(false);
        for len in 0..=8 {
            for seed in 0..1_000_u64 {
                let mut key = hasher.short(seed).to_le_bytes();
                key[7] |= 8;
                let key = &key[..len];
                assert_eq!(read_back(&hasher, hasher.bytes(key)), key);
            }
        }
    }

    #[test]
    fn eight_bytes_that_end_below_eight_can_share() {
        let hasher = KeyHasher::random(false);
        for last in 0..8 {
            // Of 256 words that a fingerprint can stand for, 248 are 8-byte strings that never
            // share with each other.
            let pair = (0..=u8::MAX).find_map(|first| {
                let one = [first, 0, 0, 0, 0, 0, 0, last];
                let other = read_back(&hasher, hasher.bytes(&one));
                (other.len() == 8).then_some((one, other))
            });
            let (one, other) = pair.expect("one of 256 strings meets another");
            assert_ne!(one[..], other);
            assert_eq!(hasher.bytes(&one), hasher.bytes(&other));
        }
    }

    #[test]
    fn bytes_are_packed_in_memory_order() {
        for len in 0..=8 {
            let mut memory = [0xF1, 2, 0xF3, 4, 0xF5, 6, 0xF7, 0xF8];
            memory[len..].fill(0);
            assert_eq!(packed(&memory[..len]), u64::from_le_bytes(memory), "{len}");
        }
    }

    #[test]
    fn long_keys_that_begin_alike_have_fingerprints_of_their_own() {
        for trusted in [false, true] {
            let hasher = KeyHasher::random(trusted);
            let keys = (8..200).map(|len| hasher.bytes(&vec![b'a'; len]));
            let ends =
                (0..=255).map(|last| hasher.bytes(&[b"a longer key"[..].to_vec(), vec![last]].concat()));
            let mut fingerprints: Vec<u64> = keys.chain(ends).collect();
            let all = fingerprints.len();
            fingerprints.sort_unstable();
            fingerprints.dedup();
            assert_eq!(fingerprints.len(), all);
        }
    }

    #[test]
    fn every_limiter_has_its_own_secret() {
        let (one, other) = (KeyHasher::random(false), KeyHasher::random(false));
        assert_ne!(one.short(1), other.short(1));
        assert_ne!(one.bytes(b"a longer key"), other.bytes(b"a longer key"));
        assert_ne!(
            KeyHasher::random(true).bytes(b"a longer key"),
            KeyHasher::random(true).bytes(b"a longer key")
        );
    }

    #[test]
    fn fingerprints_spread_over_buckets_and_lines() {
        let hasher = KeyHasher::random(false);
        let (mut low, mut high) = ([0_u32; 64], [0_u32; 4]);
        for key in 0..64_000 {
            let fingerprint = hasher.short(key);
            low[(fingerprint & 63) as usize] += 1;
            high[(fingerprint >> 62) as usize] += 1;
        }
        assert!(low.iter().all(|&count| (800..1200).contains(&count)), "{low:?}");
        assert!(high.iter().all(|&count| (15_000..17_000).contains(&count)), "{high:?}");
    }
}
