//! What a limiter hands out for later: turns and leases.

use std::pin::Pin;
use std::time::Duration;

use tollgate::{Lease, Leased, Quota, Receipt, Reservation, Timer};
use tollgate_testing::clocks::Hooked;

use super::{Kept, Told, both};

/// A reservation.
pub(crate) trait Turn<'l> {
    /// In nanoseconds.
    fn departs(&self) -> u64;
    fn cancel(self: Box<Self>) -> u64;
    /// Completes at the departure, on this clock.
    fn ready(self: Box<Self>, clock: Hooked) -> Pin<Box<dyn Future<Output = ()> + 'l>>;
}

impl<'l, const N: usize> Turn<'l> for Reservation<'l, Quota, N, Hooked> {
    fn departs(&self) -> u64 {
        self.departure().as_nanos()
    }

    fn cancel(self: Box<Self>) -> u64 {
        Reservation::cancel(*self)
    }

    fn ready(self: Box<Self>, clock: Hooked) -> Pin<Box<dyn Future<Output = ()> + 'l>> {
        Box::pin(Reservation::ready(*self, Polled(clock)))
    }
}

/// A timer whose sleeps are polled by hand.
struct Polled(Hooked);

impl Timer for Polled {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        let (clock, until) = (self.0.clone(), tollgate::Clock::now(&self.0) + duration);
        std::future::poll_fn(move |_| {
            if tollgate::Clock::now(&clock) >= until {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
    }
}

/// A lease.
pub(crate) trait Lent {
    fn held(&self) -> u64;
    /// What the limiter decided; `None` when the lease had a permit.
    fn check(&mut self, cost: u64) -> Option<(Told, Kept)>;
    fn release(&mut self) -> u64;
}

impl<const N: usize> Lent for Lease<'_, Quota, N, Hooked>
where
    Receipt<N>: Into<Kept>,
{
    fn held(&self) -> u64 {
        Lease::held(self)
    }

    fn check(&mut self, cost: u64) -> Option<(Told, Kept)> {
        match self.check_n(cost) {
            Leased::Permit => None,
            Leased::Decided(decision) => Some(both(decision)),
            _ => unreachable!("a lease answers in two ways"),
        }
    }

    fn release(&mut self) -> u64 {
        Lease::release(self)
    }
}
