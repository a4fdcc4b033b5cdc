//! What every drawing of the page is made of: an accessible SVG and straight scales.
//!
//! A drawing is made once for each width at which its text stays legible (scaling one drawing would
//! shrink its letters with it); the style sheet shows the one that fits.

use std::fmt;

/// One drawing, as its frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Svg<'a> {
    /// Unique in the page; the title and the description are found by it.
    pub(super) id: &'a str,
    /// Classes, among them the one that says at which page widths it is shown.
    pub(super) class: &'a str,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) title: &'a str,
    pub(super) description: &'a str,
}

impl Svg<'_> {
    /// Opens the drawing. `extra` is further attributes. The caller writes `</svg>`.
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

/// A straight map from what is measured to where it is drawn.
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

/// A line of text in a drawing. `place` is where it is anchored: `start`, `middle` or `end`.
pub(super) fn label(
    f: &mut fmt::Formatter<'_>,
    (x, y): (f64, f64),
    place: &str,
    text: impl fmt::Display,
) -> fmt::Result {
    writeln!(f, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{place}">{text}</text>"#)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_maps_ends_to_ends_and_survives_an_empty_range() {
        let scale = Scale { from: (0.0, 10.0), to: (100.0, 0.0) };
        assert_eq!([scale.at(0.0), scale.at(5.0), scale.at(10.0)], [100.0, 50.0, 0.0]);
        assert_eq!(Scale { from: (3.0, 3.0), to: (7.0, 9.0) }.at(3.0), 7.0);
    }
}
