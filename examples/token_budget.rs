//! Token budgets of a language model: each user has so many tokens a minute and a day, and the
//! real cost of an answer is known only when it has ended.

use std::error::Error;

use tollgate::{Clock, FixedWindow, Limiter, ManualClock, Quota, Rate, TokenBucket};

/// Answers a prompt, if both budgets have room for the estimate. Returns the tokens that are left.
fn answer<C: Clock>(
    budgets: &Limiter<str, Quota, 2, C>,
    user: &str,
    estimate: u64,
    model: impl FnOnce() -> u64,
) -> Result<u64, Box<dyn Error>> {
    // Charged before the model is asked, so that requests at the same time cannot share a budget.
    let decision = budgets.check_n(user, estimate);
    if !decision.is_allowed() {
        let wait = decision.retry_after().ok_or("more tokens than the budget ever has")?;
        return Err(format!("429, Retry-After: {}", wait.as_secs() + 1).into());
    }
    // Less comes back. More is charged, over the budget if need be: the user pays for it by waiting
    // longer.
    budgets.account(user).settle(decision, model())?;
    Ok(budgets.peek(user).remaining())
}

fn main() -> Result<(), Box<dyn Error>> {
    let quotas: [Quota; 2] =
        [TokenBucket::new(Rate::per_minute(6_000)).into(), FixedWindow::new(Rate::per_day(100_000)).into()];
    // Time stands still, so that the numbers below are exact. Leave the clock out in a server.
    let budgets = Limiter::builder(quotas).per::<str>().clock(ManualClock::new()).build()?;

    // Less than estimated: the rest comes back. (A peek counts the request that it asks about.)
    assert_eq!(answer(&budgets, "alice", 1_000, || 400)?, 5_599);
    // More than estimated: the rest is charged.
    assert_eq!(answer(&budgets, "alice", 1_000, || 5_100)?, 499);
    // The next one waits for what is missing: 500 tokens at 100 a second, and the begun second.
    let refused = answer(&budgets, "alice", 1_000, || unreachable!("the model is not asked"));
    assert_eq!(refused.unwrap_err().to_string(), "429, Retry-After: 6");
    // Nobody else is concerned.
    assert_eq!(answer(&budgets, "bob", 1_000, || 1_000)?, 4_999);
    println!("alice waits, bob goes on");
    Ok(())
}
