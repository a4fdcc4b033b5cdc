//! What can be asked for: the algorithms and their parameters.

/// One limit: an algorithm and its parameters. All times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Admits at most `burst + rate * D` in any interval of length D, with `rate = count / period`.
    TokenBucket {
        /// Tokens that flow in during each period.
        count: u64,
        /// The period.
        period_ns: u64,
        /// What a full bucket holds.
        burst: u64,
        /// What every bucket holds when the clock stands at zero; at most `burst`.
        initial: u64,
        /// Quantises the refill to this many grains for each token; `None` is exact.
        grains: Option<u64>,
    },
    /// A bucket with a hole: every unit poured in leaks out at `count / period`; what would overflow is
    /// refused.
    LeakyMeter {
        /// Units that leak out during each period.
        count: u64,
        /// The period.
        period_ns: u64,
        /// What the bucket holds.
        capacity: u64,
        /// Quantises the leak to this many grains for each unit; `None` is exact.
        grains: Option<u64>,
    },
    /// The same bucket as a queue: what fits leaves one after the other, and the answer says when.
    LeakyQueue {
        /// Units that depart during each period.
        count: u64,
        /// The period.
        period_ns: u64,
        /// How many units fit, the one at the exit included.
        capacity: u64,
        /// Quantises the clock to this many grains for each unit; `None` is exact.
        grains: Option<u64>,
    },
    /// At most `limit` in each aligned window. Around a boundary up to twice as many can pass.
    FixedWindow {
        /// What one window admits.
        limit: u64,
        /// The length of a window.
        window_ns: u64,
        /// Where the clock's zero lies on the grid of windows.
        origin_ns: u64,
        /// Which requests are counted.
        count: CountPolicy,
        /// The highest count that is kept; at least `limit`.
        ceiling: u64,
    },
    /// The estimate `previous * overlap + current` never exceeds `limit` when a request is admitted.
    SlidingWindow {
        /// What one window admits.
        limit: u64,
        /// The length of a window.
        window_ns: u64,
        /// Where the clock's zero lies on the grid of windows.
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
        /// What any interval of the window's length admits at most.
        limit: u64,
        /// The length of the whole window.
        window_ns: u64,
        /// Into how many parts the window is cut.
        subwindows: u32,
        /// Where the clock's zero lies on the grid of sub-windows.
        origin_ns: u64,
        /// Which requests are counted.
        count: CountPolicy,
        /// The highest count that is kept for one sub-window; at least `limit`.
        ceiling: u64,
        /// A finished sub-window's count is rounded up to a multiple of this; 1 is exact.
        granule: u64,
    },
    /// At most `limit` in the window `(t - W, t]` for every t, by remembering when each was admitted.
    SlidingLog {
        /// What any interval of the window's length admits.
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
    /// Only those that were allowed.
    Allowed,
    /// All that could have been allowed, refused ones included: who keeps knocking stays out. A request
    /// that can never be allowed (cost above the limit) is not counted.
    All,
}
