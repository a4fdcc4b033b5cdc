//! What can be a key, and how it becomes the 64-bit fingerprint by which the table knows it.

mod hasher;
mod kinds;
pub mod spelling;

pub use hasher::KeyHasher;
pub(crate) use hasher::Secret;
pub use kinds::{ClientIp, Ipv6Prefix};

/// A value that names a key of the kind `K`: its fingerprint is that of every other value that
/// names the same key. `str`, `String` and `Arc<str>` all name a key of a `Limiter<str>`, and
/// `(7, "alice")` one of a `Limiter<(u32, String)>`: no key is built to ask about it.
///
/// The table knows a key by a 64-bit fingerprint, and two keys with the same fingerprint share a
/// limit. So what the fingerprint is made of is part of what the limiter promises:
///
/// * Integers of up to 64 bits, `bool`, `char`, [`ClientIp`], [`Ipv4Addr`], [`Ipv6Prefix`], arrays
///   of up to 8 bytes: two of them **never** share a limit.
/// * Strings and byte strings of up to 7 bytes **never** do. Nor do those of 8 bytes, unless the
///   last byte is below 8, a control character.
/// * Of longer ones, [`Ipv6Addr`], 128-bit integers and tuples, two share a limit with probability
///   `n^2 / 2^65` among `n` keys: 3e-6 for ten million.
///
/// Short keys go through a keyed bijection, all others through keyed SipHash-1-3. The secret of
/// both is drawn at random for each limiter, and without it a client cannot search for keys that
/// share.
///
/// The parts of a tuple keep their borders: `("ab", "c")` and `("a", "bc")` are two keys. A key has
/// the same fingerprint however it is held: a `String`, a `Box<str>`, an `Arc<str>` and a
/// `Cow<str>` all count as the `str` in them.
///
/// [`Ipv4Addr`]: std::net::Ipv4Addr
/// [`Ipv6Addr`]: std::net::Ipv6Addr
///
/// # Examples
///
/// The key of a limit for each user of each tenant:
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket};
///
/// let quota = TokenBucket::new(Rate::per_second(1)).burst(1);
/// let limiter = Limiter::builder(quota).per::<(u32, String)>().build()?;
/// assert!(limiter.check((7, "alice")).is_allowed());
/// assert!(limiter.check((8, "alice")).is_allowed());
/// assert!(!limiter.check((7, "alice")).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
///
/// A type of your own is a key when it says which of its parts tell two values apart:
///
/// ```
/// use tollgate::{Key, KeyHasher, Limiter, Rate, TokenBucket};
///
/// struct Session { tenant: u16, user: u32, opened: std::time::Instant }
///
/// impl Key for Session {
///     fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
///         // 48 bits: they go through the bijection.
///         hasher.short(u64::from(self.tenant) << 32 | u64::from(self.user))
///     }
/// }
///
/// struct Call { session: Session, method: String }
///
/// impl Key for Call {
///     fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
///         hasher.key::<(Session, str)>((&self.session, &self.method))
///     }
/// }
///
/// let quota = TokenBucket::new(Rate::per_second(1));
/// let limiter = Limiter::builder(quota).per::<Call>().build()?;
/// let session = Session { tenant: 1, user: 7, opened: std::time::Instant::now() };
/// assert!(limiter.check(Call { session, method: "list".into() }).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a key of `{K}`",
    label = "this limiter's keys are of the kind `{K}`",
    note = "a limiter by text is `Limiter<str>`: `&str`, `String` and `Arc<str>` are its keys",
    note = "for a type of your own: `impl Key for {Self}`, one method"
)]
pub trait Key<K: ?Sized = Self> {
    /// The key's fingerprint under `hasher`: the result of one of its methods, or of another key.
    fn fingerprint(&self, hasher: &KeyHasher) -> u64;
}
