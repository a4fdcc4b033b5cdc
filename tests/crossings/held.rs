//! Two refunds that hold one word, and a reset between them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::clock::interrupted;
use super::engine::{self, Engine, Kept, Room, Sort, Way};
use super::limits::{Kind, Limit};

/// Refunds all, and stops where the clock is read: then the word is held.
fn refund_and_stop(engine: &Engine, kept: Kept, is_held: Sender<()>, goes_on: Receiver<()>) -> u64 {
    let stop = move || {
        is_held.send(()).expect("the test waits for it");
        goes_on.recv().expect("the test lets it go on");
    };
    interrupted(1, stop, || engine.refund(0, kept)).0
}

/// The first refund stops while it holds the word. Then its charge is forgiven, a second request
/// brings the word to where it was, and a second refund holds it. A known defect: the first takes
/// the second's hold for its own and lowers a charge that is not its own. Once that is mended this
/// test fails: then it panics no more, and `crowd` may give back again where it resets.
#[test]
#[should_panic(expected = "what was forgiven came back")]
fn a_refund_that_a_reset_forgave_lowers_no_other_charge() {
    for kind in [Kind::Bucket, Kind::Fixed] {
        let limits = [Limit { kind, most: 6, nanos: 1_000_000_000 }];
        let engine = &Engine::new(Sort::Global, Room::Enough, &limits, &engine::clock());
        let take = || engine.check(0, 0, 3, Way::Plain).1;
        let ((held, is_held), (stop, stopped)) = (channel(), (channel(), channel()));
        let ((first_goes, first), (second_goes, second)) = (stop, stopped);
        let (kept, also_held) = (take(), held.clone());
        thread::scope(|scope| {
            let forgiven = scope.spawn(move || refund_and_stop(engine, kept, held, first));
            is_held.recv().expect("the first refund holds the word");
            assert!(engine.reset(0));
            let kept = take();
            let other = scope.spawn(move || refund_and_stop(engine, kept, also_held, second));
            is_held.recv().expect("the second refund holds the word");
            first_goes.send(()).expect("the first refund waits");
            let back = forgiven.join().expect("it does not panic");
            second_goes.send(()).expect("the second refund waits");
            let other = other.join().expect("it does not panic");
            assert_eq!((back, other), (0, 3), "{kind:?}: what was forgiven came back");
        });
        assert_eq!(engine.peek(0, 0, 0, 0).remaining, [6], "{kind:?}");
    }
}
