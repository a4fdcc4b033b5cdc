//! Limits from a database: each user's numbers come with each call, so a change of the row counts
//! from the next request on, and no limiter is built anew.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use tollgate::{CallQuota, Clock, Limiter, ManualClock, Rate};

/// A row of the table `plans`: so many requests an hour, and so many at once.
#[derive(Clone, Copy)]
struct Plan {
    an_hour: u64,
    at_once: u64,
}

type Limits<C> = Limiter<str, CallQuota, 1, C>;

/// Whether a request of this user may go on; if not, after how long it may.
fn admit<C: Clock>(limits: &Limits<C>, user: &str, plan: Plan) -> Result<(), Option<Duration>> {
    // What the row says may be nonsense: a rate of zero is an error here, and refused below.
    let Ok(quota) = CallQuota::new(Rate::per_hour(plan.an_hour), plan.at_once) else { return Err(None) };
    let quota = quota.lend();
    let decision = limits.account(user).under(&quota).check();
    // A table that is full of keys in debt refuses, too: `decision.is_full()`.
    if decision.is_allowed() { Ok(()) } else { Err(decision.retry_after()) }
}

fn main() -> Result<(), Box<dyn Error>> {
    // In the place of a query, or of the claims of a token.
    let mut plans = HashMap::from([("alice", Plan { an_hour: 3_600, at_once: 2 })]);
    let clock = ManualClock::new();
    // For a user without a row.
    let default = CallQuota::new(Rate::per_hour(1), 1)?;
    let limiter: Limits<_> =
        Limiter::builder(default).per().max_keys(1_000_000).clock(clock.clone()).build()?;

    assert_eq!(admit(&limiter, "alice", plans["alice"]), Ok(()));
    assert_eq!(admit(&limiter, "alice", plans["alice"]), Ok(()));
    assert_eq!(admit(&limiter, "alice", plans["alice"]), Err(Some(Duration::from_secs(1))));

    // Alice has paid. Her debt of two seconds stays, and ten at once leave room beside it.
    plans.insert("alice", Plan { an_hour: 3_600, at_once: 10 });
    assert!((0..8).all(|_| admit(&limiter, "alice", plans["alice"]).is_ok()));
    assert!(admit(&limiter, "alice", plans["alice"]).is_err());

    // A row that nobody meant admits nobody, and says so.
    plans.insert("bob", Plan { an_hour: 0, at_once: 1 });
    assert_eq!(admit(&limiter, "bob", plans["bob"]), Err(None));
    println!("alice has ten at once now");
    Ok(())
}
