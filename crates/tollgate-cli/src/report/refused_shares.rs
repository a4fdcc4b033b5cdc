//! Which share of a key's own requests was refused: a histogram of the refused keys.
//!
//! The bins are narrow at the low end and near 100 %: a key at 1 % met the limit by chance, a key
//! at 95 % sends far more than the limit allows.

use std::fmt;

use super::chart::{PAIR_FORMATS, PairFormat, Svg};
use super::contents::KeyTally;
use super::figures::{compact, counted, grouped};
use super::plot::{Scale, line, rectangle, text};

/// Left and right of the histogram, whose bars carry their counts and need no axis.
const MARGIN: f64 = 10.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 40.0;

/// The upper ends of the bins in per cent; a bin includes its upper end.
const BINS: [u64; 9] = [1, 2, 5, 10, 20, 50, 80, 90, 100];

/// The number of refused keys in each bin of shares.
pub(super) struct RefusedShares {
    bins: [u64; BINS.len()],
}

impl RefusedShares {
    pub(super) fn of(keys: &[KeyTally]) -> Self {
        let mut bins = [0; BINS.len()];
        for key in keys {
            // In 128 bits, because a hundred times a count may exceed 64.
            let holds =
                |bin: &u64| u128::from(key.denied) * 100 <= u128::from(*bin) * u128::from(key.requests);
            bins[BINS.iter().position(holds).unwrap_or(BINS.len() - 1)] += 1;
        }
        Self { bins }
    }

    /// The finding in one sentence.
    pub(super) fn sentence(&self) -> String {
        let total: u64 = self.bins.iter().sum();
        let mostly_refused: u64 = self.bins[6..].iter().sum();
        let seldom_refused: u64 = self.bins[..4].iter().sum();
        format!(
            "{} of {} lost at most a tenth of their requests, {} more than half.",
            if seldom_refused == 0 { "None".to_owned() } else { grouped(seldom_refused) },
            counted(total, "refused key"),
            if mostly_refused == 0 { "none".to_owned() } else { grouped(mostly_refused) }
        )
    }
}

impl fmt::Display for RefusedShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let highest = self.bins.iter().copied().max().unwrap_or(0).max(1);
        for (index, format) in PAIR_FORMATS.into_iter().enumerate() {
            let PairFormat { class, width, height } = format;
            let (id, title) =
                (format!("shares-{index}"), "Refused keys by the share of their requests refused");
            Svg { id: &id, class, width, height, title, description: &self.sentence() }.open(f, "")?;
            let x = Scale { from: (0.0, BINS.len() as f64), to: (MARGIN, width - MARGIN) };
            let y = Scale { from: (0.0, highest as f64), to: (height - BOTTOM, TOP) };
            let base = height - BOTTOM;
            for (bin, &count) in self.bins.iter().enumerate() {
                let (left, right) = (x.at(bin as f64) + 2.0, x.at(bin as f64 + 1.0) - 2.0);
                let top = if count == 0 { base } else { y.at(count as f64).min(base - 2.0) };
                rectangle(f, "refused", (left, top), (right - left, base - top))?;
                let middle = (left + right) / 2.0;
                let shown = if count == 0 { "–".to_owned() } else { compact(count) };
                text(f, "", (middle, top - 5.0), "middle", shown)?;
            }
            for (edge, percent) in std::iter::once(0).chain(BINS).enumerate() {
                let at = x.at(edge as f64);
                line(f, "tick", (at, base), (at, base + 4.0))?;
                text(f, "", (at, base + 16.0), "middle", percent)?;
            }
            line(f, "base", (MARGIN, base), (width - MARGIN, base))?;
            text(f, "", (width / 2.0, height - 5.0), "middle", "% of the key's own requests refused")?;
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
    fn a_share_falls_into_the_bin_up_to_its_end() {
        let shares = RefusedShares::of(&keys(&[1, 10, 11, 20, 21, 999, 1_000], 1_000));
        assert_eq!(shares.bins, [2, 2, 1, 0, 0, 0, 0, 0, 2]);
        let huge = RefusedShares::of(&[KeyTally { requests: u64::MAX, denied: u64::MAX }]);
        assert_eq!(huge.bins[BINS.len() - 1], 1);
    }
}
