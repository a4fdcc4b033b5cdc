//! Waiting for what comes by itself.

use std::panic::Location;
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Longer than anything may take on a machine with other work. Tests of broken code wait so long
/// for what does not come: those of `cargo xtask break` are built for a machine with nothing else.
pub const LONG: Duration = Duration::from_secs(if option_env!("TOLLGATE_QUIET").is_some() { 10 } else { 30 });

/// How long passes between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until something is so.
#[track_caller]
pub fn eventually(is_so: impl Fn() -> bool) -> impl Future<Output = ()> {
    in_time(async move {
        while !is_so() {
            sleep(PAUSE).await;
        }
    })
}

/// The same, where a look waits.
#[track_caller]
pub fn until(is_so: impl AsyncFn() -> bool) -> impl Future<Output = ()> {
    in_time(async move {
        while !is_so().await {
            sleep(PAUSE).await;
        }
    })
}

#[track_caller]
fn in_time(becomes: impl Future<Output = ()>) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let became = timeout(LONG, becomes).await;
        became.unwrap_or_else(|_| panic!("{caller}: it does not become so"));
    }
}
