//! Linearizability under real threads: whatever several threads did to a key, there is an order of it that is consistent
//! with real time and in which the model gives the same answers.
//!
//! Threads check, peek at and refund a few keys while another moves the clock, in some tests also back. What each call said is
//! written down with the time that it read and with when it began and returned (`history`); then an order is looked for
//! (`search`). Keys do not share anything, so each key's history is judged by itself. Histories are short and many:
//! `LINEARIZABLE_SECONDS=60` looks longer than the third of a second that each test takes.
//!
//! A history that has no order is printed: one line a call, with its interval.

mod history;
mod limits;
mod search;

use std::time::{Duration, Instant};

use history::{Play, Recorder};
use limits::{LIMITS, Limit};
use search::{Verdict, judge};

/// How long a test looks.
fn patience() -> Duration {
    let seconds = std::env::var("LINEARIZABLE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(0.33))
}

/// Plays until the time is up, all `limits` in turn, and says how many histories were judged, and how many to the end.
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

/// Nothing is refunded here, so all is judged to its end.
#[test]
fn histories_under_a_clock_that_steps_back_have_an_order_that_the_model_agrees_with() {
    let (histories, whole) = look(LIMITS, Play { keys: 2, calls: 4, goes_back: true, strangers: false });
    assert!(histories >= 200, "{histories} are few");
    assert_eq!(whole, histories);
}

#[test]
fn histories_with_refunds_have_an_order_that_the_model_agrees_with() {
    let (histories, whole) = look(LIMITS, Play { keys: 2, calls: 4, goes_back: false, strangers: false });
    assert!(histories >= 200, "{histories} are few");
    assert!(whole * 20 >= histories * 19, "only {whole} of {histories} were judged to their end");
}

/// All begin with the same key, which nobody has seen: each looks for it, finds nothing, and inserts it.
#[test]
fn keys_that_threads_insert_together_have_an_order_that_the_model_agrees_with() {
    let (histories, _) = look(LIMITS, Play { keys: 1, calls: 2, goes_back: true, strangers: false });
    assert!(histories >= 200, "{histories} are few");
}

/// Strangers fill the keys' bucket, which is split under them. The clock goes ahead only: who owes nothing is forgotten.
#[test]
fn keys_that_move_have_an_order_that_the_model_agrees_with() {
    let movable: Vec<Limit> = LIMITS.iter().copied().filter(|limit| !limit.is_log()).collect();
    let (histories, _) = look(&movable, Play { keys: 2, calls: 4, goes_back: false, strangers: true });
    assert!(histories >= 100, "{histories} are few");
}
