//! Line charts; each line has its name at its end.

use tollgate_cli::plot::Scale;

use crate::charts::svg::{Look, MARGIN, Picture, WIDTH};
use crate::measure::Spread;

pub(super) struct Series {
    pub(super) label: String,
    pub(super) look: Look,
    /// Whether the line is a model, drawn dashed and without dots, not a measurement.
    pub(super) is_model: bool,
    /// Positions on the horizontal axis, from 0 to 1, with their figures.
    pub(super) points: Vec<(f64, Spread)>,
}

/// The vertical axis.
pub(super) struct Axis {
    /// The marks, from the lower to the upper end.
    pub(super) marks: Vec<f64>,
    /// Formats a mark.
    pub(super) format: fn(f64) -> String,
    pub(super) is_log: bool,
}

/// A chart in a picture.
pub(super) struct Plot {
    pub(super) heading: String,
    pub(super) height: f64,
    pub(super) axis: Axis,
    /// The positions and labels below the horizontal axis.
    pub(super) labels: Vec<(f64, String)>,
    /// The title of the horizontal axis.
    pub(super) axis_title: String,
    pub(super) series: Vec<Series>,
}

/// The left end of the plot. The figures of the axis are left of it.
const LEFT: f64 = MARGIN + 46.0;
/// The right end of the plot. Names are right of it.
const RIGHT: f64 = WIDTH - 148.0;
/// The least distance between names.
const NAME_DISTANCE: f64 = 17.0;

/// Draws a plot at the bottom of the picture.
pub(super) fn draw(picture: &mut Picture, plot: &Plot) {
    if !plot.heading.is_empty() {
        picture.top += 22.0;
        picture.text("head", (MARGIN, picture.top), "start", &plot.heading);
    }
    let (top, bottom) = (picture.top + 16.0, picture.top + 16.0 + plot.height);
    let marks = &plot.axis.marks;
    let scaled = |value: f64| if plot.axis.is_log { value.max(marks[0]).log10() } else { value };
    let (low, high) = (scaled(marks[0]), scaled(marks[marks.len() - 1]));
    let (across, up) = (
        Scale { from: (0.0, 1.0), to: (LEFT + 10.0, RIGHT - 10.0) },
        Scale { from: (low, high), to: (bottom, top) },
    );
    let x = |place: f64| across.at(place);
    let y = |value: f64| up.at(scaled(value).clamp(low, high));
    for &mark in marks {
        picture.line(if mark == marks[0] { "axis" } else { "grid" }, (LEFT, y(mark)), (RIGHT, y(mark)));
        picture.text("small", (LEFT - 6.0, y(mark) + 4.0), "end", (plot.axis.format)(mark));
    }
    for (place, label) in &plot.labels {
        picture.text("small", (x(*place), bottom + 17.0), "middle", label);
    }
    picture.text("small", (RIGHT, bottom + 33.0), "end", &plot.axis_title);
    // The first line is drawn last, on top of the others.
    for series in plot.series.iter().rev() {
        let class = series.look.class();
        let points: Vec<_> =
            series.points.iter().map(|(place, spread)| (x(*place), y(spread.median))).collect();
        picture.curve(&format!("{class}{}", if series.is_model { " model" } else { "" }), &points);
        if !series.is_model {
            for ((place, spread), &point) in series.points.iter().zip(&points) {
                picture.line("whisker", (x(*place), y(spread.low)), (x(*place), y(spread.high)));
                picture.dot(class, point);
            }
        }
    }
    let named: Vec<&Series> = plot.series.iter().filter(|series| !series.label.is_empty()).collect();
    let ends = named.iter().map(|series| series.points.last().map_or(bottom, |(_, last)| y(last.median)));
    for (series, at) in named.iter().zip(spaced(ends.collect(), bottom)) {
        picture.text(series.look.name_class(), (RIGHT + 8.0, at + 5.0), "start", &series.label);
    }
    picture.top = bottom + 36.0;
}

/// Moves the positions of names apart, as little as possible, and keeps them above `last`.
fn spaced(wanted: Vec<f64>, last: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    // One pass pushes names down, the other pushes them up. Both results are far enough apart, and
    // so is their average.
    let mut down = wanted.clone();
    for pair in order.windows(2) {
        down[pair[1]] = down[pair[1]].max(down[pair[0]] + NAME_DISTANCE);
    }
    let mut up = wanted;
    for pair in order.windows(2).rev() {
        up[pair[0]] = up[pair[0]].min(up[pair[1]] - NAME_DISTANCE);
    }
    let mut places: Vec<f64> = down.iter().zip(&up).map(|(down, up)| f64::midpoint(*down, *up)).collect();
    let mut free = last;
    for index in order.into_iter().rev() {
        places[index] = places[index].min(free);
        free = places[index] - NAME_DISTANCE;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_overlap_and_keep_their_order() {
        let places = spaced(vec![100.0, 98.0, 20.0, 99.0], 200.0);
        assert_eq!(places, [99.0 + NAME_DISTANCE, 99.0 - NAME_DISTANCE, 20.0, 99.0]);
        let places = spaced(vec![100.0, 98.0, 20.0, 99.0], 105.0);
        assert_eq!(places, [105.0, 105.0 - 2.0 * NAME_DISTANCE, 20.0, 105.0 - NAME_DISTANCE]);
    }
}
