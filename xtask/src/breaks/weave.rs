//! Many breaks in one build: a function that they change gets a body for each, and one of them is
//! chosen by a number in the environment when the program starts.
//!
//! ```text
//! fn charge(..) {
//!     if crate::broken::is(7) { <the body, broken> } else { <the body> }
//! }
//! ```
//!
//! So the tree is built once, not once a break. What is no body of a function (a constant, a type,
//! a script) cannot be there twice; `hunt` builds these breaks one by one. Testing mutants by such
//! a "schema" is from Untch, Offutt and Harrold, *Mutation analysis using mutant schemata*, 1993.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use super::form::Break;
use super::places::{Crates, Place, exchanged};

/// The number of the break that the program has, 0 for none.
pub(super) const VARIABLE: &str = "TOLLGATE_BROKEN";

/// The module that each crate gets. It reads the number before `main`, so that no test sees the
/// memory that reading takes.
const SWITCH: &str = include_str!("switch.txt");

/// A break with its number and its places.
pub(super) struct Numbered<'b> {
    pub(super) number: u32,
    pub(super) broken: &'b Break,
    pub(super) places: Vec<Place>,
}

impl Numbered<'_> {
    /// Returns whether a build can hold the break beside others.
    pub(super) fn can_be_woven(&self) -> bool {
        self.places.iter().all(|place| place.body.is_some())
    }
}

/// The lines of each woven body, by file.
#[derive(Default)]
pub(super) struct Woven(BTreeMap<String, Vec<(Range<usize>, u32)>>);

impl Woven {
    /// Returns the number of the break to whose body this line belongs.
    pub(super) fn at(&self, file: &str, line: usize) -> Option<u32> {
        let (_, number) = self.0.get(file)?.iter().find(|(lines, _)| lines.contains(&line))?;
        Some(*number)
    }
}

/// Writes all these breaks into the copy of the tree.
pub(super) fn weave(breaks: &[&Numbered], crates: &Crates, copy: &Path) -> Result<Woven, String> {
    let mut files: BTreeMap<&str, (&str, BTreeMap<usize, Body>)> = BTreeMap::new();
    for numbered in breaks {
        let sources = crates.sources(numbered.broken);
        for (place, edit) in numbered.places.iter().zip(&numbered.broken.edits) {
            let text = sources.text(&place.file).ok_or_else(|| format!("{} is gone", place.file))?;
            let (_, bodies) = files.entry(&place.file).or_insert((text, BTreeMap::new()));
            let range = place.body.clone().ok_or_else(|| format!("{} is in no body", edit.item))?;
            let body = bodies.entry(range.start).or_insert(Body { range, broken: BTreeMap::new() });
            let change = (place.range.clone(), replacement(&edit.new));
            body.broken.entry(numbered.number).or_default().push(change);
        }
    }
    let mut woven = Woven::default();
    for (file, (text, bodies)) in files {
        let (text, lines) = with_bodies(text, bodies);
        write(&copy.join(file), &text)?;
        woven.0.insert(file.to_owned(), lines);
    }
    for numbered in breaks {
        for root in ["src/lib.rs", "src/main.rs"] {
            let path = copy.join(numbered.broken.crate_folder()).join(root);
            if let Ok(text) = fs::read_to_string(&path)
                && !text.ends_with(SWITCH)
            {
                write(&path, &(text + SWITCH))?;
            }
        }
    }
    Ok(woven)
}

/// A function's body, and how each break changes it.
struct Body {
    range: Range<usize>,
    broken: BTreeMap<u32, Vec<(Range<usize>, String)>>,
}

/// Returns the file with all bodies, and the lines of those that are broken, counted from 1.
fn with_bodies(text: &str, bodies: BTreeMap<usize, Body>) -> (String, Vec<(Range<usize>, u32)>) {
    let (mut result, mut lines, mut done) = (String::new(), Vec::new(), 0);
    let line = |text: &str| 1 + text.matches('\n').count();
    for Body { range, broken } in bodies.into_values() {
        result.push_str(&text[done..range.start]);
        let body = &text[range.clone()];
        for (number, mut changes) in broken {
            for (at, _) in &mut changes {
                *at = at.start - range.start..at.end - range.start;
            }
            result.push_str(&format!("\nif crate::broken::is({number}) {{"));
            let first = line(&result);
            result.push_str(&exchanged(body, &mut changes));
            result.push_str("\n} else");
            lines.push((first..line(&result) + 1, number));
        }
        result.push_str(&format!(" {{{body}}}"));
        done = range.end;
    }
    (result + &text[done..], lines)
}

/// Returns the text of a fragment's replacement. The line ends, in case that a comment ends it.
pub(super) fn replacement(new: &str) -> String {
    format!("{}\n", new.trim_end())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    crate::tree::write(path, text.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_gets_a_body_for_each_break() {
        let text = "fn two() -> u8 {\n    1 + 1\n}\n";
        let body = text.find('{').expect("it has a body") + 1..text.rfind('}').expect("it has an end");
        let one = text.find("1 + 1").expect("it adds");
        let broken = BTreeMap::from([
            (3, vec![(one..one + 1, replacement("2"))]),
            (5, vec![(one + 4..one + 5, replacement("0"))]),
        ]);
        let bodies = BTreeMap::from([(body.start, Body { range: body, broken })]);
        let (woven, lines) = with_bodies(text, bodies);
        let dense: String = woven.split_whitespace().collect();
        assert_eq!(dense, "fntwo()->u8{ifcrate::broken::is(3){2+1}elseifcrate::broken::is(5){1+0}else{1+1}}");
        let woven_lines: Vec<&str> = woven.lines().collect();
        let line = 1 + woven_lines.iter().position(|line| line.ends_with("+ 0")).expect("it is broken");
        let number = lines.iter().find(|(lines, _)| lines.contains(&line)).map(|(_, number)| *number);
        assert_eq!(number, Some(5));
    }

    #[test]
    fn the_switch_reads_the_variable() {
        assert!(SWITCH.contains(VARIABLE));
    }
}
