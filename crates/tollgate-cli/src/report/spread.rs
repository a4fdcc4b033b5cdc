//! How refusals spread over keys: is it everybody a little, or one a lot?
//!
//! Two drawings answer. The *concentration* curve lines the refused keys up, most refused first, and
//! shows what part of all refusals the first of them took: a straight line when all took alike, a steep
//! rise when a few took most. The *share* histogram counts keys by the part of their own requests that
//! was refused, in steps that widen from either end: a key at 1 % met the limit by chance, a key at 95 %
//! lives beyond it.

use std::fmt::{self, Write as _};

use super::KeyTally;
use super::chart::{Scale, Svg, label, line};
use super::figures::{compact, counted, grouped, percent};

/// A width at which these are drawn.
#[derive(Debug, Clone, Copy)]
struct Format {
    class: &'static str,
    width: f64,
    height: f64,
}

const FORMATS: [Format; 2] = [
    Format { class: "roomy", width: 500.0, height: 300.0 },
    Format { class: "snug", width: 350.0, height: 250.0 },
];

const LEFT: f64 = 46.0;
const RIGHT: f64 = 16.0;
/// Left and right of a histogram, whose bars carry their counts and need no axis.
const MARGIN: f64 = 10.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 40.0;

/// The most points a curve is drawn with.
const POINTS: usize = 160;

/// Refused keys lined up by refusals, most refused first.
pub(super) struct Concentration {
    /// Refusals of the first, of the first two, and so on; the last is all of them.
    cumulative: Vec<u64>,
}

impl Concentration {
    pub(super) fn of(keys: &[KeyTally]) -> Self {
        let mut cumulative: Vec<u64> = keys.iter().map(|key| key.denied).collect();
        cumulative.sort_unstable_by(|a, b| b.cmp(a));
        let mut sum = 0;
        for denied in &mut cumulative {
            sum += *denied;
            *denied = sum;
        }
        Self { cumulative }
    }

    fn total(&self) -> u64 {
        self.cumulative.last().copied().unwrap_or(0)
    }

    /// How many of the most refused keys it takes for four fifths of all refusals, and what they took.
    fn four_fifths(&self) -> (usize, u64) {
        let enough = self.total() - self.total() / 5;
        let index = self.cumulative.partition_point(|&sum| sum < enough);
        (index + 1, self.cumulative.get(index).copied().unwrap_or(0))
    }

    /// The finding in one sentence.
    pub(super) fn sentence(&self) -> String {
        let (keys, taken) = self.four_fifths();
        let all = self.cumulative.len();
        match (keys, all) {
            (_, 0) => "No key was refused.".to_owned(),
            (_, 1) => "One key took every refusal.".to_owned(),
            (1, _) => format!(
                "One of {} refused keys took {} of all refusals.",
                grouped(all as u64),
                percent(taken, self.total())
            ),
            _ => format!(
                "{} of {} refused keys ({}) took {} of all refusals.",
                grouped(keys as u64),
                grouped(all as u64),
                percent(keys as u64, all as u64),
                percent(taken, self.total())
            ),
        }
    }
}

impl fmt::Display for Concentration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, format) in FORMATS.into_iter().enumerate() {
            let Format { class, width, height } = format;
            let (id, title) = (format!("concentration-{index}"), "How few keys took most refusals");
            Svg { id: &id, class, width, height, title, description: &self.sentence() }.open(f, "")?;
            let x = Scale { from: (0.0, self.cumulative.len() as f64), to: (LEFT, width - RIGHT) };
            let y = Scale { from: (0.0, self.total() as f64), to: (height - BOTTOM, TOP) };
            for fifth in 0..=5 {
                let at = y.at(self.total() as f64 * fifth as f64 / 5.0);
                line(f, "grid", (LEFT, at), (width - RIGHT, at))?;
                label(f, (LEFT - 6.0, at + 4.0), "end", percent(fifth, 5))?;
            }
            for quarter in 0..=4 {
                let at = x.at(self.cumulative.len() as f64 * quarter as f64 / 4.0);
                label(f, (at, height - BOTTOM + 16.0), "middle", percent(quarter, 4))?;
            }
            label(
                f,
                ((LEFT + width - RIGHT) / 2.0, height - 5.0),
                "middle",
                "of refused keys, most refused first",
            )?;
            line(f, "even", (x.at(0.0), y.at(0.0)), (width - RIGHT, TOP))?;
            let curve = self.curve(x, y);
            let base = height - BOTTOM;
            writeln!(f, r#"<path class="under" d="{curve}V{base:.1}H{LEFT}Z"/>"#)?;
            writeln!(f, r#"<path class="curve" d="{curve}"/>"#)?;
            let (keys, taken) = self.four_fifths();
            let (at, up) = (x.at(keys as f64), y.at(taken as f64));
            writeln!(f, r#"<circle class="mark" cx="{at:.1}" cy="{up:.1}" r="4.5"/>"#)?;
            let note = format!("{}: {}", counted(keys as u64, "key"), percent(taken, self.total()));
            // The curve bends to the right: above and left of it, and below and right of it, is room.
            let (place, at, up) =
                if at > width * 0.5 { ("end", at - 9.0, up - 7.0) } else { ("start", at + 10.0, up + 18.0) };
            label(f, (at, up), place, note)?;
            f.write_str("</svg>\n")?;
        }
        Ok(())
    }
}

impl Concentration {
    fn curve(&self, x: Scale, y: Scale) -> String {
        let mut path = format!("M{:.1} {:.1}", x.at(0.0), y.at(0.0));
        let stride = self.cumulative.len().div_ceil(POINTS).max(1);
        let last = self.cumulative.len().saturating_sub(1);
        for (index, sum) in self.cumulative.iter().enumerate() {
            if index < POINTS / 4 || index % stride == 0 || index == last {
                // Writing to a String cannot fail.
                let _ = write!(path, "L{:.1} {:.1}", x.at(index as f64 + 1.0), y.at(*sum as f64));
            }
        }
        path
    }
}

/// The upper ends of the histogram's bins in per cent; each bin holds its upper end.
const BINS: [u64; 9] = [1, 2, 5, 10, 20, 50, 80, 90, 100];

/// Refused keys counted by the share of their own requests that was refused.
pub(super) struct Shares {
    bins: [u64; BINS.len()],
}

impl Shares {
    pub(super) fn of(keys: &[KeyTally]) -> Self {
        let mut bins = [0; BINS.len()];
        for key in keys {
            // In 128 bits: a hundred times a count may not fit in 64.
            let holds =
                |bin: &u64| u128::from(key.denied) * 100 <= u128::from(*bin) * u128::from(key.requests);
            bins[BINS.iter().position(holds).unwrap_or(BINS.len() - 1)] += 1;
        }
        Self { bins }
    }

    /// The finding in one sentence.
    pub(super) fn sentence(&self) -> String {
        let total: u64 = self.bins.iter().sum();
        let most: u64 = self.bins[6..].iter().sum();
        let few: u64 = self.bins[..4].iter().sum();
        format!(
            "{} of {} lost at most a tenth of their requests, {} more than half.",
            if few == 0 { "None".to_owned() } else { grouped(few) },
            counted(total, "refused key"),
            if most == 0 { "none".to_owned() } else { grouped(most) }
        )
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let highest = self.bins.iter().copied().max().unwrap_or(0).max(1);
        for (index, format) in FORMATS.into_iter().enumerate() {
            let Format { class, width, height } = format;
            let (id, title) =
                (format!("shares-{index}"), "Refused keys by the share of their requests refused");
            Svg { id: &id, class, width, height, title, description: &self.sentence() }.open(f, "")?;
            let x = Scale { from: (0.0, BINS.len() as f64), to: (MARGIN, width - MARGIN) };
            let y = Scale { from: (0.0, highest as f64), to: (height - BOTTOM, TOP) };
            let base = height - BOTTOM;
            for (bin, &count) in self.bins.iter().enumerate() {
                let (left, right) = (x.at(bin as f64) + 2.0, x.at(bin as f64 + 1.0) - 2.0);
                let top = if count == 0 { base } else { y.at(count as f64).min(base - 2.0) };
                writeln!(
                    f,
                    r#"<rect class="refused" x="{left:.1}" y="{top:.1}" width="{:.1}" height="{:.1}"/>"#,
                    right - left,
                    base - top
                )?;
                let middle = (left + right) / 2.0;
                let shown = if count == 0 { "–".to_owned() } else { compact(count) };
                label(f, (middle, top - 5.0), "middle", shown)?;
            }
            for (edge, percent) in std::iter::once(0).chain(BINS).enumerate() {
                let at = x.at(edge as f64);
                line(f, "tick", (at, base), (at, base + 4.0))?;
                label(f, (at, base + 16.0), "middle", percent)?;
            }
            line(f, "base", (MARGIN, base), (width - MARGIN, base))?;
            label(f, (width / 2.0, height - 5.0), "middle", "% of the key's own requests refused")?;
            f.write_str("</svg>\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(denied: &[u64], requests: u64) -> Vec<KeyTally> {
        denied.iter().map(|&denied| KeyTally { requests, denied }).collect()
    }

    #[test]
    fn the_fewest_keys_with_four_fifths_are_named() {
        let spread = Concentration::of(&keys(&[1, 70, 10, 9, 10], 100));
        assert_eq!(spread.four_fifths(), (2, 80));
        assert!(spread.sentence().starts_with("2 of 5 refused keys"));
        assert_eq!(Concentration::of(&keys(&[9], 9)).sentence(), "One key took every refusal.");
    }

    #[test]
    fn a_million_keys_make_a_short_curve() {
        let spread = Concentration::of(&keys(&vec![3; 1_000_000], 10));
        let unit = Scale { from: (0.0, 1.0), to: (0.0, 1.0) };
        let points = spread.curve(unit, unit).matches('L').count();
        assert!((POINTS..POINTS * 3 / 2).contains(&points), "{points}");
    }

    #[test]
    fn a_share_falls_into_the_bin_that_ends_at_or_above_it() {
        let shares = Shares::of(&keys(&[1, 10, 11, 20, 21, 999, 1_000], 1_000));
        assert_eq!(shares.bins, [2, 2, 1, 0, 0, 0, 0, 0, 2]);
        let huge = Shares::of(&[KeyTally { requests: u64::MAX, denied: u64::MAX }]);
        assert_eq!(huge.bins[BINS.len() - 1], 1);
    }
}
