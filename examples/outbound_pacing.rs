//! Outbound calls at the pace that another service allows, under tokio: each call waits for its
//! turn, and one that would wait too long is told so at once.

use std::error::Error;
use std::time::Duration;

use tokio::time::Instant;
use tollgate::{Clock, Limiter, Rate, ReserveError, Timestamp, TokenBucket};

/// Calls a host when its turn comes, if that is soon enough.
async fn call<C: Clock>(
    pace: &Limiter<str, TokenBucket, 1, C>,
    host: &str,
    patience: Duration,
) -> Result<(), ReserveError> {
    let turn = pace.account(host).reserve(1, patience)?;
    // Dropped before its turn, as by `select!` or a timeout, the future gives the turn back.
    turn.ready(tokio::time::sleep).await;
    // ... send the request ...
    Ok(())
}

/// Tokio's own time, which this program pauses: nothing here really waits. A service leaves the
/// clock out, and waits.
struct TokioTime(Instant);

impl Clock for TokioTime {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    // A hundred a second to each host, one every 10 ms.
    let quota = TokenBucket::new(Rate::per_second(100)).burst(1);
    let begun = Instant::now();
    let pace = Limiter::builder(quota).per::<str>().clock(TokioTime(begun)).build()?;
    let (host, second) = ("api.example.com", Duration::from_secs(1));

    for turn in 0..4 {
        call(&pace, host, second).await?;
        assert_eq!(begun.elapsed(), Duration::from_millis(10 * turn));
    }

    // The next turn is 10 ms away. A call that would not wait for it is charged nothing.
    let impatient = call(&pace, host, Duration::from_millis(9)).await;
    assert_eq!(impatient, Err(ReserveError::TooLong { wait: Duration::from_millis(10) }));

    // A call that is given up while it waits leaves its turn to the next one.
    let given_up = tokio::time::timeout(Duration::from_millis(1), call(&pace, host, second)).await;
    assert!(given_up.is_err());
    call(&pace, host, second).await?;
    assert_eq!(begun.elapsed(), Duration::from_millis(40));
    println!("five calls in {} ms", begun.elapsed().as_millis());
    Ok(())
}
