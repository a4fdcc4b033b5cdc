//! The secret by which one limiter names its keys.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// A limiter's secret: turns a key into its 64-bit name.
///
/// Drawn at random when the limiter is built, and shown to nobody but the file of a [save](crate::Limiter::save):
/// whoever knew it could choose keys that share a bucket.
#[derive(Clone)]
pub struct KeyHasher {
    /// Xored in before each round.
    masks: [u64; 3],
    /// Odd, so that multiplying by one can be undone.
    factors: [u64; 3],
    long: Long,
    secret: Box<Secret>,
}

/// What an identity is made of.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    pub(crate) trusted: bool,
    pub(crate) words: [u64; 10],
}

#[derive(Clone)]
enum Long {
    /// A keyed pseudo-random function, for keys that strangers choose.
    Prf(SipHasher13),
    /// A faster hash, for keys that the caller controls.
    Trusted(ahash::RandomState),
}

impl KeyHasher {
    /// A fresh secret.
    pub(crate) fn random(trusted: bool) -> Self {
        // The standard library's hasher is keyed from the operating system's randomness; each use draws another word.
        let source = RandomState::new();
        Self::new(Secret { trusted, words: std::array::from_fn(|word| source.hash_one(word)) })
    }

    /// The identity made of this secret: the same names, as long as [`fingerprint`](Self::fingerprint) is the same.
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

    /// Tells whether another build of the crate makes other names of the same secret: ahash is free to, by its version
    /// and by what the processor offers.
    pub(crate) fn fingerprint(&self) -> u64 {
        let sample: [u8; 200] = std::array::from_fn(|at| at as u8);
        let names = [0, 3, 8, 9, 16, 17, 32, 33, 64, 65, 200].map(|len| self.bytes(&sample[..len]));
        names.iter().fold(0, |all, name| self.short(all ^ name))
    }

    /// The name of a key that fits 64 bits. Different keys get different names, always: three rounds of xor, multiply
    /// and byte swap, each of which can be undone.
    #[must_use]
    #[inline]
    pub fn short(&self, key: u64) -> u64 {
        let round = |key: u64, i: usize| (key ^ self.masks[i]).wrapping_mul(self.factors[i]);
        let mixed = round(round(round(key, 0).swap_bytes(), 1).swap_bytes(), 2);
        mixed ^ (mixed >> 32)
    }

    /// The name of a longer key: SipHash-1-3, or ahash when the limiter's keys are trusted.
    #[must_use]
    #[inline]
    pub fn long(&self, key: &[u8]) -> u64 {
        match &self.long {
            Long::Prf(hasher) => hasher.hash(key),
            Long::Trusted(state) => state.hash_one(key),
        }
    }

    /// The name of a key that is a string of bytes of any length: [`short`](Self::short) up to 8 bytes, else
    /// [`long`](Self::long).
    ///
    /// Up to 7 bytes are packed with their length, 8 bytes as they are. The two could only meet in an 8-byte key that
    /// ends in a control character below 8: that one goes the long way.
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
        if packed >> 56 < 8 {
            return self.long(key);
        }
        self.short(packed)
    }
}

/// At most 8 bytes, the first of them the lowest.
// In registers: bytes that are put together in memory are waited for when they are read as one word.
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
    fn long_way_back(identity: &KeyHasher, name: u64) -> u64 {
        let inverse =
            |odd: u64| (0..6).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))));
        let undo =
            |mixed: u64, i: usize| mixed.wrapping_mul(inverse(identity.factors[i])) ^ identity.masks[i];
        undo(undo(undo(name ^ (name >> 32), 2).swap_bytes(), 1).swap_bytes(), 0)
    }

    #[test]
    fn short_keys_never_collide() {
        let identity = KeyHasher::random(false);
        for key in (0..10_000).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX]) {
            assert_eq!(long_way_back(&identity, identity.short(key)), key);
        }
    }

    #[test]
    fn byte_strings_of_different_lengths_do_not_collide() {
        let identity = KeyHasher::random(false);
        let keys: Vec<Vec<u8>> =
            (0..=8).map(|len| vec![0; len]).chain((1..=8).map(|len| vec![8; len])).collect();
        let mut names: Vec<u64> = keys.iter().map(|key| identity.bytes(key)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), keys.len());
    }

    #[test]
    fn bytes_are_packed_as_they_lie_in_memory_whatever_their_number() {
        for len in 0..=8 {
            let mut memory = [0xF1, 2, 0xF3, 4, 0xF5, 6, 0xF7, 0xF8];
            memory[len..].fill(0);
            assert_eq!(packed(&memory[..len]), u64::from_le_bytes(memory), "{len}");
        }
    }

    #[test]
    fn long_keys_that_begin_alike_have_names_of_their_own() {
        for trusted in [false, true] {
            let identity = KeyHasher::random(trusted);
            let keys = (8..200).map(|len| identity.bytes(&vec![b'a'; len]));
            let ends =
                (0..=255).map(|last| identity.bytes(&[b"a longer key"[..].to_vec(), vec![last]].concat()));
            let mut names: Vec<u64> = keys.chain(ends).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all);
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
    fn names_spread_over_buckets_and_lines() {
        let identity = KeyHasher::random(false);
        let (mut low, mut high) = ([0_u32; 64], [0_u32; 4]);
        for key in 0..64_000 {
            let name = identity.short(key);
            low[(name & 63) as usize] += 1;
            high[(name >> 62) as usize] += 1;
        }
        assert!(low.iter().all(|&count| (800..1200).contains(&count)), "{low:?}");
        assert!(high.iter().all(|&count| (15_000..17_000).contains(&count)), "{high:?}");
    }
}
