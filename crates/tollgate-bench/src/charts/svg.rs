//! The frame of a picture: a title, the drawing, and a footer with the origin of the figures.
//!
//! Pages show a picture by `<img>`, which ignores the style of the page and may scale it to the
//! width of a phone. So a picture is narrow with large letters, has a background, and follows the
//! reader's light or dark mode.

use std::fmt::{Display, Write};

use tollgate_cli::plot::{self, Text};

/// The width of every picture in its own units. At full size it fits a page, at two thirds a phone.
pub(super) const WIDTH: f64 = 540.0;
/// The margin on both sides.
pub(super) const MARGIN: f64 = 16.0;

/// The letters of the footer that fit into a line.
const FOOTER: usize = 76;

const STYLE: &str = "
svg{--paper:#fff;--ink:#22272e;--soft:#57606a;--rule:#dde1e6;--ours:#1f6fab;--first:#bc4c00;--second:#3f7d3a;\
--third:#8250b5;--floor:#6e7781;font:14px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;\
font-variant-numeric:tabular-nums}
@media(prefers-color-scheme:dark){svg{--paper:#161b22;--ink:#e6e9ed;--soft:#a3abb5;--rule:#343b44;--ours:#58a6e6;\
--first:#f0883e;--second:#6cc664;--third:#c297f2;--floor:#8d96a0}}
.paper{fill:var(--paper)}text{fill:var(--soft);stroke:var(--paper);stroke-width:3px;paint-order:stroke}.title{fill:var(--ink);font-size:18px;font-weight:650}
.head{fill:var(--ink);font-weight:600}.name{fill:var(--ink)}.us{font-weight:650}.small{font-size:12px}
.grid{stroke:var(--rule)}.axis{stroke:var(--soft)}.whisker{stroke:var(--ink);stroke-width:1.5}
.bar.ours{fill:var(--ours)}.bar.first{fill:var(--first)}.bar.second{fill:var(--second)}.bar.third{fill:var(--third)}
.bar.floor{fill:none;stroke:var(--floor);stroke-dasharray:4 3}
.curve{fill:none;stroke-width:2}.curve.ours{stroke-width:3}
.curve.ours,.dot.ours{stroke:var(--ours)}.curve.first,.dot.first{stroke:var(--first)}\
.curve.second,.dot.second{stroke:var(--second)}.curve.third,.dot.third{stroke:var(--third)}\
.curve.floor,.dot.floor{stroke:var(--floor)}.curve.floor{stroke-dasharray:2 4;stroke-linecap:round}
.curve.model{stroke-dasharray:8 5}.dot{fill:var(--paper);stroke-width:2}
";

/// The colour of a contestant, the same in every picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Tollgate.
    Ours,
    /// The first peer, or another way to use Tollgate.
    First,
    /// The second peer.
    Second,
    /// The third peer.
    Third,
    /// A floor, which no limiter can beat.
    Floor,
}

impl Look {
    /// Returns the class of its shapes in the style.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::First => "first",
            Self::Second => "second",
            Self::Third => "third",
            Self::Floor => "floor",
        }
    }

    /// Returns the class of its name in the style.
    pub(super) fn name_class(self) -> &'static str {
        if self == Self::Ours { "name us" } else { "name" }
    }
}

/// A picture that grows downwards. Writing to its text cannot fail.
pub(super) struct Picture {
    title: String,
    body: String,
    /// The top of the free space.
    pub(super) top: f64,
}

impl Picture {
    /// Starts a picture with a title and a line with the unit, the scale and the better direction.
    pub(super) fn new(title: &str, unit: &str) -> Self {
        let mut picture = Self { title: title.to_owned(), body: String::new(), top: 62.0 };
        picture.text("title", (MARGIN, 30.0), "start", title);
        picture.text("", (MARGIN, 50.0), "start", unit);
        picture
    }

    /// Adds a line of text, anchored at its `start`, `middle` or `end`.
    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: &str, text: impl Display) {
        let _ = plot::text(&mut self.body, class, at, anchor, text);
    }

    /// Adds a straight line.
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = plot::line(&mut self.body, class, from, to);
    }

    /// Adds a line through all points.
    pub(super) fn curve(&mut self, class: &str, points: &[(f64, f64)]) {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = writeln!(self.body, r#"<path class="curve {class}" d="M{}"/>"#, path.join("L"));
    }

    /// Adds a dot for a measured point.
    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64)) {
        let _ = writeln!(self.body, r#"<circle class="dot {class}" cx="{x:.1}" cy="{y:.1}" r="3.5"/>"#);
    }

    /// Adds a horizontal bar.
    pub(super) fn bar(&mut self, class: &str, at: (f64, f64), size: (f64, f64)) {
        let _ = plot::rectangle(&mut self.body, &format!("bar {class}"), at, size);
    }

    /// Returns the picture with a footer, which has one paragraph for each note.
    pub(super) fn finish(mut self, notes: &[String]) -> String {
        let mut top = self.top + 10.0;
        for line in notes.iter().flat_map(|note| wrapped(note, FOOTER)) {
            top += 16.0;
            self.text("small", (MARGIN, top), "start", line);
        }
        let (height, title, body) = (top + 14.0, Text(&self.title), &self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"100%\" height=\"100%\" rx=\"8\"/>\n{body}</svg>\n"
        )
    }
}

/// Wraps text at blanks into lines of at most `most` letters.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= most) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_with_an_ampersand_is_text() {
        assert!(Picture::new("a & b", "ns").finish(&[]).contains("<title>a &amp; b</title>"));
    }

    #[test]
    fn a_footer_is_broken_at_blanks() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable x", 5), ["unbreakable", "x"]);
        let lines = wrapped(&"word ".repeat(40), 30);
        assert!(lines.iter().all(|line| line.len() <= 30) && lines.len() == 7, "{lines:?}");
    }
}
