//! What a Redis client says: however its bytes are cut, the answers are the same, and whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_server::Settings;
use tollgate_server::probe::{Answered, RespProbe};

fuzz_target!(|data: &[u8]| {
    let Some((size, said)) = data.split_first() else { return };
    let settings = Settings::new("none.toml");
    let answers = |pieces: &mut dyn Iterator<Item = &[u8]>| RespProbe::new(1_000, &settings).answers(pieces);
    let whole = answers(&mut std::iter::once(said));
    assert!(is_whole(&whole), "{:?}", String::from_utf8_lossy(&whole.output));
    // Both tell the time.
    let tells_time = |word: &[u8]| said.windows(4).any(|bytes| bytes.eq_ignore_ascii_case(word));
    if !tells_time(b"TIME") && !tells_time(b"INFO") {
        assert_eq!(answers(&mut said.chunks(usize::from(*size).max(1))), whole);
    }
});

/// Whether the output is answers and nothing else.
fn is_whole(answered: &Answered) -> bool {
    let mut rest = &answered.output[..];
    let mut missing = 0_usize;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\r') {
        let (line, behind) = rest.split_at(end);
        let Some(behind) = behind.strip_prefix(b"\r\n") else { return false };
        let Some((kind, text)) = line.split_first() else { return false };
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        rest = behind;
        missing = missing.saturating_sub(1);
        match (kind, number) {
            (b'+' | b'-', _) | (b':', Some(_)) | (b'_', None) | (b'$', Some(-1)) => {}
            (b'$', Some(length)) => {
                let Some((_, behind)) = behind.split_at_checked(length as usize) else { return false };
                let Some(behind) = behind.strip_prefix(b"\r\n") else { return false };
                rest = behind;
            }
            (b'*', Some(elements)) => missing += elements as usize,
            (b'%', Some(keys)) => missing += 2 * keys as usize,
            _ => return false,
        }
    }
    rest.is_empty() && missing == 0
}
