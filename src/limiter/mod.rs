//! The limiters, as users hold them: faces of [`core`](crate::core), and one for units in flight.

mod batch;
mod builder;
mod current_limit;
mod global;
mod in_flight;
mod keyed;
mod lent;
mod multi;
mod prepared;
mod time_and_tier;
mod view;

pub use batch::Batch;
pub use builder::{Builder, Face};
pub use global::GlobalLimiter;
pub use in_flight::{AcquireError, InFlight, InFlightBuilder, InFlightLimiter, OwnedInFlight};
pub use keyed::Limiter;
pub use lent::Lent;
pub use multi::MultiLimiter;
pub use prepared::Prepared;
pub use time_and_tier::{ByClock, Time};
pub use view::View;
