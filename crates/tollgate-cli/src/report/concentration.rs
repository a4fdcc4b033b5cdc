//! How concentrated refusals are: what part of them did the most refused keys get?
//!
//! The curve takes the refused keys in the order of their refusals, most refused first, and shows
//! the part of all refusals that the first of them got. It is straight when all keys were refused
//! alike, and steep when a few keys got most refusals.

use std::fmt::{self, Write as _};

use super::chart::{PAIR_FORMATS, PairFormat, Svg};
use super::contents::KeyTally;
use super::figures::{counted, grouped, percent};
use super::plot::{Scale, line, text};

const LEFT: f64 = 46.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 40.0;

/// The most points of the curve.
const MAX_POINTS: usize = 160;

/// The refused keys in the order of their refusals, most refused first.
pub(super) struct Concentration {
    /// The refusals of the first key, of the first two, and so on.
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

    /// The fewest keys that got four fifths of all refusals, and how many refusals they got.
    fn four_fifths(&self) -> (usize, u64) {
        let enough = self.total() - self.total() / 5;
        let index = self.cumulative.partition_point(|&sum| sum < enough);
        (index + 1, self.cumulative.get(index).copied().unwrap_or(0))
    }

    /// The finding in one sentence.
    pub(super) fn sentence(&self) -> String {
        let (keys, refusals) = self.four_fifths();
        let all = self.cumulative.len();
        match (keys, all) {
            (_, 0) => "No key was refused.".to_owned(),
            (_, 1) => "One key got every refusal.".to_owned(),
            (1, _) => format!(
                "One of {} refused keys got {} of all refusals.",
                grouped(all as u64),
                percent(refusals, self.total())
            ),
            _ => format!(
                "{} of {} refused keys ({}) got {} of all refusals.",
                grouped(keys as u64),
                grouped(all as u64),
                percent(keys as u64, all as u64),
                percent(refusals, self.total())
            ),
        }
    }
}

impl fmt::Display for Concentration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, format) in PAIR_FORMATS.into_iter().enumerate() {
            let PairFormat { class, width, height } = format;
            let (id, title) = (format!("concentration-{index}"), "How few keys got most refusals");
            Svg { id: &id, class, width, height, title, description: &self.sentence() }.open(f, "")?;
            let x = Scale { from: (0.0, self.cumulative.len() as f64), to: (LEFT, width - RIGHT) };
            let y = Scale { from: (0.0, self.total() as f64), to: (height - BOTTOM, TOP) };
            for fifth in 0..=5 {
                let at = y.at(self.total() as f64 * fifth as f64 / 5.0);
                line(f, "grid", (LEFT, at), (width - RIGHT, at))?;
                text(f, "", (LEFT - 6.0, at + 4.0), "end", percent(fifth, 5))?;
            }
            for quarter in 0..=4 {
                let at = x.at(self.cumulative.len() as f64 * quarter as f64 / 4.0);
                text(f, "", (at, height - BOTTOM + 16.0), "middle", percent(quarter, 4))?;
            }
            text(
                f,
                "",
                ((LEFT + width - RIGHT) / 2.0, height - 5.0),
                "middle",
                "of refused keys, most refused first",
            )?;
            line(f, "even", (x.at(0.0), y.at(0.0)), (width - RIGHT, TOP))?;
            let curve = self.curve(x, y);
            let base = height - BOTTOM;
            writeln!(f, r#"<path class="under" d="{curve}V{base:.1}H{LEFT}Z"/>"#)?;
            writeln!(f, r#"<path class="curve" d="{curve}"/>"#)?;
            let (keys, refusals) = self.four_fifths();
            let (at, up) = (x.at(keys as f64), y.at(refusals as f64));
            writeln!(f, r#"<circle class="mark" cx="{at:.1}" cy="{up:.1}" r="4.5"/>"#)?;
            let note = format!("{}: {}", counted(keys as u64, "key"), percent(refusals, self.total()));
            // The curve bends to the right: there is room above it on the left, below it on the
            // right.
            let (anchor, at, up) =
                if at > width * 0.5 { ("end", at - 9.0, up - 7.0) } else { ("start", at + 10.0, up + 18.0) };
            text(f, "", (at, up), anchor, note)?;
            f.write_str("</svg>\n")?;
        }
        Ok(())
    }
}

impl Concentration {
    fn curve(&self, x: Scale, y: Scale) -> String {
        let mut path = format!("M{:.1} {:.1}", x.at(0.0), y.at(0.0));
        let stride = self.cumulative.len().div_ceil(MAX_POINTS).max(1);
        let last = self.cumulative.len().saturating_sub(1);
        for (index, sum) in self.cumulative.iter().enumerate() {
            if index < MAX_POINTS / 4 || index % stride == 0 || index == last {
                // Writing to a String cannot fail.
                let _ = write!(path, "L{:.1} {:.1}", x.at(index as f64 + 1.0), y.at(*sum as f64));
            }
        }
        path
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
        let concentration = Concentration::of(&keys(&[1, 70, 10, 9, 10], 100));
        assert_eq!(concentration.four_fifths(), (2, 80));
        assert!(concentration.sentence().starts_with("2 of 5 refused keys"));
        assert_eq!(Concentration::of(&keys(&[9], 9)).sentence(), "One key got every refusal.");
    }

    #[test]
    fn a_million_keys_make_a_short_curve() {
        let concentration = Concentration::of(&keys(&vec![3; 1_000_000], 10));
        let unit = Scale { from: (0.0, 1.0), to: (0.0, 1.0) };
        let points = concentration.curve(unit, unit).matches('L').count();
        assert!((MAX_POINTS..MAX_POINTS * 3 / 2).contains(&points), "{points}");
    }
}
