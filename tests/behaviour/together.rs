//! Offers of any limiters, charged together: all or none.

mod random;
mod threads;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate::{
    CallQuota, CountPolicy, FixedWindow, Inherit, LeakyBucket, Limiter, ManualClock, Offer, Outcome, Quota,
    Rate, SlidingLog, SlidingWindow, TokenBucket, WhenFull, together, together_if,
};

type One = Limiter<u64, Quota, 1, ManualClock>;

fn limiter(quota: impl Into<Quota>, clock: &ManualClock) -> One {
    Limiter::builder(quota.into()).per().clock(clock.clone()).build().unwrap()
}

fn bucket(count: u64) -> Quota {
    TokenBucket::new(Rate::per_hour(count)).into()
}

fn left(limiter: &One, key: u64) -> u64 {
    limiter.account(key).peek_n(0).remaining()
}

/// Between the offers and their charges the keys are charged, recover, and some lose their slots.
#[test]
fn a_forgotten_key_is_charged_when_its_offer_is_taken() {
    let clock = ManualClock::new();
    let limiter: One = Limiter::builder(Quota::from(TokenBucket::new(Rate::per_second(1))))
        .per()
        .max_keys(300)
        .when_full(WhenFull::Deny)
        .clock(clock.clone())
        .build()
        .unwrap();
    let (keys, others) = (0..100_u64, 1_000..1_100_u64);
    clock.advance(Duration::from_secs(10));
    let mut offers: Vec<_> = keys.clone().map(|key| limiter.account(key).offer(1)).collect();
    let check_after = |keys: std::ops::Range<u64>, millis| {
        clock.advance(Duration::from_millis(millis));
        keys.filter(|&key| limiter.check(key).is_allowed()).count()
    };
    assert_eq!((check_after(keys.clone(), 500), check_after(others, 1_500)), (100, 100));
    assert_eq!(check_after(0..0, 1_500), 0);
    assert_eq!(offers.iter_mut().map(Offer::take).filter(|taken| *taken == Outcome::Allowed).count(), 100);
    assert_eq!(check_after(keys, 100), 0, "each was admitted a tenth of a second ago");
}

#[test]
fn what_one_refuses_is_charged_to_none() {
    let clock = ManualClock::new();
    let all: Vec<One> = [5, 3, 9].into_iter().map(|count| limiter(bucket(count), &clock)).collect();
    let ask = |cost| {
        let mut offers: Vec<_> = all.iter().map(|one| one.account(1).offer(cost)).collect();
        let outcome = together(&mut offers);
        assert!(offers.iter().all(|offer| offer.outcome() == outcome));
        let says = offers.iter().map(|offer| (offer.part().refuses(), offer.part().remaining())).collect();
        let taken = offers.into_iter().map(|offer| offer.receipt().left()).sum::<u64>();
        (outcome, says, taken)
    };
    let says = |numbers: [u64; 3], by: &[usize]| -> Vec<(bool, u64)> {
        numbers.into_iter().enumerate().map(|(index, left)| (by.contains(&index), left)).collect()
    };
    assert_eq!(ask(2), (Outcome::Allowed, says([3, 1, 7], &[]), 6));
    assert_eq!(ask(2), (Outcome::Denied, says([3, 1, 7], &[1]), 0));
    assert_eq!(ask(4), (Outcome::Never, says([3, 1, 7], &[1]), 0), "the others have nothing to say");
    assert_eq!(ask(1), (Outcome::Allowed, says([2, 0, 6], &[]), 3));
    assert_eq!(together(&mut []), Outcome::Allowed);
}

#[test]
fn one_key_may_be_asked_twice() {
    let limiter = limiter(bucket(5), &ManualClock::new());
    let ask = |cost| together(&mut [limiter.account(1).offer(3), limiter.account(1).offer(cost)]);
    assert_eq!(ask(3), Outcome::Denied);
    assert_eq!(left(&limiter, 1), 5, "the first was given back");
    assert_eq!(ask(2), Outcome::Allowed);
    assert_eq!(left(&limiter, 1), 0);
    // One of cost 0 shows what those before it have left.
    let mut offers = [3, 0, 2, 0].map(|cost| limiter.account(2).offer(cost));
    assert_eq!(together(&mut offers), Outcome::Allowed);
    assert_eq!(offers.map(|offer| offer.part().remaining()), [2, 2, 0, 0]);
}

/// A charge that was taken alone is another request's: it stays.
#[test]
fn an_offer_that_was_taken_stays_charged() {
    let clock = ManualClock::new();
    let (first, second) = (limiter(bucket(5), &clock), limiter(bucket(1), &clock));
    assert!(second.check(1).is_allowed());
    let mut offers = [first.account(1).offer(2), second.account(1).offer(1)];
    assert_eq!((offers[0].take(), offers[0].take()), (Outcome::Allowed, Outcome::Allowed));
    assert_eq!((together(&mut offers), together(&mut offers)), (Outcome::Denied, Outcome::Denied));
    assert_eq!(left(&first, 1), 3);
    let [taken, refused] = offers.map(|offer| offer.receipt());
    assert_eq!((first.refund(taken), second.refund(refused)), (2, 0));
}

#[test]
fn an_offer_that_was_overtaken_is_decided_anew() {
    let limiter = limiter(bucket(10), &ManualClock::new());
    for key in [1, 2] {
        // Key 1 has a slot, key 2 is new.
        assert!(key == 2 || limiter.check(key).is_allowed());
        let mut offers = [7, 7, 2, 1, 1].map(|cost| limiter.account(key).offer(cost));
        let outcomes = offers.each_mut().map(|offer| offer.take());
        let remaining = offers.each_ref().map(|offer| offer.part().remaining());
        let had = if key == 1 { 9 } else { 10 };
        let third = if key == 1 { Outcome::Denied } else { Outcome::Allowed };
        assert_eq!(outcomes, [Outcome::Allowed, Outcome::Denied, Outcome::Allowed, third, Outcome::Denied]);
        assert_eq!(remaining, [had - 7, had - 7, had - 9, 0, 0]);
    }
}

#[test]
fn refusals_are_counted_by_limits_that_count_all() {
    let clock = ManualClock::new();
    let all = limiter(FixedWindow::new(Rate::per_hour(3)).count(CountPolicy::All), &clock);
    let other = limiter(bucket(3), &clock);
    let ask = |cost| together(&mut [all.account(1).offer(cost), other.account(1).offer(1)]);
    assert_eq!((ask(2), ask(2)), (Outcome::Allowed, Outcome::Denied));
    assert_eq!((left(&all, 1), left(&other, 1)), (0, 2), "the refused two count there");
    assert_eq!(ask(4), Outcome::Never);
    drop(all.account(2).offer(3));
    assert_eq!(left(&all, 2), 3);
    // Refused by the other only.
    assert!(other.check_n(2, 3).is_allowed());
    assert_eq!(together(&mut [all.account(2).offer(1), other.account(2).offer(1)]), Outcome::Denied);
    assert_eq!(left(&all, 2), 3);
    // Refused by both, by the other for good: such a request is counted nowhere.
    assert!(all.check_n(3, 3).is_allowed());
    clock.advance(Duration::from_secs(1));
    let ask = |cost| together(&mut [all.account(3).offer(1), other.account(3).offer(cost)]);
    assert_eq!((ask(4), left(&all, 3)), (Outcome::Never, 0));
    let limiter = limiter(FixedWindow::new(Rate::per_hour(9)).count(CountPolicy::All), &clock);
    assert!(limiter.check_n(3, 5).is_allowed());
    assert_eq!(together(&mut [limiter.account(3).offer(5), other.account(3).offer(4)]), Outcome::Never);
    assert_eq!(left(&limiter, 3), 4);
}

#[test]
fn a_full_tables_refusals_of_offers_are_counted() {
    let builder = Limiter::builder(bucket(1)).per::<u64>().max_keys(1).when_full(WhenFull::Deny);
    let full = builder.clock(ManualClock::new()).build().unwrap();
    (0..2_000).for_each(|key| drop(full.check(key)));
    let refused = (2_000..).find(|&key| full.peek(key).is_full()).unwrap();
    let before = full.stats().refused_full;
    let mut offers = [full.account(refused).offer(1)];
    assert_eq!(full.stats().refused_full, before, "an offer is no answer");
    assert_eq!(together(&mut offers), Outcome::Denied);
    assert!(offers[0].part().refuses_full());
    assert_eq!(full.stats().refused_full, before + 1);
}

/// A change of quota, a reset and a restart between an offer and what follows.
#[test]
fn offers_outlive_changes_and_resets() {
    let clock = ManualClock::new();
    let limiter = limiter(bucket(10), &clock);
    assert!(limiter.check_n(1, 2).is_allowed());
    // The word is the same: the charge stands as one that was begun before the change.
    let mut offer = limiter.account(1).offer(5);
    limiter.change().to(bucket(4)).inherit(Inherit::Additive).apply().unwrap();
    assert_eq!((offer.take(), left(&limiter, 1)), (Outcome::Allowed, 0));
    assert_eq!(offer.part().limit(), 10, "it says what decided it");
    let kept = offer.keep();
    assert_eq!(limiter.show(&kept).map(|part| (part.limit(), part.remaining())), Some((10, 3)));
    // A later one is decided by the quota of its own time.
    let (mut never, mut denied) = (limiter.account(1).offer(5), limiter.account(1).offer(1));
    assert_eq!((never.take(), denied.take()), (Outcome::Never, Outcome::Denied));
    assert!(limiter.account(1).reset());
    assert_eq!(limiter.refund(kept.receipt()), 0, "the reset forgave it");

    let mut before = limiter.account(1).offer(3);
    limiter.change().to(bucket(2)).inherit(Inherit::Additive).apply().unwrap();
    assert!(limiter.check(1).is_allowed());
    assert_eq!(before.take(), Outcome::Never, "the word is another, and so is the limit");
    let mut offer = limiter.account(1).offer(1);
    assert!(limiter.account(1).reset());
    assert_eq!(offer.take(), Outcome::Allowed);
    assert_eq!(left(&limiter, 1), 1);
    assert_eq!(limiter.refund(offer.receipt()), 1, "it was charged after the reset");

    let mut file = Vec::new();
    let kept = {
        let mut offer = limiter.account(1).offer(1);
        offer.take();
        offer.keep()
    };
    limiter.save(&mut file).unwrap();
    let again = Limiter::builder(bucket(2)).per::<u64>().clock(clock).restore(&file[..]).unwrap();
    assert_eq!(left(&again, 1), 1);
    assert!(again.show(&kept).is_none(), "it is another limiter's");
    assert_eq!((again.refund(kept.receipt()), left(&again, 1)), (0, 1));
}

#[test]
fn quotas_that_come_with_calls_make_offers() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(CallQuota::new(Rate::per_hour(1), 1).unwrap()).per::<u64>();
    let calls = builder.clock(clock.clone()).build().unwrap();
    let other = limiter(bucket(3), &clock);
    let quota = CallQuota::new(Rate::per_hour(4), 4).unwrap().lend();
    let ask = |key, cost| {
        let mut offers = [calls.account(key).under(&quota).offer(cost), other.account(key).offer(cost)];
        let outcome = together(&mut offers);
        (outcome, offers.map(|offer| offer.receipt()))
    };
    let (outcome, [call, _]) = ask(1, 3);
    assert_eq!((outcome, calls.refund(call)), (Outcome::Allowed, 3));
    assert_eq!(ask(1, 1).0, Outcome::Denied, "by the other");
    assert_eq!(calls.account(1).under(&quota).peek_n(0).remaining(), 4, "it was given back");
    // Overtaken, it is decided anew by its own quota.
    let mut offers = [calls.account(2).under(&quota).offer(2), calls.account(2).under(&quota).offer(3)];
    assert_eq!(together(&mut offers), Outcome::Denied);
    assert_eq!(offers[1].part().limit(), 4);
    let mut offer = calls.account(2).under(&quota).offer(5);
    assert_eq!(offer.take(), Outcome::Never);
    assert!(calls.show(&offer.keep()).is_none());
}

#[test]
fn a_list_makes_an_offer_of_each_limit() {
    let clock = ManualClock::new();
    let quotas = vec![LeakyBucket::queue(Rate::per_hour(9)).capacity(9).into(), bucket(5), bucket(3)];
    let list = Limiter::builder(quotas).per::<u64>().clock(clock.clone()).build().unwrap();
    let left = || list.account(1).peek_n(0).parts().map(|part| part.remaining()).collect::<Vec<_>>();
    let mut offers: Vec<_> = list.account(1).offers(2).collect();
    // The queue is charged last, and is the first by its number.
    assert_eq!(offers.iter().map(|offer| offer.part().number()).collect::<Vec<_>>(), [1, 2, 0]);
    assert_eq!((together(&mut offers), left()), (Outcome::Allowed, vec![7, 3, 1]));
    let kept: Vec<_> = offers.into_iter().map(Offer::keep).collect();
    let shown = kept.iter().map(|kept| list.show(kept).map(|part| (part.number(), part.remaining())));
    assert_eq!(shown.collect::<Vec<_>>(), [Some((1, 3)), Some((2, 1)), Some((0, 7))]);

    let mut offers: Vec<_> = list.account(1).offers(2).collect();
    assert_eq!((together(&mut offers), left()), (Outcome::Denied, vec![7, 3, 1]));
    assert_eq!(offers.iter().map(|offer| offer.part().refuses()).collect::<Vec<_>>(), [false, true, false]);
    // Above one limit and not above the others.
    let mut offers: Vec<_> = list.account(1).offers(4).collect();
    let outcomes: Vec<_> = offers.iter().map(Offer::outcome).collect();
    assert_eq!(outcomes, [Outcome::Denied, Outcome::Never, Outcome::Allowed]);
    assert_eq!((together(&mut offers), left()), (Outcome::Never, vec![7, 3, 1]));

    // Each gives back by itself, also under quotas that came later.
    let later = vec![LeakyBucket::queue(Rate::per_hour(9)).capacity(9).into(), bucket(5), bucket(4)];
    list.change().to(later).inherit(Inherit::Additive).apply().unwrap();
    let [first, second, third] = kept.try_into().expect("there are three");
    assert_eq!((list.refund(first.receipt()), left()), (2, vec![7, 5, 2]));
    let back = [second, third].map(|kept| list.refund_part(&mut kept.receipt(), 2));
    assert_eq!((back, left()), ([2, 2], vec![9, 5, 4]));
}

/// A list's quotas change between two offers of one request. Each offer is of the quotas of its
/// own time, and what it charges is a debt under the quotas of now.
#[test]
fn offers_around_a_change_are_charged_to_all_or_none() {
    for ((old, new), (spent, cost)) in [(5, 3), (3, 5)]
        .into_iter()
        .flat_map(|quotas| (0..=3).flat_map(move |spent| (1..=6).map(move |cost| (quotas, (spent, cost)))))
    {
        let both = |count| vec![bucket(count); 2];
        let list = Limiter::builder(both(old)).per::<u64>().clock(ManualClock::new()).build().unwrap();
        let left = || list.account(1).peek_n(0).parts().map(|part| part.remaining()).collect::<Vec<_>>();
        assert!(list.check_n(1, spent).is_allowed());
        let mut offers = list.account(1).offers(cost);
        let first = offers.next().unwrap();
        list.change().to(both(new)).inherit(Inherit::Additive).apply().unwrap();
        let second = offers.next().unwrap();
        let mut offers = [first, second];
        let case = format!("{spent} and {cost} of {old}, then {new}");
        let before = left();
        assert_eq!(before, [new.saturating_sub(spent); 2], "{case}: an offer holds nothing");
        let fits = [old, new].map(|limit| spent + cost <= limit);
        assert_eq!(together(&mut offers) == Outcome::Allowed, fits == [true, true], "{case}");
        assert_eq!(offers[1].part().limit(), new, "{case}: it is of the quotas of its own time");
        if fits == [true, true] {
            assert_eq!(left(), [new.saturating_sub(spent + cost); 2], "{case}: charged to both");
            assert_eq!(offers.map(|offer| list.refund(offer.receipt())), [cost; 2], "{case}");
        }
        assert_eq!(left(), before, "{case}: charged to none, or given back");
    }
}

/// A caller that has conditions of its own says so while the limits are charged.
#[test]
fn what_the_caller_refuses_is_charged_to_none() {
    let clock = ManualClock::new();
    let all: Vec<One> = [5, 3].into_iter().map(|count| limiter(bucket(count), &clock)).collect();
    for refused_at in 0..=3 {
        let mut offers: Vec<_> = all.iter().map(|one| one.account(1).offer(1)).collect();
        let mut asked = Vec::new();
        let outcome = together_if(&mut offers, |charged| {
            asked.push(charged.iter().map(|offer| offer.part().remaining()).collect::<Vec<_>>());
            charged.len() != refused_at
        });
        let expected = [vec![], vec![4], vec![4, 2]];
        assert_eq!(asked, expected[..=refused_at.min(2)]);
        let (expected, left) =
            if refused_at < 3 { (Outcome::Denied, [5, 3]) } else { (Outcome::Allowed, [4, 2]) };
        assert_eq!(outcome, expected);
        assert!(offers.iter().all(|offer| offer.outcome() == expected && !offer.part().refuses()));
        assert_eq!(offers.iter().map(|offer| offer.part().remaining()).collect::<Vec<_>>(), left);
        assert_eq!([0, 1].map(|one| self::left(&all[one], 1)), left);
    }
}

#[test]
fn an_observer_is_told_of_no_offer() {
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    let builder = Limiter::builder(bucket(2)).per::<u64>();
    let limiter = builder.on_decision(move |_| _ = count.fetch_add(1, Relaxed)).build().unwrap();
    assert_eq!(together(&mut [limiter.account(1).offer(2)]), Outcome::Allowed);
    assert_eq!(limiter.account(1).offer(1).take(), Outcome::Denied);
    assert_eq!(told.load(Relaxed), 0);
    assert!(!limiter.check(1).is_allowed(), "it was charged all the same");
    assert_eq!(told.load(Relaxed), 1);
}

/// A queue's request must wait, and its part says how long.
#[test]
fn an_offer_of_a_queue_says_when_it_departs() {
    let clock = ManualClock::new();
    let queue = limiter(LeakyBucket::queue(Rate::per_second(10)), &clock);
    let mut offers = [1, 1, 1].map(|cost| queue.account(1).offer(cost));
    assert_eq!(together(&mut offers), Outcome::Allowed);
    let delays = offers.each_ref().map(|offer| offer.part().delay());
    assert_eq!(delays, [0, 100, 200].map(Duration::from_millis));
}

fn every(count: u64) -> [Quota; 6] {
    let rate = Rate::per_hour(count);
    [
        TokenBucket::new(rate).into(),
        LeakyBucket::meter(rate).into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).into(),
        SlidingWindow::new(rate).subwindows(3).into(),
        SlidingLog::new(rate).into(),
    ]
}
