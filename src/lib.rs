#![cfg_attr(not(doctest), doc = include_str!("../docs/charts/headline.uri"))]
// What docs.rs needs otherwise than a forge: the picture inline, and where names and pages are.
// Of two references with one name Markdown takes the first, so these come before the page.
//! [`CallQuota`]: crate::CallQuota
//! [`Counters`]: crate::Counters
//! [`Decision`]: crate::Decision
//! [`FirstHit`]: crate::FirstHit
//! [`FixedWindow`]: crate::FixedWindow
//! [`GlobalLimiter`]: crate::GlobalLimiter
//! [`InFlightLimiter`]: crate::InFlightLimiter
//! [`Inherit`]: crate::Inherit
//! [`Ipv6Prefix`]: crate::Ipv6Prefix
//! [`Key`]: crate::Key
//! [`LeakyBucket`]: crate::LeakyBucket
//! [`ManualClock`]: crate::ManualClock
//! [`Quota`]: crate::Quota
//! [`SlidingLog`]: crate::SlidingLog
//! [`SlidingWindow`]: crate::SlidingWindow
//! [`TokenBucket`]: crate::TokenBucket
//! [`WhenFull`]: crate::WhenFull
//! [`together`]: crate::together
//! [start-library]: https://docs.rs/crate/tollgate/latest/source/docs/start/library.md
//! [start-middleware]: https://docs.rs/tollgate-tower
//! [start-proxy]: https://docs.rs/tollgate-server
//! [recipes]: https://docs.rs/crate/tollgate/latest/source/docs/how-to/library-recipes.md
//! [migrate]: https://docs.rs/crate/tollgate/latest/source/docs/how-to/migrate-library.md
//! [promises]: https://docs.rs/crate/tollgate/latest/source/docs/reference/promises.md
//! [performance]: https://docs.rs/crate/tollgate/latest/source/docs/why/performance.md
//! [why]: https://docs.rs/crate/tollgate/latest/source/docs/why/engine.md
//! [claims]: https://docs.rs/crate/tollgate/latest/source/docs/proof/claims.md
// The page's examples are run by the tests of tollgate-tower, which has axum.
#![cfg_attr(not(doctest), doc = include_str!("../docs/engine.md"))]
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(loom))))]

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "tollgate packs a key's state into 64-bit words, for 64-bit targets only. For others (32 bits, wasm), ask a server \
     over HTTP (`tollgate serve`, /v1/check), and make the dependency one of \
     [target.'cfg(target_pointer_width = \"64\")'.dependencies]"
);

mod algorithm;
mod bits;
mod clock;
mod error;
mod key;
mod limiter;
mod observe;
mod outcome;
mod rate;
mod receipt;
mod ring;
pub mod saved;
mod sync;
mod table;
mod time;
mod timer;
#[cfg(all(test, not(loom)))]
mod tests {
    mod writes;
}

pub use algorithm::{
    Algorithm, CallQuota, CountPolicy, FirstHit, FixedWindow, Inherit, LeakyBucket, Mode, ParseQuotaError,
    Quota, Resolution, SlidingLog, SlidingWindow, TokenBucket,
};
pub use clock::{Clock, ManualClock, TscClock};
#[cfg(not(loom))]
pub use clock::{CoarseClock, SystemClock};
pub use error::BuildError;
pub use key::{ClientIp, Ipv6Prefix, Key, KeyHasher, spelling};
pub use limiter::{
    Account, AcquireError, Builder, ByClock, Change, DebitError, Decision, GlobalLimiter, InFlight,
    InFlightBuilder, InFlightLimiter, Kept, Lease, Leased, Lent, Limiter, Offer, OwnedInFlight, Part, Quotas,
    Reservation, ReserveError, Settled, Time, Usage, together, together_if,
};
pub use observe::{Counters, Counts};
pub use outcome::Outcome;
pub use rate::Rate;
pub use receipt::{MOST_LIMITS, Receipt};
pub use saved::RestoreError;
#[cfg(loom)]
pub use table::edges;
pub use table::{Stats, WhenFull};
pub use time::Timestamp;
#[cfg(not(loom))]
pub use timer::ThreadTimer;
pub use timer::Timer;
