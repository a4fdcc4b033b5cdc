//! Limits as text: `ALGORITHM:COUNT/PERIOD[,option=value]...`
//!
//! ```text
//!   token-bucket : 60 / min , burst=20
//!   ------------   --   ---   --------
//!   algorithm    count period  options, each at most once
//! ```
//!
//! A [`Spec`] prints the same syntax, so what is printed can be given back.

mod error;
mod limit;
mod number;
mod options;
mod period;
mod refusal;

use std::str::FromStr;

use tollgate::{CountPolicy, Rate};

pub use error::BadSpec;
pub use limit::Spec;
pub(crate) use number::within;
pub(crate) use period::period;
pub(crate) use refusal::{problem, refusal};

use options::Options;

/// The algorithms, each with an example that shows its options.
const ALGORITHMS: [(&str, &str); 5] = [
    ("token-bucket", "token-bucket:60/min,burst=20"),
    ("leaky-bucket", "leaky-bucket:10/s,capacity=20,mode=queue"),
    ("fixed-window", "fixed-window:1000/h"),
    ("sliding-window", "sliding-window:100/min,subwindows=6"),
    ("sliding-log", "sliding-log:5/10s"),
];

impl FromStr for Spec {
    type Err = BadSpec;

    /// Reads a limit. The error says which part is wrong, what would be right there, and shows an example.
    fn from_str(text: &str) -> Result<Self, BadSpec> {
        let (algorithm, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some((algorithm, example)) = ALGORITHMS.into_iter().find(|(name, _)| *name == algorithm) else {
            return Err(BadSpec::algorithm(algorithm));
        };
        let bad = |problem: String| BadSpec::new(problem, example);
        let mut parts = rest.split(',');
        let rate = rate(parts.next().unwrap_or_default()).map_err(bad)?;
        let options = Options::read(algorithm, parts).map_err(bad)?;
        with(algorithm, rate, &options).map_err(bad)
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let Some((count, period_text)) = text.split_once('/') else {
        return Err(format!("{text:?} is not COUNT/PERIOD, such as 60/min"));
    };
    let count = number::whole(count).map_err(|problem| format!("the count {problem}"))?;
    Ok(Rate::new(count, period(period_text)?))
}

fn with(algorithm: &str, rate: Rate, options: &Options<'_>) -> Result<Spec, String> {
    Ok(match algorithm {
        "token-bucket" => {
            let burst = options.number("burst")?.unwrap_or(rate.count());
            Spec::TokenBucket { rate, burst, initial: options.number("initial")?.unwrap_or(burst) }
        }
        "leaky-bucket" => {
            let capacity = options.number("capacity")?.unwrap_or(rate.count());
            let queue = options.choice("mode", [("meter", false), ("queue", true)])?.unwrap_or(false);
            Spec::LeakyBucket { rate, capacity, queue }
        }
        "fixed-window" => Spec::FixedWindow { rate, count: count(options)? },
        "sliding-window" => {
            // Beyond a u32 the engine refuses it anyway, and says how many fit.
            let subwindows = options.number("subwindows")?.map(|k| u32::try_from(k).unwrap_or(u32::MAX));
            Spec::SlidingWindow { rate, subwindows, count: count(options)? }
        }
        _ => Spec::SlidingLog { rate, count: count(options)? },
    })
}

fn count(options: &Options<'_>) -> Result<CountPolicy, String> {
    let choice = options.choice("count", [("allowed", CountPolicy::Allowed), ("all", CountPolicy::All)])?;
    Ok(choice.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{FixedWindow, LeakyBucket, Quota, SlidingLog, SlidingWindow, TokenBucket};

    use super::*;

    fn spec(text: &str) -> Spec {
        text.parse().expect(text)
    }

    fn error(text: &str) -> String {
        text.parse::<Spec>().expect_err(text).to_string()
    }

    #[test]
    fn every_part_means_what_it_says() {
        let rate = Rate::new(5, Duration::from_secs(10));
        let cases: [(&str, Quota); 9] = [
            ("token-bucket:5/10s", TokenBucket::new(rate).into()),
            ("token-bucket:60/min,burst=20", TokenBucket::new(Rate::per_minute(60)).burst(20).into()),
            ("token-bucket:1_000/h,initial=0", TokenBucket::new(Rate::per_hour(1000)).initial(0).into()),
            ("leaky-bucket:5/10s", LeakyBucket::meter(rate).into()),
            ("leaky-bucket:5/10s,mode=queue,capacity=3", LeakyBucket::queue(rate).capacity(3).into()),
            ("fixed-window:5/10s,count=all", FixedWindow::new(rate).count(CountPolicy::All).into()),
            ("sliding-window:5/10s,count=allowed", SlidingWindow::new(rate).into()),
            ("sliding-window:5/10s,subwindows=6", SlidingWindow::new(rate).subwindows(6).into()),
            ("sliding-log:3/250ms", SlidingLog::new(Rate::new(3, Duration::from_millis(250))).into()),
        ];
        for (text, expected) in cases {
            assert_eq!(spec(text).quota(), expected, "{text}");
        }
    }

    #[test]
    fn what_a_quota_prints_reads_back_as_the_same_quota() {
        let periods = ["ns", "7us", "250ms", "1.5s", "s", "90s", "min", "h", "36h", "d", "1000d"];
        let shapes = [
            "token-bucket:3/P",
            "token-bucket:3/P,burst=1,initial=1",
            "leaky-bucket:3/P,capacity=7",
            "leaky-bucket:3/P,mode=queue",
            "fixed-window:3/P",
            "fixed-window:3/P,count=all",
            "sliding-window:3/P,subwindows=4,count=all",
            "sliding-window:3/P",
            "sliding-log:3/P",
            "sliding-log:3/P,count=all",
        ];
        for period in periods {
            for shape in shapes {
                let once = spec(&shape.replace('P', period));
                assert_eq!(spec(&once.to_string()), once, "{shape} with {period}");
            }
        }
    }

    #[test]
    fn an_error_points_at_the_part_names_the_choices_and_gives_an_example() {
        let cases = [
            ("tokenbucket:1/s", &["\"tokenbucket\"", "token-bucket, leaky-bucket", "e.g."][..]),
            ("", &["token-bucket, leaky-bucket"]),
            ("token-bucket", &["COUNT/PERIOD", "token-bucket:60/min,burst=20"]),
            ("fixed-window:x/s", &["\"x\"", "whole number", "fixed-window:1000/h"]),
            ("fixed-window:/s", &["the count", "fixed-window:1000/h"]),
            ("fixed-window:99999999999999999999/s", &["18446744073709551615"]),
            ("fixed-window:1/fortnight", &["\"fortnight\"", "ns, us, ms, s, min, h, d"]),
            ("fixed-window:1/0s", &["\"0s\"", "longer than nothing"]),
            ("fixed-window:1/s,burst=3", &["\"burst\"", "fixed-window", "count=allowed|all"]),
            ("token-bucket:1/s,burst=3,burst=4", &["burst", "twice"]),
            ("token-bucket:1/s,burst", &["\"burst\"", "option=value"]),
            ("token-bucket:1/s,burst=", &["burst", "whole number"]),
            ("leaky-bucket:1/s,mode=drip", &["\"drip\"", "meter, queue"]),
            ("sliding-log:1/s,count=some", &["\"some\"", "allowed, all"]),
        ];
        for (text, parts) in cases {
            let error = error(text);
            for part in parts {
                assert!(error.contains(part), "{text}: {error} lacks {part}");
            }
        }
    }
}
