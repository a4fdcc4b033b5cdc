//! How a connection begins: however its bytes are cut, the first window of HTTP/2 is the same, and
//! it is what the client's settings say.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_net::web::OpeningProbe;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// That of a client that does not say it.
const DEFAULT: u32 = 65_535;

fuzz_target!(|data: &[u8]| {
    let Some((size, said)) = data.split_first() else { return };
    // Most inputs would not begin so.
    for said in [said.to_vec(), [PREFACE, said].concat()] {
        let window = OpeningProbe::window([&said[..]]);
        assert_eq!(OpeningProbe::window(said.chunks(usize::from(*size).max(1))), window);
        let Some(frames) = said.strip_prefix(PREFACE) else {
            assert_eq!(window, 0);
            continue;
        };
        let setting = [&[0, 4], &window.to_be_bytes()[..]].concat();
        let is_said = frames.windows(6).any(|bytes| bytes == setting);
        assert!(window == 0 || window == DEFAULT || is_said, "{window}");
    }
});
