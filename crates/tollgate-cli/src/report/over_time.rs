//! The chart of the timeline: bars of allowed requests above the base line, of refused ones below
//! it, to one scale. So the two kinds can be distinguished without colour.

use std::fmt::{self, Write as _};

use super::axis::time_ticks;
use super::calendar::{CalendarTime, DAY};
use super::chart::Svg;
use super::figures::{compact, grouped, per_unit, span};
use super::plot::{Scale, count_step, line, text};
use super::timeline::{Bars, Tally, Timeline};

/// A page width at which the timeline is drawn.
#[derive(Debug, Clone, Copy)]
struct Format {
    class: &'static str,
    width: f64,
    height: f64,
    most_bars: usize,
}

const FORMATS: [Format; 3] = [
    Format { class: "over-time wide", width: 1080.0, height: 330.0, most_bars: 400 },
    Format { class: "over-time middle", width: 680.0, height: 300.0, most_bars: 260 },
    Format { class: "over-time narrow", width: 350.0, height: 260.0, most_bars: 120 },
];

/// With few requests there are few bars, because most of more would be empty; but at least this
/// many.
const FEWEST_BARS: usize = 30;

const LEFT: f64 = 46.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 42.0;
/// The least height of a bar, so that a single refusal among many requests can be seen.
const MIN_HEIGHT: f64 = 2.0;
/// The largest width of a bar.
const MAX_WIDTH: f64 = 64.0;
/// The least height below the base line if there are refusals.
const MIN_HEIGHT_BELOW: f64 = 14.0;

/// The bars of the widest drawing. The sentences about time on the page refer to these.
pub(super) fn widest_bars(timeline: &Timeline, requests: u64) -> Bars {
    timeline.bars(max_bars(FORMATS[0], requests))
}

fn max_bars(format: Format, requests: u64) -> usize {
    usize::try_from(requests / 3).unwrap_or(usize::MAX).clamp(FEWEST_BARS, format.most_bars)
}

/// When a bar begins, as precisely as its width needs.
pub(super) fn bar_name(bars: &Bars, index: usize) -> String {
    let time = CalendarTime::at(bars.start_of(index));
    if bars.width >= DAY { time.date() } else { format!("{} {}", time.date(), time.clock(bars.width)) }
}

/// The timeline at every width.
pub(super) struct OverTime<'a> {
    pub(super) timeline: &'a Timeline,
    pub(super) requests: u64,
}

impl fmt::Display for OverTime<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, format) in FORMATS.into_iter().enumerate() {
            let bars = self.timeline.bars(max_bars(format, self.requests));
            Drawing { id: &format!("over-time-{index}"), format, bars: &bars }.fmt(f)?;
        }
        Ok(())
    }
}

struct Drawing<'a> {
    id: &'a str,
    format: Format,
    bars: &'a Bars,
}

impl Drawing<'_> {
    fn x(&self) -> Scale {
        Scale { from: (0.0, self.bars.tallies.len() as f64), to: (LEFT, self.format.width - RIGHT) }
    }

    /// Maps counts to heights; refused counts are negative.
    fn y(&self, highest: Tally) -> Scale {
        let (top, bottom) = (TOP, self.format.height - BOTTOM);
        let height = bottom - top;
        let total = highest.requests().max(1) as f64;
        let below = match highest.denied {
            0 => 0.0,
            denied => (height * denied as f64 / total).max(MIN_HEIGHT_BELOW),
        };
        let above = if highest.allowed == 0 { 0.0 } else { height - below };
        let unit = if highest.allowed > 0 { above / highest.allowed as f64 } else { height / total };
        Scale { from: (0.0, 1.0), to: (top + above, top + above - unit) }
    }

    /// The outline of all bars of one kind as one shape, so that no seams show between neighbours.
    fn outline(&self, y: Scale, signed: impl Fn(Tally) -> f64) -> String {
        let (x, base) = (self.x(), y.at(0.0));
        let pitch = x.at(1.0) - x.at(0.0);
        let gap = if pitch >= 5.0 { (pitch - MAX_WIDTH).max(1.0) } else { 0.0 };
        // A wide gap is split between both sides of a bar; a narrow one is on its right.
        let before = if gap > 1.0 { gap / 2.0 } else { 0.0 };
        let mut path = format!("M{LEFT} {base:.1}");
        for (index, tally) in self.bars.tallies.iter().enumerate() {
            let value = signed(*tally);
            let height = if value == 0.0 { base } else { visible_end(base, y.at(value)) };
            let start = x.at(index as f64) + before;
            // Writing to a String cannot fail.
            if gap > 0.0 {
                let _ = write!(path, "V{base:.1}H{start:.1}");
            }
            let _ = write!(path, "V{height:.1}H{:.1}", start + pitch - gap);
        }
        path + &format!("V{base:.1}Z")
    }

    /// The numbers that the script shows for each bar: `name|allowed|refused`, separated by
    /// semicolons.
    fn readouts(&self) -> String {
        let bars = self.bars;
        let readout = |(index, tally): (usize, &Tally)| {
            format!("{}|{}|{}", bar_name(bars, index), tally.allowed, tally.denied)
        };
        bars.tallies.iter().enumerate().map(readout).collect::<Vec<_>>().join(";")
    }

    fn count_axis(&self, f: &mut fmt::Formatter<'_>, y: Scale, highest: Tally) -> fmt::Result {
        let step = count_step(highest.requests(), 5);
        let right = self.format.width - RIGHT;
        let above = (1..=highest.allowed / step).map(|i| (i, 1.0));
        let below = (1..=highest.denied / step).map(|i| (i, -1.0));
        for (i, sign) in above.chain(below) {
            let at = y.at(sign * (i * step) as f64);
            line(f, "grid", (LEFT, at), (right, at))?;
            text(f, "", (LEFT - 6.0, at + 4.0), "end", compact(i * step))?;
        }
        text(f, "", (LEFT - 6.0, y.at(0.0) + 4.0), "end", 0)
    }

    fn time_axis(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Format { width, height, .. } = self.format;
        let (start, end) = (self.bars.start, self.bars.end());
        let x = Scale { from: (0.0, (end - start) as f64), to: (LEFT, width - RIGHT) };
        let most = ((width - LEFT - RIGHT) / 72.0) as usize;
        let floor = height - BOTTOM;
        for tick in time_ticks(start, end, self.bars.width, most) {
            let at = x.at((tick.at - start) as f64);
            line(f, "tick", (at, floor), (at, floor + 5.0))?;
            // A centred label at the right edge would be cut off.
            let (anchor, at) = if at > width - 26.0 { ("end", width) } else { ("middle", at) };
            text(f, "", (at, floor + 18.0), anchor, &tick.label)?;
            if let Some(context) = &tick.context {
                text(f, "", (at, floor + 34.0), anchor, context)?;
            }
        }
        Ok(())
    }
}

/// The end of a bar from `base` to `end`, which must be high enough to see.
fn visible_end(base: f64, end: f64) -> f64 {
    if end < base { end.min(base - MIN_HEIGHT) } else { end.max(base + MIN_HEIGHT) }
}

impl fmt::Display for Drawing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Format { class, width, height, .. } = self.format;
        let peak = |measure: fn(Tally) -> u64| self.bars.peak(measure).unwrap_or_default();
        let (busiest, most_denied) = (peak(Tally::requests), peak(|tally| tally.denied));
        let highest = Tally { allowed: peak(|tally| tally.allowed).1.allowed, denied: most_denied.1.denied };
        let y = self.y(highest);
        let mut description = format!(
            "{} bars of {} each. The busiest, {}, holds {} requests.",
            self.bars.tallies.len(),
            span(self.bars.width),
            bar_name(self.bars, busiest.0),
            grouped(busiest.1.requests()),
        );
        if most_denied.1.denied > 0 {
            let (when, count) = (bar_name(self.bars, most_denied.0), grouped(most_denied.1.denied));
            let _ = write!(description, " The most refusals, {count}, are in the bar of {when}.");
        }
        let title = "Allowed and refused requests over time";
        let svg = Svg { id: self.id, class, width, height, title, description: &description };
        let (right, floor) = (width - RIGHT, height - BOTTOM);
        svg.open(f, &format!(r#" data-left="{LEFT}" data-right="{right}" data-bars="{}""#, self.readouts()))?;
        text(f, "", (0.0, 12.0), "start", format_args!("requests per {}", per_unit(self.bars.width)))?;
        self.count_axis(f, y, highest)?;
        writeln!(f, r#"<path class="allowed" d="{}"/>"#, self.outline(y, |tally| tally.allowed as f64))?;
        let below = self.outline(y, |tally| -(tally.denied as f64));
        writeln!(f, r#"<path class="refused" d="{below}"/><path class="hatched" d="{below}"/>"#)?;
        line(f, "base", (LEFT, y.at(0.0)), (right, y.at(0.0)))?;
        writeln!(f, r#"<rect class="cursor" x="0" y="{TOP}" width="0" height="{}"/>"#, floor - TOP)?;
        self.time_axis(f)?;
        f.write_str("</svg>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(decisions: &[(u64, bool)]) -> String {
        let mut timeline = Timeline::new();
        decisions.iter().for_each(|&(t, allowed)| timeline.add(t, allowed));
        OverTime { timeline: &timeline, requests: decisions.len() as u64 }.to_string()
    }

    #[test]
    fn every_drawing_has_a_title_and_a_description() {
        let drawn = drawn(&[(0, true), (5_000_000_000, false)]);
        assert_eq!(drawn.matches("<svg").count(), FORMATS.len());
        assert_eq!(drawn.matches("<title").count(), FORMATS.len());
        assert_eq!(drawn.matches("The most refusals, 1,").count(), FORMATS.len());
    }

    #[test]
    fn every_coordinate_is_a_finite_number() {
        let cases: [&[(u64, bool)]; 5] = [
            &[],
            &[(0, true)],
            &[(u64::MAX, false)],
            &[(0, false), (u64::MAX, true)],
            &[(1, true), (2, false), (2_000_000, true)],
        ];
        for case in cases {
            let drawn = drawn(case);
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{case:?}");
        }
    }

    #[test]
    fn a_single_refusal_among_thousands_can_be_seen() {
        assert_eq!(visible_end(100.0, 100.01), 102.0);
        assert_eq!(visible_end(100.0, 99.99), 98.0);
        assert_eq!(visible_end(100.0, 40.0), 40.0);
    }
}
