//! Linearizability under real threads: the operations of several threads on a key have an order
//! that is consistent with real time and in which the model gives the same answers.
//!
//! Threads check, peek at and refund a few keys while another thread moves the clock, in some tests
//! also back. `history` records each call with its answer, the time that it read, and its begin and
//! end; `search` then finds an order. Keys share nothing, so each key's history is checked
//! separately. Histories are short and numerous: with `LINEARIZABLE_SECONDS=60` each test runs
//! longer than its usual third of a second.
//!
//! A history without an order is printed: one line for each call, with its interval.

mod history;
mod limits;
mod search;

use std::time::{Duration, Instant};

use history::{Play, Recorder};
use limits::{LIMITS, is_log};
use search::{Verdict, judge};
use tollgate_testing::limits::Limit;

/// Returns how long a test runs.
fn patience() -> Duration {
    let seconds = std::env::var("LINEARIZABLE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(0.33))
}

/// Runs all `limits` in turn until the time is up. Returns how many histories were checked, and how
/// many to the end.
fn look(limits: &[Limit], play: Play) -> (usize, usize) {
    let end = Instant::now() + patience();
    let (mut histories, mut whole) = (0, 0);
    let mut seed = 0;
    while Instant::now() < end || seed < limits.len() as u64 {
        let limit = &limits[seed as usize % limits.len()];
        let mut recorder = Recorder::new(limit, play, seed);
        seed += 1;
        for history in recorder.record() {
            match judge(limit, recorder.resolution(), &history) {
                Verdict::Explained => whole += 1,
                Verdict::ExplainedSoFar => {}
                Verdict::Unexplained => panic!("{limit}: no order explains\n{}", history::show(&history)),
            }
            histories += 1;
        }
    }
    println!("{histories} histories, {whole} of them to the end");
    (histories, whole)
}

/// There are no refunds, so all histories are checked to the end.
#[test]
fn histories_with_a_clock_that_steps_back_are_linearizable() {
    let (histories, whole) = look(LIMITS, Play { keys: 2, calls: 4, goes_back: true, strangers: false });
    assert!(histories >= 200, "{histories} are few");
    assert_eq!(whole, histories);
}

#[test]
fn histories_with_refunds_are_linearizable() {
    let (histories, whole) = look(LIMITS, Play { keys: 2, calls: 4, goes_back: false, strangers: false });
    assert!(histories >= 200, "{histories} are few");
    assert!(whole * 20 >= histories * 19, "only {whole} of {histories} were judged to their end");
}

/// All threads begin with the same new key: each looks for it, does not find it, and inserts it.
#[test]
fn histories_of_concurrent_insertions_are_linearizable() {
    let (histories, _) = look(LIMITS, Play { keys: 1, calls: 2, goes_back: true, strangers: false });
    assert!(histories >= 200, "{histories} are few");
}

/// Other keys fill the bucket, which splits. The clock only goes ahead, because keys without debt
/// are forgotten.
#[test]
fn histories_of_migrating_keys_are_linearizable() {
    let movable: Vec<Limit> = LIMITS.iter().copied().filter(|limit| !is_log(limit)).collect();
    let (histories, _) = look(&movable, Play { keys: 2, calls: 4, goes_back: false, strangers: true });
    assert!(histories >= 100, "{histories} are few");
}
