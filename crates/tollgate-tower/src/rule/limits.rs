//! Limits that are charged together, and how they announce themselves.

use std::time::Duration;

use http::HeaderValue;
use tollgate::{BuildError, Inherit, Quota};

use super::Asked;
use super::announced::Announced;
use super::engine::{Engine, Ruled};
use super::vacant::{Place, Vacant};
use crate::headers::{LARGEST_INTEGER, Showing, join, seconds_up};

/// The limits of a rule, of one of its tiers, or of one key.
pub(crate) struct Limits {
    pub(crate) engine: Engine,
    /// A bit for each that may make a request wait, by its number.
    queues: u64,
    /// In the order in which the limits were given.
    names: Box<[Box<str>]>,
    announced: Announced,
    vacant: Vacant,
}

impl Limits {
    pub(crate) fn new(rule: &str, quotas: &[Quota], engine: Engine) -> Self {
        let mut names: Vec<Box<str>> = Vec::with_capacity(quotas.len());
        for (number, quota) in quotas.iter().enumerate() {
            let mut name =
                if quotas.len() == 1 { rule.to_owned() } else { format!("{rule}/{}", period(quota)) };
            if names.iter().any(|other| **other == *name) {
                name = format!("{name}-{}", number + 1);
            }
            names.push(name.into());
        }
        Self {
            engine,
            queues: queues(quotas),
            announced: Announced::new(policies(&names, quotas)),
            names: names.into(),
            vacant: Vacant::default(),
        }
    }

    /// Puts other quotas in force and announces them.
    pub(crate) fn reconfigure(&self, quotas: &[Quota], inherit: Inherit) -> Result<(), BuildError> {
        self.vacant.change(|| {
            if quotas.len() == self.names.len() && queues(quotas) != self.queues {
                return Err(BuildError::CannotInherit { field: "mode" });
            }
            self.engine.reconfigure(quotas, inherit)?;
            self.announced.change(policies(&self.names, quotas));
            Ok(())
        })
    }

    /// Whether any of them may make a request wait.
    #[inline]
    pub(crate) fn may_queue(&self) -> bool {
        self.queues != 0
    }

    /// The number of the queue that is the longest, and how long until nobody is left in it.
    pub(crate) fn longest_queue(&self, ruled: &Ruled<'_>) -> Option<(usize, Duration)> {
        let queues = (0..self.names.len()).filter(|number| self.queues & (1 << number) != 0);
        queues.map(|number| (number, ruled.queue_time(number))).max_by_key(|(_, time)| *time)
    }

    /// How often the limits were changed: to be read before a place is charged.
    pub(crate) fn era(&self) -> u64 {
        self.vacant.era()
    }

    /// A place that somebody left, no later than in `max_wait`. What costs nothing needs none.
    pub(crate) fn vacant_place(&self, asked: Asked<'_>, max_wait: Duration) -> Option<Place> {
        if asked.cost == 0 || self.vacant.is_empty() {
            return None;
        }
        let now = self.engine.now();
        self.vacant.take(asked.key, asked.cost, now, now + max_wait)
    }

    /// Gives back what a request was charged, and the place where it waited to whoever comes next if the engine cannot.
    pub(crate) fn give_back(&self, ruled: Ruled<'_>, place: Option<Place>) {
        // Of several limits the others give back, too, and whoever took the place would not be charged by them.
        let place = place.filter(|_| matches!(ruled, Ruled::One(_)));
        let given_back = self.engine.refund(ruled);
        if let Some(place) = place
            && given_back == 0
        {
            self.vacant.leave(place, self.engine.now());
        }
    }

    /// The names of the limits, by which responses tell them apart.
    pub(crate) fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// The name of a limit by its number.
    pub(crate) fn name(&self, number: usize) -> &str {
        &self.names[number]
    }

    /// Shows what each limit says of a decision; of a refusal, those that refuse.
    pub(crate) fn show(&self, ruled: &Ruled<'_>, showing: &mut Showing<'_>) {
        let admitted = ruled.is_allowed();
        ruled.each(|number, refuses, numbers| {
            if admitted || refuses {
                showing.limit(self.name(number), numbers);
            }
        });
    }

    /// How those of them announce themselves for which there is a bit, by its number.
    pub(crate) fn policy_of(&self, some: u64) -> Option<HeaderValue> {
        let policies = self.announced.each().enumerate().filter(|(number, _)| some & (1 << number) != 0);
        join(policies.map(|(_, policy)| policy))
    }

    /// How all of the limits announce themselves.
    pub(crate) fn policy(&self) -> Option<HeaderValue> {
        self.announced.all()
    }

    /// The same, limit by limit.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &str> {
        self.announced.each()
    }
}

/// A bit for each that may make a request wait, by its number.
fn queues(quotas: &[Quota]) -> u64 {
    quotas
        .iter()
        .enumerate()
        .fold(0, |queues, (number, quota)| queues | u64::from(quota.is_queue()) << number)
}

fn policies(names: &[Box<str>], quotas: &[Quota]) -> Vec<String> {
    let policy = |(name, quota): (_, &Quota)| {
        format!("\"{name}\";q={};w={}", quota.limit().min(LARGEST_INTEGER), window(quota))
    };
    names.iter().zip(quotas).map(policy).collect()
}

/// The period as it is written in rates: `s`, `min`, `h`, `d`, `10s`.
fn period(quota: &Quota) -> String {
    let rate = quota.rate().to_string();
    match rate.split_once('/') {
        Some((_, period)) if period.is_ascii() => period.to_owned(),
        // The standard library writes microseconds with a Greek letter.
        _ => format!("{}ns", quota.rate().period().as_nanos()),
    }
}

/// The seconds, rounded up, in which all of the limit comes back.
fn window(quota: &Quota) -> u64 {
    let rate = quota.rate();
    let nanos =
        rate.period().as_nanos().saturating_mul(quota.limit().into()) / u128::from(rate.count().max(1));
    seconds_up(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate::{FixedWindow, LeakyBucket, ManualClock, Rate, TokenBucket, WhenFull};

    use crate::rule::SharedClock;

    use super::*;

    fn announced(quotas: &[Quota]) -> Vec<String> {
        let clock: SharedClock = Arc::new(ManualClock::new());
        let engine = Engine::new(quotas, None, WhenFull::default(), clock).unwrap();
        Limits::new("api", quotas, engine).policies().map(str::to_owned).collect()
    }

    #[test]
    fn a_policy_says_the_limit_and_the_seconds_in_which_it_comes_back() {
        assert_eq!(
            announced(&[TokenBucket::new(Rate::per_second(10)).burst(25).into()]),
            ["\"api\";q=25;w=3"]
        );
        assert_eq!(
            announced(&[LeakyBucket::queue(Rate::per_second(10)).capacity(3).into()]),
            ["\"api\";q=3;w=1"]
        );
    }

    #[test]
    fn a_policy_stays_within_what_a_structured_field_can_hold() {
        let vast = TokenBucket::new(Rate::per_second(1_000_000_000)).burst(10_000_000_000_000_000);
        assert_eq!(announced(&[vast.into()]), ["\"api\";q=999999999999999;w=10000000"]);
    }

    #[test]
    fn several_limits_are_told_apart_by_their_periods() {
        let rates = [
            Rate::per_second(10),
            Rate::per_hour(1_000),
            Rate::new(5, Duration::from_secs(10)),
            Rate::new(1, Duration::from_micros(7)),
            Rate::per_hour(2_000),
        ];
        assert_eq!(
            announced(&rates.map(|rate| FixedWindow::new(rate).into())),
            [
                "\"api/s\";q=10;w=1",
                "\"api/h\";q=1000;w=3600",
                "\"api/10s\";q=5;w=10",
                "\"api/7000ns\";q=1;w=1",
                "\"api/h-5\";q=2000;w=3600"
            ]
        );
    }
}
