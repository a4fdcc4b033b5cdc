//! Any bytes as messages of Envoy's calls: answers that it can read. A call that is no call or is
//! refused charges nothing, and one that is admitted at most once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_server::probe::{CallAnswer, CallProbe};

fuzz_target!(|bytes: &[u8]| {
    let probe = CallProbe::new();
    for message in bytes.split(|byte| *byte == 0xff) {
        let before = probe.left();
        let answer = probe.message(message);
        let after = probe.left();
        assert!(
            after <= before && (answer == CallAnswer::Ok || after == before),
            "{answer:?} {before} {after}"
        );
    }
});
