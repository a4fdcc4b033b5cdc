//! What all charts are drawn with: shapes in SVG, linear scales, and the marks of an axis. For the
//! report's page, and for the pictures of the benchmark. What writes a shape fails as its writer.

use std::fmt::{self, Display, Write};

pub use super::escape::Text;
pub use super::figures::{compact, decimal, span};
pub use crate::round_numbers::round_numbers;

/// A linear map from values to coordinates.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// The range of values.
    pub from: (f64, f64),
    /// The coordinates of its ends.
    pub to: (f64, f64),
}

impl Scale {
    /// Where a value lies. An empty range lies at its beginning.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = self.from;
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        self.to.0 + share * (self.to.1 - self.to.0)
    }
}

/// Writes a line of text, escaped, with a class unless it is empty. Its `anchor` is `start`,
/// `middle` or `end`.
pub fn text(
    f: &mut impl Write,
    class: &str,
    (x, y): (f64, f64),
    anchor: &str,
    text: impl Display,
) -> fmt::Result {
    let class = if class.is_empty() { String::new() } else { format!(r#" class="{class}""#) };
    let text = text.to_string();
    writeln!(f, r#"<text{class} x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#, Text(&text))
}

/// Writes a straight line.
pub fn line(f: &mut impl Write, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> fmt::Result {
    writeln!(f, r#"<path class="{class}" d="M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"/>"#)
}

/// Writes a rectangle by its upper left corner, its width and its height.
pub fn rectangle(f: &mut impl Write, class: &str, (x, y): (f64, f64), size: (f64, f64)) -> fmt::Result {
    let (width, height) = size;
    writeln!(f, r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"/>"#)
}

/// The least of 1, 2 and 5 times powers of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powi(least.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0].map(|digit| digit * power);
    steps.into_iter().find(|&step| step >= least).unwrap_or(10.0 * power)
}

/// The distance between the marks of an axis of counts up to `max`: the smallest of 1, 2 and 5
/// times powers of ten that gives at most `most` marks above zero.
#[must_use]
pub fn count_step(max: u64, most: u64) -> u64 {
    round_step((max as f64 + 1.0) / (most.max(1) as f64 + 1.0)).max(1.0) as u64
}

/// About five marks from zero to just past `most`, in steps of 1, 2 or 5 times a power of ten. The
/// last mark is the end of the axis.
#[must_use]
pub fn straight(most: f64) -> Vec<f64> {
    let step = round_step(most.max(f64::MIN_POSITIVE) / 5.0 * 0.999);
    let count = (most / step).ceil().max(1.0) as usize;
    (0..=count).map(|mark| mark as f64 * step).collect()
}

/// Powers of ten from below `least` to above `most`, both above zero.
#[must_use]
pub fn powers(least: f64, most: f64) -> Vec<f64> {
    let (low, high) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    (low..=high.max(low + 1)).map(|power| 10_f64.powi(power)).collect()
}

/// A mark of an axis: `20`, `0.5`.
#[must_use]
pub fn mark(value: f64) -> String {
    decimal(value).trim_end_matches(".0").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_maps_ends_and_an_empty_range() {
        let scale = Scale { from: (0.0, 10.0), to: (100.0, 0.0) };
        assert_eq!([scale.at(0.0), scale.at(5.0), scale.at(10.0)], [100.0, 50.0, 0.0]);
        assert_eq!(Scale { from: (3.0, 3.0), to: (7.0, 9.0) }.at(3.0), 7.0);
    }

    #[test]
    fn names_with_brackets_are_text() {
        let mut out = String::new();
        text(&mut out, "", (0.0, 1.0), "end", "Mutex<HashMap>").unwrap();
        assert_eq!(out, "<text x=\"0.0\" y=\"1.0\" text-anchor=\"end\">Mutex&lt;HashMap&gt;</text>\n");
    }

    #[test]
    fn counts_are_marked_by_one_two_or_five() {
        for (max, step) in [(0, 1), (4, 1), (5, 2), (9, 2), (17, 5), (206_860, 50_000)] {
            assert_eq!(count_step(max, 4), step, "{max}");
        }
        assert_eq!(count_step(u64::MAX, 4), 5_000_000_000_000_000_000);
    }

    #[test]
    fn marks_begin_at_zero_and_end_past_the_largest() {
        for most in [0.3, 1.0, 9.5, 10.0, 64.9, 318.0, 1e6] {
            let marks = straight(most);
            let last = marks[marks.len() - 1];
            let is_close = last >= most && last < most * 2.0;
            assert!(marks[0] == 0.0 && is_close && marks.len() <= 8, "{most}: {marks:?}");
        }
        assert_eq!(straight(9.5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(straight(0.0).len(), 2);
    }

    #[test]
    fn powers_enclose_what_is_drawn() {
        assert_eq!(powers(20.0, 4_000.0), [10.0, 100.0, 1_000.0, 10_000.0]);
        assert_eq!(powers(100.0, 100.0), [100.0, 1_000.0]);
    }

    #[test]
    fn figures_have_separators_and_few_digits() {
        assert_eq!([9.54, 64.9, 99.96, 1_204.4].map(decimal), ["9.5", "64.9", "100", "1,204"]);
        assert_eq!([0.0, 0.5, 20.0].map(mark), ["0", "0.5", "20"]);
    }
}
