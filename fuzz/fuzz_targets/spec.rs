//! Any text as a limit: an error with an example, or a limit that survives printing and can be
//! used.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::{Limiter, Quota};
use tollgate_cli::{Spec, probe};

/// A trace to try the limit: a check, a check that most limits refuse, and a wait.
const TRACE: &str = "\
{\"t_ns\":1700000000000000000,\"key\":\"a\"}
{\"t_ns\":1700000000000000001,\"key\":\"a\",\"cost\":18446744073709551615}
{\"t_ns\":1700000001000000000,\"key\":\"a\",\"cost\":2}
";

/// A limiter with more memory tests nothing new about the text.
const MAX_MEMORY: usize = 1 << 26;

fuzz_target!(|text: &str| {
    let quota: Quota = match text.parse::<Quota>() {
        Ok(quota) => quota,
        Err(error) => {
            assert!(text[error.offset()..].starts_with(error.found()), "{text:?}: {error:?}");
            assert!(error.hint().parse::<Quota>().is_ok(), "{error}");
            assert!(!error.expected().is_empty(), "{error:?}");
            return;
        }
    };
    let printed = quota.to_string();
    assert_eq!(printed.parse(), Ok(quota), "{text:?} prints as {printed:?}");
    let spec = Spec::from(quota);
    let printed = spec.to_string();
    assert_eq!(printed.parse(), Ok(spec), "{text:?} prints as {printed:?}");
    let memory = Limiter::builder(spec.quota()).per::<[u8]>().max_keys(8).memory();
    if memory.as_ref().is_ok_and(|memory| *memory > MAX_MEMORY) {
        return;
    }
    match probe::replay(spec, 8, TRACE.as_bytes()) {
        Ok(told) => {
            assert!(memory.is_ok(), "{printed}: refused, and then accepted");
            assert!(told.iter().all(|told| told.decision.starts_with("{\"line\":")), "{told:?}");
        }
        Err(said) => {
            assert!(memory.is_err(), "{printed}: accepted, and then refused: {said}");
            assert!(said.starts_with(&format!("the limit {printed}: ")), "{said}");
        }
    }
});
