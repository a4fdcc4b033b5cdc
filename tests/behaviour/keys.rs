//! Which keys share a limit, and which never do.

use std::borrow::Cow;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

use tollgate::{BuildError, ClientIp, Ipv6Prefix, Key, Limiter, ManualClock, Rate, TokenBucket};

/// One request a key.
fn limiter<K: Key + ?Sized>() -> Limiter<K, TokenBucket, 1, ManualClock> {
    let bucket = TokenBucket::new(Rate::per_hour(1));
    Limiter::builder(bucket).per().clock(ManualClock::new()).max_keys(1 << 18).build().unwrap()
}

/// Asserts that no key uses up the limit of another.
fn assert_apart<K: Key + Debug>(keys: impl IntoIterator<Item = K>) {
    let limiter = limiter();
    for key in keys {
        assert!(limiter.check(&key).is_allowed(), "{key:?} shares a limit with an earlier key");
        assert!(!limiter.check(&key).is_allowed(), "{key:?} has no limit");
    }
}

/// With an observer and a clock, and without.
#[test]
fn a_builder_is_sent_to_where_it_is_built() {
    let builder = Limiter::builder(TokenBucket::new(Rate::per_hour(1))).per::<str>();
    let builder = builder.clock(ManualClock::new()).on_decision(|decision| assert_eq!(decision.cost(), 1));
    let limiter = std::thread::spawn(|| builder.build().unwrap()).join().unwrap();
    let default = Limiter::builder(TokenBucket::new(Rate::per_hour(1)));
    let other = std::thread::spawn(|| default.build().unwrap()).join().unwrap();
    assert!(limiter.check("alice").is_allowed() && other.check(()).is_allowed());
}

#[test]
fn byte_strings_of_at_most_seven_bytes_share_no_limit() {
    let one = (0..=u8::MAX).map(|byte| vec![byte]);
    let two = (0..=u16::MAX).map(|bytes| bytes.to_le_bytes().to_vec());
    assert_apart([vec![]].into_iter().chain(one).chain(two));
    // Each is the beginning of the next, and its end.
    let zeros = (0..=7).map(|len| vec![0; len]);
    let lengths = (1..=7_u8).flat_map(|len| (1..8).map(move |byte| vec![byte; len.into()]));
    assert_apart(zeros.chain(lengths));
}

#[test]
fn eight_bytes_never_share_the_limit_of_fewer() {
    let padded = (0..8_u8).flat_map(|last| {
        let eight = vec![b'a', b'b', b'c', 0, 0, 0, 0, last];
        let fewer = eight[..last.into()].to_vec();
        [eight, fewer]
    });
    assert_apart(padded);
    assert_apart((8..=u8::MAX).map(|last| [b'a', b'b', b'c', 0, 0, 0, 0, last].to_vec()));
}

#[test]
fn the_parts_of_a_tuple_keep_their_borders() {
    let texts = |texts: (&str, &str)| (texts.0.to_owned(), texts.1.to_owned());
    let three = |(one, two, three): (&str, &str, &str)| (one.to_owned(), two.to_owned(), three.to_owned());
    assert_apart([("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("c", "ab")].map(texts));
    assert_apart([("ab", "c", ""), ("a", "bc", ""), ("", "ab", "c"), ("a", "b", "c")].map(three));
    assert_apart([(1_u64, 2_u64, 3_u64, 4_u64), (4, 3, 2, 1), (2, 1, 3, 4), (1, 2, 4, 3), (1, 2, 3, 3)]);
    assert_apart((0..20_u32).flat_map(|one| (0..20_u8).map(move |other| (one, other))));
    let nested = |((one, two), three): ((&str, &str), &str)| (texts((one, two)), three.to_owned());
    assert_apart([(("a", "b"), "c"), (("a", ""), "bc"), (("", "a"), "bc")].map(nested));
}

#[test]
fn an_address_of_one_kind_is_none_of_the_other() {
    let four = Ipv4Addr::new(1, 2, 3, 4);
    let six = [four.to_ipv6_mapped(), Ipv6Addr::from_bits(four.to_bits().into()), Ipv6Addr::UNSPECIFIED];
    assert_apart(six.map(IpAddr::from).into_iter().chain([four.into(), Ipv4Addr::UNSPECIFIED.into()]));
    assert_apart([0, 1, 1 << 64, 1 << 127].map(|bits| IpAddr::from(Ipv6Addr::from_bits(bits))));
    assert_apart([0, 1 << 64, 1 << 127].map(|bits| Ipv6Prefix::from(Ipv6Addr::from_bits(bits))));
}

#[test]
fn integers_of_128_bits_differ_in_every_bit() {
    assert_apart((0..128).map(|bit| 1_u128 << bit));
    assert_apart([0, 1, -1, i128::MIN, i128::MAX, 1 << 64, -1 << 64]);
}

/// Asserts that a key has the same limit as `held`, by which it is held.
#[track_caller]
fn assert_same<K: Key + ?Sized>(key: &K, held: &dyn Key<K>) {
    /// One type for both keys, so the same limiter can take them.
    struct Either<'k, K: ?Sized>(Result<&'k K, &'k dyn Key<K>>);
    impl<K: Key + ?Sized> Key for Either<'_, K> {
        fn fingerprint(&self, hasher: &tollgate::KeyHasher) -> u64 {
            self.0.map_or_else(|held| held.fingerprint(hasher), |key| key.fingerprint(hasher))
        }
    }
    let limiter = limiter();
    assert!(limiter.check(Either(Ok(key))).is_allowed());
    assert!(!limiter.check(Either(Err(held))).is_allowed(), "it is another key");
}

#[test]
fn a_key_is_the_same_however_it_is_held() {
    for text in ["", "alice", "a name of more than eight bytes"] {
        assert_same(text, &text);
        assert_same(text, &text.to_owned());
        assert_same(text, &text.to_owned().into_boxed_str());
        assert_same(text, &Arc::<str>::from(text));
        assert_same(text, &Rc::<str>::from(text));
        assert_same(text, &Cow::Borrowed(text));
        assert_same(text, &Cow::<str>::Owned(text.to_owned()));
        assert_same(text.as_bytes(), &text.as_bytes().to_vec());
        assert_same(text.as_bytes(), &text);
        assert_same(&(text.to_owned(), 1_u8), &(Arc::<str>::from(text), &1_u8));
    }
    assert_same(&7_u64, &Box::new(7_u64));
}

/// A decision holds the number of its tier in 16 bits.
#[test]
fn a_tier_beyond_the_last_number_is_refused() {
    let quota = TokenBucket::new(Rate::per_hour(9));
    let builder = |tiers: usize| {
        let builder = Limiter::builder(quota).per::<u64>().clock(ManualClock::new());
        (1..tiers).fold(builder, |builder, _| builder.tier(quota.burst(2)))
    };
    let limiter = builder(1 << 16).on_decision(|_| ()).build().unwrap();
    assert_eq!(limiter.account(7).tier(65_535).unwrap().check().limit(), 2);
    let error = builder((1 << 16) + 1).build().unwrap_err();
    let expected = BuildError::OutOfRange { field: "tiers", value: 65_537, min: 1, max: 65_536 };
    assert_eq!(error, expected);
}

#[test]
fn a_client_is_an_address_or_a_network() {
    let limiter = limiter::<ClientIp>();
    let admits = |address: &str| {
        let address: IpAddr = address.parse().unwrap();
        limiter.check(address).is_allowed()
    };
    assert!(admits("192.0.2.7"));
    assert!(!admits("::ffff:192.0.2.7"), "a socket for both kinds shows it so");
    assert!(admits("192.0.2.8"));
    assert!(admits("2001:db8:0:1::1"));
    assert!(!admits("2001:db8:0:1:ffff:ffff:ffff:ffff"), "the same network");
    assert!(admits("2001:db8:0:2::1"));
    // An address that holds the bits of an IPv4 address is none.
    assert!(admits("::c000:207:0:0:0:0") && admits("::1") && admits("64:ff9b::192.0.2.7"));
}
