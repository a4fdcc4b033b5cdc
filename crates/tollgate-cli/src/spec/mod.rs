//! Limits of the command line: the text of a [`Quota`], and the engine's errors in the words of the
//! options.

mod limit;
mod number;
mod period;
mod refusal;

use std::str::FromStr;

use tollgate::Quota;

pub use limit::Spec;
pub(crate) use number::within;
pub(crate) use period::period;
pub(crate) use refusal::{problem, refusal};
pub use tollgate::ParseQuotaError as BadSpec;

impl FromStr for Spec {
    type Err = BadSpec;

    /// Reads a limit. The error names the wrong part and the valid choices, with an example.
    fn from_str(text: &str) -> Result<Self, BadSpec> {
        text.parse::<Quota>().map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{
        CountPolicy, FixedWindow, LeakyBucket, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket,
    };

    use super::*;

    #[test]
    fn a_limit_is_the_quota_of_its_text() {
        let rate = Rate::per_minute(60);
        let quotas: [Quota; 11] = [
            TokenBucket::new(rate).burst(20).into(),
            TokenBucket::new(rate).initial(0).into(),
            LeakyBucket::meter(rate).capacity(7).into(),
            TokenBucket::new(rate).by_intervals().into(),
            FixedWindow::new(rate).from_first_hit().into(),
            LeakyBucket::queue(rate).into(),
            FixedWindow::new(rate).count(CountPolicy::All).into(),
            SlidingWindow::new(rate).into(),
            SlidingWindow::new(rate).subwindows(6).count(CountPolicy::All).into(),
            SlidingLog::new(rate).into(),
            SlidingLog::new(rate).count(CountPolicy::All).into(),
        ];
        for quota in quotas {
            let spec: Spec = quota.to_string().parse().expect("a quota");
            assert_eq!((spec.quota(), spec.to_string()), (quota, quota.to_string()));
        }
        assert_eq!("60/min,burst=20".parse::<Spec>().map(Spec::quota), Ok(quotas[0]));
    }
}
