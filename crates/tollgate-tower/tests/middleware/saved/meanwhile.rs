//! Saves while threads send requests and change limits.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use tower::{Layer, ServiceExt};

use super::*;
use crate::support::Echo;

const LIMIT: u64 = 3_000;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Returns the status of a request that is answered at once.
fn status_at_once(layer: &TollgateLayer, key: &str) -> u16 {
    let mut response = pin!(layer.layer(Echo).oneshot(request("/", &[("k", key)])));
    match response.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(response)) => response.status().as_u16(),
        _ => panic!("it waits"),
    }
}

#[test]
fn a_save_contains_every_earlier_request() {
    let settings = || {
        let rule = Rule::new("api", hourly_bucket(LIMIT)).key(by_header("k")).ban(BAN);
        layer_with(rule).clock(clock(Duration::ZERO))
    };
    let layer = settings().build().unwrap();
    let admitted = [const { AtomicU64::new(0) }; NAMES.len()];
    let banned = Mutex::new(HashSet::new());
    let finished = AtomicU64::new(0);
    let mut saves = 0;
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (layer, admitted, banned, finished) = (&layer, &admitted, &banned, &finished);
            scope.spawn(move || {
                for index in (0..NAMES.len()).cycle().skip(thread).take(3 * LIMIT as usize + 100) {
                    if status_at_once(layer, NAMES[index]) == 200 {
                        admitted[index].fetch_add(1, SeqCst);
                    } else {
                        banned.lock().unwrap().insert(index);
                    }
                }
                finished.fetch_add(1, SeqCst);
            });
        }
        let left = |layer: &TollgateLayer, index: usize| {
            layer.handle("api").unwrap().key(NAMES[index]).unwrap().peek(0)
        };
        loop {
            let is_last = finished.load(SeqCst) == 3;
            let before = admitted.each_ref().map(|count| count.load(SeqCst));
            let banned_before = banned.lock().unwrap().clone();
            let file = saved(&layer);
            let after = [0, 1, 2].map(|index| left(&layer, index).remaining);
            let next = restored(settings(), &file);
            for index in 0..NAMES.len() {
                let state = left(&next, index);
                let most = LIMIT - before[index];
                assert!(state.remaining <= most, "{} more than the limit", state.remaining - most);
                assert!(state.remaining >= after[index], "it charges what nobody asked for");
                if banned_before.contains(&index) {
                    assert_eq!(state.remaining, 0, "the key was banned before the save");
                    assert_eq!(status_at_once(&next, NAMES[index]), 429);
                }
            }
            saves += 1;
            if is_last {
                break;
            }
        }
    });
    assert!(saves > 2, "{saves} saves");
    // A thread whose request was charged finds that another thread's refusal has banned the key
    // meanwhile, and gives the charge back: at most one request of each other thread.
    for admitted in admitted.map(AtomicU64::into_inner) {
        assert!((LIMIT - 2..=LIMIT).contains(&admitted), "{admitted} of {LIMIT} were admitted");
    }
}

/// Ends the thread that changes limits, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_save_beside_changes_names_the_limits_of_its_debts() {
    let bucket = |burst| [TokenBucket::new(Rate::per_second(100)).burst(burst)];
    let time = clock(Duration::ZERO);
    let settings =
        |burst| layer_with(Rule::new("api", bucket(burst)).key(by_header("k"))).clock(time.clone());
    let layer = settings(100).build().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for burst in (100..200).cycle().take_while(|_| !is_over.load(SeqCst)) {
                // There may have been too many changes in a short time.
                let _ = layer.reconfigure("api", bucket(burst), Inherit::Additive);
                time.advance(SECOND);
            }
        });
        let _over = Over(&is_over);
        for _ in 0..300 {
            status_at_once(&layer, "a");
            // If quotas and debts did not fit together, this would be told.
            restored(settings(100), &saved(&layer));
        }
    });
}
