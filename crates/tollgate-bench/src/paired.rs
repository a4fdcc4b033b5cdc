//! Figures of programs that took turns, compared round by round.

use crate::measure::Spread;

/// The fewest rounds whose range contains the median with a confidence of 95 %.
pub(crate) const MIN_ROUNDS: u32 = 6;

/// Returns how much figures exceed those of another program in the same rounds: the median and its
/// confidence interval.
pub(crate) fn excess(figures: &[f64], others: &[f64]) -> String {
    let percents = figures.iter().zip(others).map(|(one, other)| (one / other - 1.0) * 100.0).collect();
    let (low, median, high) = interval(percents);
    format!("{median:+.1} % ({low:+.1} .. {high:+.1})")
}

/// Returns how many times as large figures are as those of another program in the same rounds: the
/// median and its confidence interval.
pub(crate) fn ratio(figures: &[f64], others: &[f64]) -> (f64, f64, f64) {
    interval(figures.iter().zip(others).map(|(one, other)| one / other).collect())
}

/// Returns the median between the ends of its confidence interval.
fn interval(mut figures: Vec<f64>) -> (f64, f64, f64) {
    figures.sort_by(f64::total_cmp);
    let median = Spread::of(figures.clone()).median;
    let (low, high) = median_interval(figures.len());
    (figures[low], median, figures[high])
}

/// Returns the indices of the two sorted figures that contain the median of their distribution with
/// a confidence of 95 %. With fewer than [`MIN_ROUNDS`] figures, these are the first and the last.
fn median_interval(count: usize) -> (usize, usize) {
    // The number of figures below the median is binomial with probability 1/2. The interval is 1.96
    // standard deviations to each side.
    let margin = 1.96 * (count as f64).sqrt() / 2.0;
    let least = (count as f64 / 2.0 - margin).floor().max(1.0) as usize - 1;
    (least, count - 1 - least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_interval_has_a_confidence_of_95_percent() {
        // The whole range of a few figures; about two standard deviations to each side of many.
        assert_eq!([1, 5, 10, 25, 100].map(median_interval), [(0, 0), (0, 4), (0, 9), (6, 18), (39, 60)]);
        for count in 1..=200_u32 {
            // The probability that at most `least` figures are on one side of the median.
            let least = median_interval(count as usize).0 as u32;
            let next_term = |term: &mut f64, k: u32| {
                let current = *term;
                *term *= f64::from(count - k) / f64::from(k + 1);
                Some(current)
            };
            let outside = 2.0 * (0..=least).scan(0.5_f64.powi(count as i32), next_term).sum::<f64>();
            assert_eq!(outside <= 0.05, count >= MIN_ROUNDS, "{outside} of {count}");
        }
    }

    #[test]
    fn programs_are_compared_within_each_round() {
        assert_eq!(ratio(&[2.0, 30.0, 8.0], &[1.0, 10.0, 2.0]), (2.0, 3.0, 4.0));
        assert_eq!(excess(&[11.0, 22.0], &[10.0, 20.0]), "+10.0 % (+10.0 .. +10.0)");
    }
}
