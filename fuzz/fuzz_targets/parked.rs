//! What a store reads back of parked requests: what is read is written again as it was, and no
//! record makes the proxy fail.
//!
//! The first byte says which of both, and the time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_proxy::park::ParkProbe;

fuzz_target!(|data: &[u8]| {
    let Some((first, stored)) = data.split_first() else { return };
    if first % 2 == 0 {
        let Some((written, is_sent)) = ParkProbe::request(stored) else { return };
        assert_eq!(ParkProbe::request(&written), Some((written.clone(), is_sent)));
        let body = |bytes: &[u8]| bytes.splitn(2, |byte| *byte == b'\n').nth(1).map(<[u8]>::to_vec);
        assert_eq!(body(&written), body(stored));
    } else {
        let now = if *first > 127 { u64::MAX } else { 0 };
        let Some(written) = ParkProbe::record(stored, now) else { return };
        assert_eq!(ParkProbe::record(&written, now), Some(written.clone()));
    }
});
