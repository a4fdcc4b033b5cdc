//! Where the bucket's refund, as it is defined now, lets too much through: the shortest sequences there are.
//!
//! One unit flows in each nanosecond. What was refunded or cancelled has not acted; the rest acts at its
//! departure, and an interval of length D should never see more than `burst + D`. Each test says what the
//! refund should have given back instead. `refund_search.rs` found them, and tries the rules that would mend it.
//! When the definition is mended, these tests fail and become promises.

use tollgate_model::{Algorithm, Model, Receipt, Reservation};

fn bucket(burst: u64) -> Model {
    Model::new(Algorithm::TokenBucket { count: 1, period_ns: 1, burst, initial: burst, grains: None })
}

fn admit(model: &mut Model, now: u64, cost: u64) -> Receipt {
    model.admit("k", now, cost).1.expect("there is room")
}

fn reserve(model: &mut Model, now: u64, cost: u64) -> Reservation {
    model.reserve("k", now, cost, u64::MAX).unwrap().booked().expect("any wait will do")
}

/// The second receipt's TAT rests on the first charge, which is gone when it is refunded.
#[test]
fn a_refund_after_a_refund_gives_back_what_was_never_owed() {
    let mut model = bucket(2);
    let [first, second] = [0, 0].map(|now| admit(&mut model, now, 1));
    assert_eq!(model.refund(first, 0), 1);
    assert!(model.check("k", 1, 1).allowed);
    assert_eq!(model.refund(second, 1), 1); // nothing: without the two, the bucket was full at 1
    assert!(model.check("k", 1, 2).allowed); // the third unit at one instant, from a burst of 2
}

/// The same, and the act that comes too soon is a reservation.
#[test]
fn a_refund_after_a_refund_moves_nobody_who_is_booked() {
    let mut model = bucket(2);
    let [first, second] = [0, 0].map(|now| admit(&mut model, now, 1));
    assert_eq!(model.refund(first, 0), 1);
    assert_eq!(reserve(&mut model, 0, 2).departs_at_ns(), 1);
    assert_eq!(model.refund(second, 1), 1); // nothing
    assert!(model.check("k", 1, 1).allowed); // with the two that depart, three at one instant
}

/// No refunds, only reservations and cancellations: that is x/time/rate's own rule. After the first cancellation
/// the TAT no longer shows that somebody departs at 5.
#[test]
fn a_cancellation_after_a_cancellation_forgets_who_is_booked() {
    let mut model = bucket(3);
    assert!(model.check("k", 0, 1).allowed);
    let [early, late, last] = [3, 3, 1].map(|cost| reserve(&mut model, 0, cost));
    assert_eq!([&early, &late, &last].map(Reservation::departs_at_ns), [1, 4, 5]);
    assert_eq!(model.cancel(late, 0), 2);
    assert_eq!(model.cancel(early, 0), 1); // nothing
    assert_eq!(reserve(&mut model, 0, 3).departs_at_ns(), 5); // four at one instant, from a burst of 3
}

/// A queue's TAT is never beyond `now + capacity`, so nobody ever counts as booked; and a queue promises more
/// than a rate, that one leaves after the other.
#[test]
fn a_refund_in_a_queue_lets_two_leave_at_once() {
    let (count, period_ns, capacity, grains) = (1, 1, 2, None);
    let mut queue = Model::new(Algorithm::LeakyQueue { count, period_ns, capacity, grains });
    let first = admit(&mut queue, 0, 1);
    assert_eq!(queue.check("k", 0, 1).delay_ns, 1);
    assert_eq!(queue.refund(first, 0), 1); // nothing: who was behind it has a departure already
    let heavy = queue.check("k", 1, 2);
    assert!(heavy.allowed && heavy.delay_ns == 0); // three at one instant, from a capacity of 2
}

/// A bucket knows no time but its TAT, so a refund cannot tell that its own time is old.
#[test]
fn a_refund_at_an_old_time_gives_back_what_the_refill_already_has() {
    let mut model = bucket(2);
    let first = admit(&mut model, 0, 1);
    assert!(model.check("k", 1, 1).allowed);
    assert_eq!(model.refund(first, 0), 1); // nothing: at 1 the bucket was full
    assert!(model.check("k", 1, 2).allowed); // three at one instant
}
