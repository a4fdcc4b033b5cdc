//! Random programs: offers that are charged together are what a limiter by a list decides.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Inherit, Kept, Limiter, ManualClock, Part, together};

use super::One;
use crate::several::alone::{quota, step};

/// What a limit says, as numbers.
fn numbers(part: &Part<'_>) -> String {
    let waits = (part.retry_after(), part.more_after(), part.reset_after(), part.delay());
    format!("{:?}", (part.refuses(), part.refuses_full(), part.limit(), part.remaining(), waits))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn offers_together_decide_as_a_list_of_limits(
        quotas in prop::collection::vec((quota(0..7), quota(0..7)), 1..=5),
        steps in prop::collection::vec(step(), 1..80),
        change in 0..80_usize,
        resets in 0..80_usize,
    ) {
        let clock = ManualClock::new();
        let (quotas, later): (Vec<_>, Vec<_>) = quotas.into_iter().unzip();
        let build = |quota: &_| Limiter::builder(*quota).per().clock(clock.clone()).max_keys(100).build();
        let alone: Result<Vec<One>, _> = quotas.iter().map(build).collect();
        let of_list = || Limiter::builder(quotas.clone()).per::<u64>().clock(clock.clone()).max_keys(100).build();
        // One decides by a check, the other by the offers of its limits.
        let (Ok(alone), Ok(list), Ok(offering)) = (alone, of_list(), of_list()) else { return Ok(()) };
        for (at, (key, cost, pause, give_back)) in steps.into_iter().enumerate() {
            if at == change && list.change().to(later.clone()).inherit(Inherit::AsIs).check().is_ok() {
                [&list, &offering].iter().for_each(|list| list.change().to(later.clone()).inherit(Inherit::AsIs).apply().unwrap());
                alone.iter().zip(&later).for_each(|(one, &quota)| one.change().to(quota).inherit(Inherit::AsIs).apply().unwrap());
            }
            if at == resets {
                // Whether a slot is known depends on who took it since: each table hashes anew.
                alone.iter().for_each(|one| { one.account(key).reset(); });
                [&list, &offering].iter().for_each(|list| { list.account(key).reset(); });
            }
            clock.advance(Duration::from_nanos(pause));
            let now = list.now();
            let mut offers: Vec<_> = alone.iter().map(|one| one.account(key).at(now).offer(cost)).collect();
            for (offer, one) in offers.iter().zip(&alone) {
                let peek = one.account(key).at(now).peek_n(cost);
                let foreseen = peek.parts().next().unwrap();
                prop_assert_eq!(numbers(&offer.part()), numbers(&foreseen), "an offer is what a peek says");
            }
            let outcome = together(&mut offers);
            let decision = list.check_n(key, cost);
            prop_assert_eq!(outcome, decision.outcome());
            for (offer, part) in offers.iter().zip(decision.parts()) {
                prop_assert_eq!(numbers(&offer.part()), numbers(&part));
            }
            let mut listed: Vec<_> = offering.account(key).at(now).offers(cost).collect();
            prop_assert_eq!(together(&mut listed), decision.outcome());
            for offer in &listed {
                let part = decision.parts().nth(offer.part().number()).unwrap();
                prop_assert_eq!(numbers(&offer.part()), numbers(&part));
            }
            let listed: Vec<Kept> = listed.into_iter().map(|offer| offer.keep()).collect();
            let said: Vec<_> = offers.iter().map(|offer| numbers(&offer.part())).collect();
            let kept: Vec<Kept> = offers.into_iter().map(|offer| offer.keep()).collect();
            for ((one, kept), said) in alone.iter().zip(&kept).zip(said) {
                let shown = one.show(kept).expect("it is this limiter's");
                prop_assert_eq!(numbers(&shown), said, "what is kept shows the same");
            }
            if give_back {
                let back: Vec<u64> =
                    alone.iter().zip(kept).map(|(one, kept)| one.refund(kept.receipt())).collect();
                let expected = list.refund(decision);
                prop_assert_eq!(back.into_iter().min().unwrap_or(0), expected);
                let back = listed.into_iter().rev().map(|kept| offering.refund(kept.receipt()));
                prop_assert_eq!(back.min().unwrap_or(0), expected);
            }
        }
    }
}
