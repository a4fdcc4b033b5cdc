//! The frame of every chart on the page: an accessible SVG.
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
