//! Any bytes as a body of `/json`: an answer of JSON. A body that is no call or is refused charges
//! nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_server::probe::{CallAnswer, CallProbe};

fuzz_target!(|bytes: &[u8]| {
    let probe = CallProbe::new();
    for body in bytes.split(|byte| *byte == 0xff) {
        let before = probe.left();
        let (answer, told) = probe.json(body);
        let after = probe.left();
        assert!(
            after <= before && (answer == CallAnswer::Ok || after == before),
            "{answer:?} {before} {after}"
        );
        assert_eq!(told["overallCode"] == "OK", answer == CallAnswer::Ok, "{told}");
    }
});
