//! The keys that rate-net accepts.

use std::net::{Ipv4Addr, Ipv6Addr};

use rate_net::{Decision, RateLimiter};

/// A key that rate-net accepts.
pub(crate) trait RateNetKey {
    /// Checks the key.
    fn check(&self, limiter: &RateLimiter, cost: u32) -> Decision;
}

macro_rules! rate_net_key {
    ($($key:ty),*) => {$(
        impl RateNetKey for $key {
            #[inline]
            fn check(&self, limiter: &RateLimiter, cost: u32) -> Decision {
                limiter.check_n(*self, cost)
            }
        }
    )*};
}
rate_net_key!(u64, Ipv4Addr, Ipv6Addr);

impl RateNetKey for String {
    #[inline]
    fn check(&self, limiter: &RateLimiter, cost: u32) -> Decision {
        limiter.check_n_bytes(self, cost)
    }
}
