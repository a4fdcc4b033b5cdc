//! Parts of every chart on the page: an accessible SVG, linear scales, labels and lines.
//!
//! Each chart is drawn once for each page width, because scaling one drawing would shrink its text.
//! The style sheet shows the drawing that fits.

use std::fmt;

/// The frame of one drawing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Svg<'a> {
    /// Unique in the page. Refers the drawing to its title and its description.
    pub(super) id: &'a str,
    /// The classes. One of them tells at which page widths the drawing is shown.
    pub(super) class: &'a str,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) title: &'a str,
    pub(super) description: &'a str,
}

impl Svg<'_> {
    /// Writes the start of the drawing, with more attributes in `extra`. The caller writes
    /// `</svg>`.
    pub(super) fn open(&self, f: &mut fmt::Formatter<'_>, extra: &str) -> fmt::Result {
        let Self { id, class, width, height, title, description } = self;
        write!(
            f,
            "<svg id=\"{id}\" class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"{extra}>\n\
             <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{description}</desc>\n"
        )
    }
}

/// A linear map from values to coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
}

impl Scale {
    pub(super) fn at(&self, value: f64) -> f64 {
        let (low, high) = self.from;
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        self.to.0 + share * (self.to.1 - self.to.0)
    }
}

/// A line of text in a drawing. Its `anchor` is `start`, `middle` or `end`.
pub(super) fn label(
    f: &mut fmt::Formatter<'_>,
    (x, y): (f64, f64),
    anchor: &str,
    text: impl fmt::Display,
) -> fmt::Result {
    writeln!(f, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#)
}

/// A straight line of the given class.
pub(super) fn line(
    f: &mut fmt::Formatter<'_>,
    class: &str,
    (x1, y1): (f64, f64),
    (x2, y2): (f64, f64),
) -> fmt::Result {
    writeln!(f, r#"<path class="{class}" d="M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"/>"#)
}

/// A page width at which the two charts that share a row are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct PairFormat {
    pub(super) class: &'static str,
    pub(super) width: f64,
    pub(super) height: f64,
}

pub(super) const PAIR_FORMATS: [PairFormat; 2] = [
    PairFormat { class: "roomy", width: 500.0, height: 300.0 },
    PairFormat { class: "snug", width: 350.0, height: 250.0 },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_maps_ends_and_an_empty_range() {
        let scale = Scale { from: (0.0, 10.0), to: (100.0, 0.0) };
        assert_eq!([scale.at(0.0), scale.at(5.0), scale.at(10.0)], [100.0, 50.0, 0.0]);
        assert_eq!(Scale { from: (3.0, 3.0), to: (7.0, 9.0) }.at(3.0), 7.0);
    }
}
