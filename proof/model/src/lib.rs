//! The specification of Tollgate's algorithms as code: exact, slow, obvious.
//!
//! Tests compare the engine with this model; where the two disagree, one of them has a bug. The
//! model is written from the formulas in the documentation only. Its integers are so wide that
//! nothing is rounded unless the formula says so.
//!
//! ```
//! use tollgate_model::{Algorithm, Model};
//!
//! let three_a_second = Algorithm::TokenBucket {
//!     count: 3,
//!     period_ns: 1_000_000_000,
//!     burst: 1,
//!     initial: 1,
//!     grains: None,
//! };
//! let mut model = Model::new(three_a_second);
//! assert!(model.check("alice", 0, 1).allowed);
//! assert_eq!(model.check("alice", 0, 1).retry_after_ns, Some(333_333_334));
//! ```
//!
//! # Files
//!
//! | file                | holds                                                          |
//! |---------------------|----------------------------------------------------------------|
//! | `algorithm.rs`      | [`Algorithm`] and [`CountPolicy`]: the limits                  |
//! | `answer.rs`         | [`Answer`]: the answer to a check                              |
//! | `model.rs`          | [`Model`]: one state for each key                              |
//! | `receipt.rs`        | [`Receipt`]: gives an admission back                           |
//! | `reservation.rs`    | [`Reservation`] and [`Booking`]: admissions that act later     |
//! | `inherit.rs`        | [`Inherit`]: what a key keeps when its limit is replaced       |
//! | `multi.rs`          | [`MultiModel`]: several limits on one key, all or nothing      |
//! | `rule.rs`           | common to all algorithms: cost 0, cost above the limit         |
//! | `arrival.rs`        | the arithmetic of GCRA, shared by both buckets                 |
//! | `refund.rs`         | what a bucket gives back                                       |
//! | `exact.rs`          | [`Exact`]: what a bucket should give back                      |
//! | `token_bucket.rs`   | the token bucket                                               |
//! | `leaky_bucket.rs`   | the leaky bucket, as a meter and as a queue                    |
//! | `grid.rs`           | aligned windows                                                |
//! | `fixed_window.rs`   | the fixed window                                               |
//! | `first_hit.rs`      | the fixed window from a key's first request                    |
//! | `sliding_window.rs` | the sliding window counter: previous * overlap + current       |
//! | `sub_windows.rs`    | the sliding window in sub-windows, which never admits too much |
//! | `sliding_log.rs`    | the sliding window log                                         |
//!
//! # Time
//!
//! Time is a whole number of nanoseconds since the limiter's clock zero, in a `u64`. Waits and
//! resets that would not fit into a `u64` (584 years) are given as `u64::MAX`. A key that was never
//! seen behaves like a key that was idle for long.

mod algorithm;
mod answer;
mod arrival;
mod exact;
mod first_hit;
mod fixed_window;
mod grid;
mod inherit;
mod leaky_bucket;
mod model;
mod multi;
mod receipt;
mod refund;
mod reservation;
mod rule;
mod sliding_log;
mod sliding_window;
mod sub_windows;
mod token_bucket;
mod turn;

pub use algorithm::{Algorithm, CountPolicy};
pub use answer::Answer;
pub use exact::Exact;
pub use inherit::Inherit;
pub use model::Model;
pub use multi::{MultiAnswer, MultiModel, Refusal};
pub use receipt::Receipt;
pub use reservation::{Booking, Reservation};
pub use turn::NotReservable;
