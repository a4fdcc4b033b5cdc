//! An attempt that another charge overtakes.

use super::*;
use crate::algorithm::InFlightRule;
use crate::table::validity::Validity;
use crate::table::versioned::VersionedRef;
use crate::time::Timestamp;

const FINGERPRINT: Fingerprint = Fingerprint::from_bits(0x13);

/// How often a request of this cost was retried when another charge came in between, and
/// whether it was admitted.
fn overtaken(cost: u64) -> (u64, bool) {
    let (rule, validity) = (InFlightRule::new(9).unwrap(), Validity::endless(u64::MAX));
    let (slot, at) = (Slot::new(FINGERPRINT), rule.moment(Timestamp::ZERO));
    slot.give_to(FINGERPRINT, Payload::of(InFlightRule::weight(5)));
    let seen = slot.load();
    slot.give_to(FINGERPRINT, Payload::of(InFlightRule::weight(6)));
    let rule = VersionedRef { pure: &rule, validity: &validity };
    let (ask, mut retries) = (Ask { rule, fingerprint: FINGERPRINT, cost }, 0);
    let ruling = slot.charge(seen, ask, Ring::NONE, at, &mut retries).unwrap();
    (retries, ruling.allowed)
}

#[test]
fn a_refusal_that_was_tried_again_counts_nothing() {
    assert_eq!(overtaken(2), (1, true));
    // Admitted on the first word, refused on the second.
    assert_eq!(overtaken(4), (0, false));
}
