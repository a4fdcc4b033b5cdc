//! Whether the limit held, and the memory stayed within the announced size.

use super::footprint::Footprint;
use crate::failure::Failure;

/// What the counts of a run say about the limit.
pub(super) struct Verdict {
    /// The most that any key may be admitted.
    pub(super) bound: u128,
    /// The key that was admitted most often.
    pub(super) top_key: usize,
    pub(super) top_admitted: u64,
    /// How many keys were admitted more often than the bound.
    pub(super) keys_beyond: usize,
    /// The memory, where it is judged as well.
    pub(super) footprint: Option<Footprint>,
}

impl Verdict {
    /// Compares how often each key was admitted with the bound.
    pub(super) fn new(bound: u128, admitted: &[u64], footprint: Option<Footprint>) -> Self {
        let keys = admitted.iter().copied().enumerate();
        let top = keys.clone().rev().max_by_key(|&(_, admitted)| admitted);
        let (top_key, top_admitted) = top.unwrap_or_default();
        let keys_beyond = keys.filter(|&(_, admitted)| u128::from(admitted) > bound).count();
        Self { bound, top_key, top_admitted, keys_beyond, footprint }
    }

    /// An error when a promise is broken.
    pub(super) fn into_result(self) -> Result<(), Failure> {
        let Self { bound, top_key, top_admitted, keys_beyond, footprint } = self;
        if keys_beyond > 0 {
            return Err(Failure::PromiseBroken(format!(
                "the limit did not hold: key {top_key} was admitted {top_admitted} times, but the limit allows \
                 at most {bound} ({keys_beyond} keys beyond it)"
            )));
        }
        match footprint {
            Some(footprint) if !footprint.is_within() => Err(Failure::PromiseBroken(format!(
                "more memory than announced: the table takes {} bytes of at most {}, and the process grew by \
                 {} of at most {}",
                footprint.table,
                footprint.announced,
                footprint.grown.unwrap_or_default(),
                footprint.allowed()
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_did_not_hold_is_reported_with_numbers() {
        assert!(Verdict::new(7, &[7, 0, 3], None).into_result().is_ok());
        let failure = Verdict::new(7, &[8, 0, 9, 7], None).into_result().expect_err("two keys are beyond it");
        assert!(matches!(failure, Failure::PromiseBroken(_)), "that is exit code 1");
        let message = failure.to_string();
        assert!(message.contains("key 2 was admitted 9 times"), "{message}");
        assert!(message.contains("at most 7 (2 keys"), "{message}");
    }

    #[test]
    fn more_memory_than_announced_is_named_with_its_numbers() {
        let footprint = Footprint { table: 4_096, announced: 1_024, grown: Some(8_192), threads: 1 };
        let verdict = Verdict::new(7, &[7], Some(footprint));
        let failure = verdict.into_result().expect_err("the table takes more");
        assert!(matches!(failure, Failure::PromiseBroken(_)), "that is exit code 1");
        let message = failure.to_string();
        assert!(message.contains("4096 bytes of at most 1024"), "{message}");
        assert!(message.contains("grew by 8192"), "{message}");
    }
}
