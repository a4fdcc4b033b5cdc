//! Horizontal bars, so that names are horizontal too.

use tollgate_cli::plot::{Scale, decimal, mark, straight};

use crate::charts::svg::{Look, MARGIN, Picture, WIDTH};
use crate::measure::Spread;

pub(super) struct Bar {
    pub(super) label: String,
    pub(super) look: Look,
    /// The bar ends at the median; a line through its end shows the quartiles.
    pub(super) value: Spread,
}

/// Bars under a heading, on one scale.
pub(super) struct Panel {
    pub(super) heading: String,
    pub(super) bars: Vec<Bar>,
}

/// The left end of the bars. Names are left of it.
const LEFT: f64 = 172.0;
/// The right end of the longest bar. Its figure is right of it.
const RIGHT: f64 = WIDTH - 74.0;
/// The distance between bars.
const PITCH: f64 = 24.0;
/// The thickness of a bar.
const BAR: f64 = 16.0;

/// Draws the panels below each other. Each has its own axis: with a common one, small panels would
/// be unreadable.
pub(super) fn draw(picture: &mut Picture, panels: &[Panel]) {
    for panel in panels {
        let marks = straight(panel.bars.iter().map(|bar| bar.value.median).fold(0.0, f64::max));
        let end = marks[marks.len() - 1];
        let scale = Scale { from: (0.0, end), to: (LEFT, RIGHT) };
        let at = |value: f64| scale.at(value.min(end));
        picture.top += 22.0;
        picture.text("head", (MARGIN, picture.top), "start", &panel.heading);
        let top = picture.top + 10.0;
        let bottom = top + PITCH * panel.bars.len() as f64;
        marks[1..].iter().for_each(|&value| picture.line("grid", (at(value), top), (at(value), bottom)));
        for (place, bar) in panel.bars.iter().enumerate() {
            let y = top + PITCH * place as f64 + (PITCH - BAR) / 2.0;
            let (middle, base) = (y + BAR / 2.0, y + BAR - 3.0);
            let Spread { low, median, high } = bar.value;
            picture.text(bar.look.name_class(), (LEFT - 8.0, base), "end", &bar.label);
            picture.bar(bar.look.class(), (LEFT, y), ((at(median) - LEFT).max(1.0), BAR));
            picture.line("whisker", (at(low), middle), (at(high), middle));
            picture.text(bar.look.name_class(), (at(high.max(median)) + 7.0, base), "start", decimal(median));
        }
        picture.line("axis", (LEFT, top), (LEFT, bottom));
        picture.top = bottom + 16.0;
        marks
            .iter()
            .for_each(|&value| picture.text("small", (at(value), picture.top), "middle", mark(value)));
    }
}
