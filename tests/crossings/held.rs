//! Two refunds that hold one word, and a reset between them.

use tollgate_testing::clocks::at_reading;
use tollgate_testing::limits::Kind;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::engine::{self, Engine, Kept, Room, Sort, Way};
use super::limits::Limit;

/// Refunds all, and stops where the clock is read: then the word is held.
fn refund_and_stop(engine: &Engine, kept: Kept, is_held: Sender<()>, goes_on: Receiver<()>) -> u64 {
    let stop = move || {
        is_held.send(()).expect("the test waits for it");
        goes_on.recv().expect("the test lets it go on");
    };
    at_reading(1, stop, || engine.refund(0, kept)).0
}

/// The first refund stops while it holds the word. Then its charge is forgiven, and a second
/// request brings the word to where it was. If the second request's refund held the word now, the
/// first would take that hold for its own. So nothing comes back until the first has ended.
#[test]
fn a_refund_that_a_reset_forgave_lowers_no_other_charge() {
    for kind in [Kind::Bucket, Kind::Fixed] {
        let limits = [Limit { kind, most: 6, nanos: 1_000_000_000 }];
        let engine = &Engine::new(Sort::Global, Room::Enough, &limits, &engine::clock());
        let take = || engine.check(0, 0, 3, Way::Plain).1;
        let left = || engine.peek(0, 0, 0, 0).remaining[0];
        let ((held, is_held), (go, goes)) = (channel(), channel());
        let kept = take();
        thread::scope(|scope| {
            // Dropped when an assertion fails: the first refund goes on, and the test ends.
            let go = go;
            let forgiven = scope.spawn(move || refund_and_stop(engine, kept, held, goes));
            is_held.recv().expect("the first refund holds the word");
            assert!(engine.reset(0, 0));
            assert_eq!(engine.refund(0, take()), 0, "{kind:?}: the first refund still runs");
            go.send(()).expect("the first refund waits");
            assert_eq!(forgiven.join().expect("it does not panic"), 0, "{kind:?}: it was forgiven");
        });
        assert_eq!(left(), 3, "{kind:?}: the second request stays charged");
        assert_eq!((engine.refund(0, take()), left()), (3, 3), "{kind:?}: the first refund has ended");
    }
}
