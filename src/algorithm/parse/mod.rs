//! Quotas and rates from text, as [`Quota`]'s `Display` writes them.
//!
//! ```text
//!   token-bucket : 60 / min , burst=20 , initial=0
//!   ------------   --   ---   --------   ---------
//!   algorithm    count period  options, each at most once
//! ```
//!
//! Each part is parsed as a slice of the text, so that an error knows the offset of its part.

mod error;
mod number;
mod options;
#[cfg(feature = "serde")]
mod serde;

use std::str::FromStr;

pub use error::ParseQuotaError;

use crate::algorithm::{FixedWindow, LeakyBucket, Quota, SlidingLog, SlidingWindow, TokenBucket};
use crate::rate::Rate;
use error::Problem;
use options::Options;

/// The syntax of one algorithm.
#[derive(Debug)]
struct Syntax {
    algorithm: &'static str,
    /// An example of a whole limit with options.
    example: &'static str,
    /// The options as an error lists them. The name comes before `=`.
    options: &'static [&'static str],
}

const COUNT: &str = "count=allowed|all";

static SYNTAXES: [Syntax; 5] = [
    Syntax {
        algorithm: "token-bucket",
        example: "token-bucket:60/min,burst=20",
        options: &["burst=N", "initial=N", "intervals"],
    },
    Syntax {
        algorithm: "leaky-bucket",
        example: "leaky-bucket:10/s,capacity=20,queue",
        options: &["capacity=N", "queue", "meter", "mode=queue|meter"],
    },
    Syntax { algorithm: "fixed-window", example: "fixed-window:1000/h", options: &[COUNT, "first-hit"] },
    Syntax {
        algorithm: "sliding-window",
        example: "sliding-window:100/min,subwindows=4",
        options: &["subwindows=N", COUNT],
    },
    Syntax { algorithm: "sliding-log", example: "sliding-log:5/10s", options: &[COUNT] },
];

static ALGORITHMS: [&str; 5] =
    ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"];

/// A quota as text: `[ALGORITHM:]COUNT/PERIOD[,OPTION]...`
///
/// Without `ALGORITHM` the quota is a token bucket. Blanks between the parts are ignored, also
/// around `/` and `=` and before a unit: `10 / 1.5 h, burst = 20`. The
/// [display](std::fmt::Display) of a quota parses as the same quota.
///
/// * `ALGORITHM`: `token-bucket`, `leaky-bucket`, `fixed-window`, `sliding-window`, `sliding-log`.
/// * `COUNT`: a whole number. Underscores may separate its digits: `1_000`.
/// * `PERIOD`: a unit with an optional number before it: `min`, `10s`, `1.5h`. The units are `ns`,
///   `us`, `ms`, `s`, `min`, `h`, `d` and `w`. `m` and whole words (`minute`, `minutes`) work, too.
///   A month and a year have no fixed length: write `30d`, `365d`.
/// * `burst=N` and `initial=N`, of a token bucket: see [`TokenBucket`].
/// * `intervals`, of a token bucket: see [`TokenBucket::by_intervals`].
/// * `first-hit`, of a fixed window: see [`FixedWindow::from_first_hit`].
/// * `capacity=N`, and `queue` or `meter` (also `mode=queue`), of a leaky bucket, which is a meter
///   by default: see [`LeakyBucket`].
/// * `subwindows=N`, of a sliding window: see [`SlidingWindow`].
/// * `count=allowed` or `count=all`, of windows and logs: see [`CountPolicy`](crate::CountPolicy).
///
/// Any 64-bit number and any [`Duration`](std::time::Duration) can be written. `build` checks
/// whether a limiter can count that far, and its error names the number and its range.
///
/// # Examples
///
/// ```
/// use tollgate::{LeakyBucket, Quota, Rate, SlidingLog, TokenBucket};
///
/// let quota: Quota = "10/s,burst=20".parse()?;
/// assert_eq!(quota, TokenBucket::new(Rate::per_second(10)).burst(20).into());
/// let log = SlidingLog::new(Rate::per_minute(100));
/// assert_eq!("sliding-log:100/min".parse::<Quota>()?, log.into());
/// let queue = LeakyBucket::queue(Rate::per_second(10)).capacity(3);
/// assert_eq!("leaky-bucket:10/s,capacity=3,queue".parse::<Quota>()?, queue.into());
/// assert_eq!(quota.to_string().parse::<Quota>()?, quota);
///
/// let error = "fixed-window:5/10x".parse::<Quota>().unwrap_err();
/// assert_eq!(error.offset(), 17);
/// assert_eq!(
///     error.to_string(),
///     "\"x\" is no unit of time, expected ns, us, ms, s, min, h, d or w \
///      (e.g. fixed-window:1000/h)"
/// );
/// # Ok::<(), tollgate::ParseQuotaError>(())
/// ```
impl FromStr for Quota {
    type Err = ParseQuotaError;

    /// # Errors
    ///
    /// [`ParseQuotaError`] names the wrong part, its offset and the expected text, and shows a
    /// correct quota.
    fn from_str(text: &str) -> Result<Self, ParseQuotaError> {
        let (algorithm, rest) = text.split_once(':').map_or((None, text), |(name, rest)| (Some(name), rest));
        let syntax = match algorithm.map(str::trim) {
            None => Ok(&SYNTAXES[0]),
            Some(name) => SYNTAXES.iter().find(|syntax| syntax.algorithm == name).ok_or(name),
        };
        let syntax = syntax.map_err(|name| {
            Problem::new(name, "is no algorithm", &ALGORITHMS).of(text, SYNTAXES[0].example)
        })?;
        quota(syntax, rest).map_err(|problem| problem.of(text, syntax.example))
    }
}

fn quota<'t>(syntax: &Syntax, text: &'t str) -> Result<Quota, Problem<'t>> {
    let mut parts = text.split(',').map(str::trim);
    let rate = rate(parts.next().unwrap_or(text))?;
    let Options { burst, initial, intervals, first_hit, capacity, queue, subwindows, count } =
        Options::parse(syntax, parts)?;
    let count = count.unwrap_or_default();
    Ok(match syntax.algorithm {
        "token-bucket" => {
            let bucket = TokenBucket::new(rate);
            let bucket = burst.map_or(bucket, |tokens| bucket.burst(tokens));
            let bucket = initial.map_or(bucket, |tokens| bucket.initial(tokens));
            if intervals.is_some() { bucket.by_intervals().into() } else { bucket.into() }
        }
        "leaky-bucket" => {
            let bucket =
                if queue == Some(true) { LeakyBucket::queue(rate) } else { LeakyBucket::meter(rate) };
            capacity.map_or(bucket, |units| bucket.capacity(units)).into()
        }
        "fixed-window" => {
            let window = FixedWindow::new(rate).count(count);
            if first_hit.is_some() { window.from_first_hit().into() } else { window.into() }
        }
        "sliding-window" => {
            let window = SlidingWindow::new(rate).count(count);
            subwindows.map_or(window, |k| window.subwindows(k)).into()
        }
        _ => SlidingLog::new(rate).count(count).into(),
    })
}

fn rate(text: &str) -> Result<Rate, Problem<'_>> {
    let (count, period) =
        text.split_once('/').ok_or(Problem::new(text, "is no rate", &["COUNT/PERIOD, such as 60/min"]))?;
    Ok(Rate::new(number::whole(count.trim())?, number::period(period.trim())?))
}

/// A rate as text: `COUNT/PERIOD`, as [`Quota`]'s.
///
/// # Examples
///
/// ```
/// use tollgate::Rate;
///
/// assert_eq!("1_000/h".parse(), Ok(Rate::per_hour(1_000)));
/// ```
impl FromStr for Rate {
    type Err = ParseQuotaError;

    /// # Errors
    ///
    /// [`ParseQuotaError`] names the wrong part, its offset and the expected text.
    fn from_str(text: &str) -> Result<Self, ParseQuotaError> {
        rate(text.trim()).map_err(|problem| problem.of(text, "60/min"))
    }
}
