//! The form of a break: a sentence, the tests that must catch it, and the changed fragments.
//!
//! ```text
//! An admitted request is not charged.
//! caught by: tests/behaviour/main.rs: refund::a_refund_at_once_gives_all_back
//!
//! in Slot::charge
//! - a fragment of this function
//! + what it becomes
//! ```
//!
//! The file lies in `proof/breaks/CRATE/ROOM/`. Its crate is all that a break says of a place: the
//! function is found by its name and the fragment by its text, whatever the file, the line and the
//! white space. So a function may be moved, and lines beside the fragment may change. `places` has
//! the names that `in` takes.

use std::fs;
use std::path::Path;

use super::check::Check;

/// One way to break the product.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Break {
    /// The name of the file without its extension.
    pub(super) name: String,
    /// The folder in `proof/breaks`: `engine`, or `server` for `crates/tollgate-server`.
    pub(super) package: String,
    /// The folder in that of the crate.
    pub(super) room: String,
    /// A sentence that describes the break.
    pub(super) what: String,
    /// Each of them must catch the break.
    pub(super) checks: Vec<Check>,
    pub(super) edits: Vec<Edit>,
}

/// A change of one fragment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Edit {
    /// The name of the function, as `in` has it.
    pub(super) item: String,
    pub(super) old: String,
    pub(super) new: String,
}

/// The folder of the breaks, from the repository's root.
pub(super) const FOLDER: &str = "proof/breaks";

/// The extension of a break's file.
const EXTENSION: &str = "break";

impl Break {
    /// Reads all breaks, ordered by crate, room and name.
    pub(super) fn all(root: &Path) -> Result<Vec<Self>, String> {
        let mut breaks = Vec::new();
        for package in entries(&root.join(FOLDER))? {
            for room in entries(&root.join(FOLDER).join(&package))? {
                let folder = root.join(FOLDER).join(&package).join(&room);
                for file in entries(&folder)? {
                    let path = folder.join(&file);
                    let at = |why: String| format!("{}: {why}", path.display());
                    let name = file.strip_suffix(&format!(".{EXTENSION}"));
                    let name = name.ok_or_else(|| at(format!("it is no .{EXTENSION}")))?;
                    let text = fs::read_to_string(&path).map_err(|error| at(error.to_string()))?;
                    breaks.push(Self::parse(&package, &room, name, &text).map_err(at)?);
                }
            }
        }
        Ok(breaks)
    }

    fn parse(package: &str, room: &str, name: &str, text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.is_empty()).peekable();
        let what = lines.next().filter(|what| what.ends_with('.')).ok_or("it must begin with a sentence")?;
        let mut checks = Vec::new();
        while let Some(check) = lines.peek().and_then(|line| line.strip_prefix("caught by: ")) {
            checks.push(Check::parse(check)?);
            lines.next();
        }
        if checks.is_empty() {
            return Err("the second line must be `caught by: ` a test".into());
        }
        let mut edits: Vec<Edit> = Vec::new();
        for line in lines {
            if let Some(item) = line.strip_prefix("in ") {
                edits.push(Edit { item: item.into(), old: String::new(), new: String::new() });
                continue;
            }
            let edit = edits.last_mut().ok_or("a change begins with `in ` and a function")?;
            let side = match line.get(..1) {
                Some("-") => &mut edit.old,
                Some("+") => &mut edit.new,
                _ => return Err(format!("a line must begin with `in `, - or +: {line}")),
            };
            let line = &line[1..];
            side.push_str(line.strip_prefix(' ').unwrap_or(line));
            side.push('\n');
        }
        let is_change = |edit: &Edit| !edit.old.trim().is_empty() && edit.old != edit.new;
        if edits.is_empty() || !edits.iter().all(is_change) {
            return Err("each change needs a fragment that goes, and another that comes".into());
        }
        let (name, package, room) = (name.into(), package.into(), room.into());
        Ok(Self { name, package, room, what: what.into(), checks, edits })
    }

    /// Returns the folder of the break's crate, from the repository's root.
    pub(super) fn crate_folder(&self) -> String {
        if self.package == "engine" { String::new() } else { format!("crates/tollgate-{}/", self.package) }
    }

    /// Returns the break's folder below `proof/breaks`.
    pub(super) fn room(&self) -> String {
        format!("{}/{}", self.package, self.room)
    }
}

/// Returns the names in a folder, in order.
fn entries(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Two is three.\ncaught by: tests/a.rs: two_is_two\n\nin two\n- 2\n+ 3\n";

    fn parse(text: &str) -> Result<Break, String> {
        Break::parse("engine", "numbers", "two", text)
    }

    #[test]
    fn a_break_has_a_sentence_a_test_and_a_change() {
        let broken = parse(TEXT).expect("it is well formed");
        assert_eq!(broken.what, "Two is three.");
        assert_eq!(
            broken.checks.iter().map(Check::to_string).collect::<Vec<_>>(),
            ["tests/a.rs: two_is_two"]
        );
        assert_eq!(broken.edits, [Edit { item: "two".into(), old: "2\n".into(), new: "3\n".into() }]);
        assert_eq!((broken.crate_folder(), broken.room()), (String::new(), "engine/numbers".into()));
    }

    #[test]
    fn a_break_may_have_several_tests_and_changes() {
        let text = TEXT.replace("\n\n", "\ncaught by: tests/b.rs: two_is_even\n\n") + "in four\n- 4\n";
        let broken = parse(&text).expect("it is well formed");
        assert_eq!(broken.checks.len(), 2);
        let items: Vec<&str> = broken.edits.iter().map(|edit| edit.item.as_str()).collect();
        assert_eq!(items, ["two", "four"]);
        assert_eq!(broken.edits[1].new, "");
    }

    #[test]
    fn an_incomplete_break_is_an_error() {
        for bad in [
            "No full stop\ncaught by: tests/a.rs: a\nin a\n- a\n",
            "No test.\nin a\n- a\n",
            "No change.\ncaught by: tests/a.rs: a\n",
            "Nothing else.\ncaught by: tests/a.rs: a\nin a\n- a\n+ a\n",
            "No fragment.\ncaught by: tests/a.rs: a\nin a\n+ a\n",
            "No function.\ncaught by: tests/a.rs: a\n- a\n",
            "No sign.\ncaught by: tests/a.rs: a\nin a\n a\n",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
