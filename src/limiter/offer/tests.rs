//! What an offer writes.

use crate::algorithm::TokenBucket;
use crate::clock::ManualClock;
use crate::limiter::{Limiter, together};
use crate::rate::Rate;
use crate::sync::counted::{Writes, writes_of};

#[test]
fn only_what_is_taken_writes() {
    let builder = Limiter::builder(TokenBucket::new(Rate::per_hour(3))).per::<u64>();
    let limiter = builder.clock(ManualClock::new()).build().unwrap();
    let writes = |cost| writes_of(|| together(&mut [limiter.account(7).offer(cost)])).0;
    let offering = |cost| writes_of(|| drop(limiter.account(7).offer(cost))).0;
    let nothing = Writes { exchanges: 0, stores: 0 };
    assert_eq!([offering(1), writes(4), writes(0)], [nothing; 3], "of a new key");
    assert!(limiter.check(7).is_allowed());
    assert_eq!([offering(1), offering(3), writes(3), writes(4), writes(0)], [nothing; 5]);
    assert_eq!(writes(2), Writes { exchanges: 1, stores: 0 });
    assert_eq!(writes(1), nothing);
}
