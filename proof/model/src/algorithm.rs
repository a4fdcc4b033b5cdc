//! The algorithms and their parameters.

/// One limit: an algorithm and its parameters. All times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Admits at most `burst + rate * D` in any interval of length D, with `rate = count / period`.
    TokenBucket {
        /// Tokens that each period adds.
        count: u64,
        /// The period.
        period_ns: u64,
        /// The tokens of a full bucket.
        burst: u64,
        /// The tokens of every bucket at the clock's zero; at most `burst`.
        initial: u64,
        /// Quantises the refill to this many grains for each token; `None` is exact.
        grains: Option<u64>,
    },
    /// A token bucket that gains all tokens of a period at once, at the end of each aligned period.
    IntervalBucket {
        /// Tokens that each period adds.
        count: u64,
        /// The period.
        period_ns: u64,
        /// The position of the clock's zero on the grid of periods.
        origin_ns: u64,
        /// The tokens of a full bucket.
        burst: u64,
        /// The tokens of every bucket at the clock's zero; at most `burst`.
        initial: u64,
    },
    /// A bucket from which units leak at `count / period`; a request that would overflow it is
    /// refused.
    LeakyMeter {
        /// Units that leak out during each period.
        count: u64,
        /// The period.
        period_ns: u64,
        /// How many units the bucket holds.
        capacity: u64,
        /// Quantises the leak to this many grains for each unit; `None` is exact.
        grains: Option<u64>,
    },
    /// A leaky bucket as a queue: requests that fit depart one after the other, and the answer says
    /// when.
    LeakyQueue {
        /// Units that depart during each period.
        count: u64,
        /// The period.
        period_ns: u64,
        /// How many units fit, including the one that departs next.
        capacity: u64,
        /// Quantises the clock to this many grains for each unit; `None` is exact.
        grains: Option<u64>,
    },
    /// At most `limit` in each aligned window. Around a boundary up to twice as many can pass.
    FixedWindow {
        /// The most that a window admits.
        limit: u64,
        /// The length of a window.
        window_ns: u64,
        /// The position of the clock's zero on the grid of windows.
        origin_ns: u64,
        /// Which requests are counted.
        count: CountPolicy,
        /// The highest count that is kept; at least `limit`.
        ceiling: u64,
    },
    /// At most `limit` in each window, which begins with a key's first admitted request.
    FirstHitWindow {
        /// The most that a window admits.
        limit: u64,
        /// The length of a window.
        window_ns: u64,
        /// Counts time in ticks of so many nanoseconds; 1 is exact.
        tick_ns: u64,
        /// Which requests are counted.
        count: CountPolicy,
        /// The highest count that is kept; at least `limit`.
        ceiling: u64,
    },
    /// The estimate `previous * overlap + current` never exceeds `limit` when a request is
    /// admitted.
    SlidingWindow {
        /// The most that a window admits.
        limit: u64,
        /// The length of a window.
        window_ns: u64,
        /// The position of the clock's zero on the grid of windows.
        origin_ns: u64,
        /// Which requests are counted.
        count: CountPolicy,
        /// The highest count that is kept; at least `limit`.
        ceiling: u64,
        /// A finished window's count is rounded up to a multiple of this; 1 is exact.
        granule: u64,
    },
    /// The current sub-window and the last `subwindows` before it never hold more than `limit`.
    SubWindows {
        /// The most that any interval of the window's length admits.
        limit: u64,
        /// The length of the whole window.
        window_ns: u64,
        /// The number of parts of the window.
        subwindows: u32,
        /// The position of the clock's zero on the grid of sub-windows.
        origin_ns: u64,
        /// Which requests are counted.
        count: CountPolicy,
        /// The highest count that is kept for one sub-window; at least `limit`.
        ceiling: u64,
        /// A finished sub-window's count is rounded up to a multiple of this; 1 is exact.
        granule: u64,
    },
    /// At most `limit` in the window `(t - W, t]` for every t, by the times of all admissions.
    SlidingLog {
        /// The most that any interval of the window's length admits.
        limit: u64,
        /// The length of the window.
        window_ns: u64,
        /// Which requests are logged.
        count: CountPolicy,
    },
}

/// Which requests use up a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountPolicy {
    /// Only allowed requests.
    Allowed,
    /// Allowed and refused requests: a client that keeps trying stays refused. A request that can
    /// never be allowed (cost above the limit) is not counted.
    All,
}
