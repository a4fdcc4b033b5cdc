//! What decides while the store does not.

use tollgate::{BuildError, Clock, Decision, Limiter, MOST_LIMITS, Quota, TscClock};
use tollgate_rules::local_share;

/// What happens to a request when the store fails.
///
/// | | admits while the store is unreachable | may refuse wrongly |
/// |---|---|---|
/// | [`Local`](Self::Local) | the shares of the nodes that are cut off | up to `(n - 1)/n` of it |
/// | [`Allow`](Self::Allow) | everything | nothing |
/// | [`Refuse`](Self::Refuse) | nothing | everything |
/// | [`Error`](Self::Error) | what the caller decides | what the caller decides |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// This node's own limiters decide, each with its share of the limit: a limit of 150 is a local
    /// limit of 50 for each of 3 nodes.
    ///
    /// The local limiters are never reset, neither when they begin to decide nor when they end, and
    /// the store never learns what they admitted. So, over every interval of length `W`, however
    /// often the store fails and returns, all together admit at most
    /// `(1 + k/nodes) * (burst + rate * W)`, where `k` nodes were cut off.
    ///
    /// A share is at least 1: with more nodes than the limit has units, the factor is
    /// `1 + k/burst` instead. A cost above the share is refused until the store is back.
    Local {
        /// How many nodes share the limit, at least 1. A number that is too small admits more, one
        /// that is too large less.
        nodes: u32,
    },
    /// The request is admitted. While the store fails, there is no limit.
    Allow,
    /// The request is refused.
    Refuse,
    /// The caller gets the [`Failed`](crate::Failed) and decides.
    #[default]
    Error,
}

/// What gives a local charge back.
pub(crate) type LocalReceipt = Box<tollgate::Receipt<MOST_LIMITS>>;

/// The local limiters of a node.
#[derive(Debug)]
pub(crate) struct Local<C: Clock = TscClock> {
    limiter: Limiter<[u8], Quota, MOST_LIMITS, C>,
}

impl Local {
    /// Limiters of this node's share of the quotas.
    ///
    /// # Errors
    ///
    /// No nodes, or a share that the engine cannot represent.
    pub(crate) fn new(quotas: &[Quota], nodes: u32) -> Result<Self, BuildError> {
        Self::with_clock(quotas, nodes, TscClock::new())
    }
}

impl<C: Clock + 'static> Local<C> {
    pub(crate) fn with_clock(quotas: &[Quota], nodes: u32, clock: C) -> Result<Self, BuildError> {
        Ok(Self { limiter: local_share(quotas, nodes, clock)? })
    }

    /// Gives up to so many units of a charge back; returns how many.
    pub(crate) fn refund(&self, receipt: &mut LocalReceipt, units: u64) -> u64 {
        self.limiter.refund_part(receipt, units)
    }

    /// Decides a request, and charges its local limits.
    pub(crate) fn check_n(&self, key: &[u8], cost: u64) -> Decision<'_, MOST_LIMITS> {
        self.limiter.check_n(key, cost)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tollgate::{ManualClock, Quota, Rate, TokenBucket};

    use super::*;

    const RATE: u64 = 100;
    const BURST: u64 = 30;
    const NODES: usize = 3;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Nodes reach the store or not, as it happens; every interval is counted.
        #[test]
        fn flapping_admits_at_most_the_limit_and_the_shares(
            cut in 1..=NODES,
            steps in prop::collection::vec((0..NODES, any::<bool>(), 0_u64..40, 1_u64..6), 100..400),
        ) {
            let clock = ManualClock::new();
            let quota = Quota::from(TokenBucket::new(Rate::per_second(RATE)).burst(BURST));
            let store = Limiter::builder(vec![quota]).per::<[u8]>().clock(clock.clone()).build().unwrap();
            let local = || Local::with_clock(&[quota], NODES as u32, clock.clone()).unwrap();
            let nodes: Vec<_> = (0..NODES).map(|_| local()).collect();
            let (mut now, mut admitted) = (0, Vec::new());
            for (node, reaches, millis, cost) in steps {
                clock.advance(Duration::from_millis(millis));
                now += millis;
                let reaches = reaches || node >= cut;
                let decider = if reaches { &store } else { &nodes[node].limiter };
                if decider.check_n(b"k", cost).is_allowed() {
                    admitted.push((now, cost));
                }
            }
            for (first, &(from, _)) in admitted.iter().enumerate() {
                let mut sum = 0;
                for &(to, cost) in &admitted[first..] {
                    sum += cost;
                    // (1 + k/N) * (burst + rate * W), in thousandths of a unit.
                    let bound = (NODES + cut) as u64 * (BURST * 1_000 + RATE * (to - from));
                    prop_assert!(sum * 1_000 * NODES as u64 <= bound, "{sum} in {} ms", to - from);
                }
            }
        }
    }
}
