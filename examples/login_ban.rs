//! Log-ins with a ban: five wrong passwords within a minute, and the address is refused for a
//! quarter of an hour. Right passwords cost nothing.

use std::time::Duration;

use tollgate::{BuildError, Clock, FirstHit, FixedWindow, Limiter, ManualClock, Rate, TokenBucket, WhenFull};

/// The failures and the bans of each address.
struct Logins<C> {
    failures: Limiter<str, TokenBucket, 1, C>,
    bans: Limiter<str, FirstHit, 1, C>,
}

/// What a log-in is answered.
#[derive(Debug, PartialEq)]
enum Answer {
    Welcome,
    WrongPassword,
    /// Come back after this.
    Banned(Duration),
}

impl<C: Clock + Clone + 'static> Logins<C> {
    fn new(clock: C) -> Result<Self, BuildError> {
        let failures = TokenBucket::new(Rate::per_minute(5));
        // A window of one from the first hit: it ends a quarter of an hour after the ban began,
        // whoever tries meanwhile.
        let ban = FixedWindow::new(Rate::new(1, Duration::from_secs(15 * 60))).from_first_hit();
        Ok(Self {
            failures: Limiter::builder(failures).per().clock(clock.clone()).build()?,
            // A table full of bans must not refuse addresses that were never banned.
            bans: Limiter::builder(ban).per().clock(clock).when_full(WhenFull::Allow).build()?,
        })
    }

    fn log_in(&self, address: &str, is_right: impl FnOnce() -> bool) -> Answer {
        // A peek writes nothing: a flood from a banned address costs next to nothing.
        if let Some(left) = self.bans.peek(address).retry_after() {
            return Answer::Banned(left);
        }
        // Charged before the password is looked at: a hundred tries at once are five.
        let attempt = self.failures.check(address);
        if !attempt.is_allowed() {
            let ban = self.bans.check(address);
            return Answer::Banned(ban.reset_after());
        }
        if is_right() {
            self.failures.refund(attempt);
            return Answer::Welcome;
        }
        Answer::WrongPassword
    }
}

fn main() -> Result<(), BuildError> {
    // A clock that is moved by hand. A server takes `TscClock::new()`.
    let clock = ManualClock::new();
    let logins = Logins::new(clock.clone())?;

    for _ in 0..5 {
        assert_eq!(logins.log_in("203.0.113.9", || false), Answer::WrongPassword);
    }
    let quarter = Duration::from_secs(15 * 60);
    assert_eq!(logins.log_in("203.0.113.9", || true), Answer::Banned(quarter));
    // Tries during the ban do not prolong it.
    clock.advance(Duration::from_secs(60));
    assert_eq!(logins.log_in("203.0.113.9", || true), Answer::Banned(quarter - Duration::from_secs(60)));
    clock.advance(quarter - Duration::from_secs(60));
    assert_eq!(logins.log_in("203.0.113.9", || true), Answer::Welcome);

    // Right passwords cost nothing.
    assert!((0..1_000).all(|_| logins.log_in("198.51.100.7", || true) == Answer::Welcome));
    println!("banned for {} s, then welcome", quarter.as_secs());
    Ok(())
}
