//! Counts allowed and refused requests over time, in one pass and bounded memory.
//!
//! The length of a log is unknown before its end. So buckets begin a microsecond wide, and when a
//! record falls behind the last possible bucket, neighbours merge until it fits. Each width divides
//! the next, and buckets align to the calendar (weeks to Mondays). So merging is exact, and a bar
//! has a familiar length: five minutes, an hour, a week.
//!
//! ```text
//!   1 s    |3|0|2|5|1|0|          a record arrives at the seventh second of a six-bucket timeline
//!   5 s    |    11   | 0 ...|     five neighbours became one: nothing lost, room for more
//! ```

use super::calendar::{DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, MONDAY_BEFORE_EPOCH, SECOND, WEEK};

/// The most buckets a timeline holds.
const CAPACITY: u64 = 1024;

/// The widths of buckets; each divides the next.
const WIDTHS: [u64; 32] = [
    MICROSECOND,
    5 * MICROSECOND,
    10 * MICROSECOND,
    50 * MICROSECOND,
    100 * MICROSECOND,
    500 * MICROSECOND,
    MILLISECOND,
    5 * MILLISECOND,
    10 * MILLISECOND,
    50 * MILLISECOND,
    100 * MILLISECOND,
    500 * MILLISECOND,
    SECOND,
    5 * SECOND,
    15 * SECOND,
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    WEEK,
    2 * WEEK,
    4 * WEEK,
    8 * WEEK,
    24 * WEEK,
    48 * WEEK,
    240 * WEEK,
    480 * WEEK,
];

const _: () = {
    let mut i = 1;
    while i < WIDTHS.len() {
        assert!(WIDTHS[i].is_multiple_of(WIDTHS[i - 1]), "each width must divide the next");
        i += 1;
    }
    assert!(u64::MAX / WIDTHS[WIDTHS.len() - 1] < CAPACITY, "the last width must hold all of time");
};

/// How many requests of one bucket were allowed, and how many refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

impl Tally {
    /// Allowed and refused requests together.
    pub(crate) fn requests(self) -> u64 {
        self.allowed + self.denied
    }

    fn absorb(&mut self, other: Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
    }
}

/// Counts of allowed and refused requests over a span that is not known in advance.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    /// The width of the buckets is `WIDTHS[width_index]`.
    width_index: usize,
    /// The number of `buckets[0]`, counted in this width from the Monday before the epoch.
    first: u64,
    buckets: Vec<Tally>,
    /// The coarsest of second, millisecond and microsecond that divides every time so far.
    resolution: u64,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self { width_index: 0, first: 0, buckets: Vec::new(), resolution: SECOND }
    }

    /// Counts one decision. A time before the first one counts in the first bucket.
    ///
    /// # Cost
    /// One division and one addition. Merging takes some ten thousand additions in a whole replay.
    pub(crate) fn add(&mut self, t_ns: u64, allowed: bool) {
        while self.resolution > MICROSECOND && !t_ns.is_multiple_of(self.resolution) {
            self.resolution /= 1_000;
        }
        let mut number = bucket_number(t_ns, WIDTHS[self.width_index]);
        if self.buckets.is_empty() {
            self.first = number;
        }
        while number.saturating_sub(self.first) >= CAPACITY {
            self.widen();
            number = bucket_number(t_ns, WIDTHS[self.width_index]);
        }
        let offset = number.saturating_sub(self.first) as usize;
        if offset >= self.buckets.len() {
            self.buckets.resize(offset + 1, Tally::default());
        }
        let bucket = &mut self.buckets[offset];
        if allowed {
            bucket.allowed += 1;
        } else {
            bucket.denied += 1;
        }
    }

    /// The counts in at most `most` bars (unless the widths end), none finer than the log's own
    /// clock.
    pub(crate) fn bars(&self, most: usize) -> Bars {
        let mut coarse = self.clone();
        while coarse.width_index + 1 < WIDTHS.len()
            && (WIDTHS[coarse.width_index] < self.resolution || coarse.buckets.len() > most.max(1))
        {
            coarse.widen();
        }
        let width = WIDTHS[coarse.width_index];
        let start = (coarse.first * width).saturating_sub(MONDAY_BEFORE_EPOCH);
        Bars { start, width, tallies: coarse.buckets }
    }

    /// Merges buckets to the next width.
    fn widen(&mut self) {
        let ratio = WIDTHS[self.width_index + 1] / WIDTHS[self.width_index];
        let first = self.first / ratio;
        let mut merged: Vec<Tally> = Vec::new();
        for (number, tally) in (self.first..).zip(&self.buckets) {
            let offset = (number / ratio - first) as usize;
            if offset == merged.len() {
                merged.push(Tally::default());
            }
            merged[offset].absorb(*tally);
        }
        (self.width_index, self.first, self.buckets) = (self.width_index + 1, first, merged);
    }
}

fn bucket_number(t_ns: u64, width: u64) -> u64 {
    t_ns.saturating_add(MONDAY_BEFORE_EPOCH) / width
}

/// A timeline as bars of one width, without gaps.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    /// When the first bar begins.
    pub(crate) start: u64,
    /// How long every bar lasts.
    pub(crate) width: u64,
    pub(crate) tallies: Vec<Tally>,
}

impl Bars {
    /// When the bar at `index` begins.
    pub(crate) fn start_of(&self, index: usize) -> u64 {
        self.start.saturating_add(self.width.saturating_mul(index as u64))
    }

    /// When the last bar ends.
    pub(crate) fn end(&self) -> u64 {
        self.start_of(self.tallies.len())
    }

    /// The bar with the highest `measure`, and its index; the earliest of equals.
    pub(crate) fn peak(&self, measure: impl Fn(Tally) -> u64) -> Option<(usize, Tally)> {
        self.tallies.iter().copied().enumerate().rev().max_by_key(|&(_, tally)| measure(tally))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(tallies: &[Tally]) -> Tally {
        let mut sum = Tally::default();
        tallies.iter().for_each(|tally| sum.absorb(*tally));
        sum
    }

    #[test]
    fn merging_conserves_every_count() {
        let mut timeline = Timeline::new();
        let mut t = 1_768_435_200 * SECOND + 1;
        for i in 0..10_000_u64 {
            timeline.add(t, i % 3 != 0);
            t += (i + 1) * (i + 1) * MILLISECOND / 7;
            assert!(timeline.buckets.len() as u64 <= CAPACITY);
        }
        for most in [7, 100, 5_000] {
            let bars = timeline.bars(most);
            assert_eq!(total(&bars.tallies), Tally { allowed: 6_666, denied: 3_334 });
            assert!(bars.tallies.len() <= most);
        }
    }

    #[test]
    fn a_bar_holds_exactly_the_requests_of_its_time() {
        let mut timeline = Timeline::new();
        let times = (0..4_000_u64).map(|i| 1_000 * DAY + i * i * SECOND).collect::<Vec<_>>();
        times.iter().for_each(|&t| timeline.add(t, true));
        let bars = timeline.bars(200);
        for (index, tally) in bars.tallies.iter().enumerate() {
            let (from, to) = (bars.start_of(index), bars.start_of(index + 1));
            let inside = times.iter().filter(|&&t| (from..to).contains(&t)).count() as u64;
            assert_eq!(tally.allowed, inside);
        }
    }

    #[test]
    fn all_of_time_fits() {
        let mut timeline = Timeline::new();
        timeline.add(0, true);
        timeline.add(u64::MAX, false);
        assert_eq!(total(&timeline.bars(2_000).tallies), Tally { allowed: 1, denied: 1 });
        assert!(timeline.bars(100).tallies.len() <= 100);
    }

    #[test]
    fn a_time_before_the_first_counts_in_the_first_bucket() {
        let mut timeline = Timeline::new();
        timeline.add(50 * SECOND, true);
        timeline.add(20 * SECOND, false);
        assert_eq!(timeline.bars(9).tallies, [Tally { allowed: 1, denied: 1 }]);
    }

    #[test]
    fn bars_are_never_finer_than_the_clock_of_the_log() {
        let mut timeline = Timeline::new();
        (0..3).for_each(|i| timeline.add(i * SECOND, true));
        assert_eq!(timeline.bars(400).width, SECOND);
        timeline.add(3 * SECOND + 20 * MILLISECOND, true);
        assert_eq!(timeline.bars(400).width, 10 * MILLISECOND);
    }

    #[test]
    fn week_long_bars_begin_on_mondays() {
        let mut timeline = Timeline::new();
        (0..800).for_each(|i| timeline.add(20_000 * DAY + i * DAY, true));
        let bars = timeline.bars(150);
        assert_eq!(bars.width, WEEK);
        assert!(super::super::calendar::CalendarTime::at(bars.start).date().starts_with("Mon"));
    }
}
