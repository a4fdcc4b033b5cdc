//! The format of a break: a sentence, the test that must catch it, and the changed lines.
//!
//! ```text
//! An admitted request is not charged.
//! caught by: tests/behaviour/main.rs: refund::a_refund_at_once_gives_all_back
//! --- src/table/slot.rs
//!      a line that stays
//! -    a line that goes
//! +    a line that comes
//! ```
//!
//! A break that several tests must catch has several such lines.
//!
//! There are no line numbers: the lines that stay and go must occur in the file exactly once, in
//! this order. So a break survives every change of other lines. A test fails if a break no longer
//! applies.

use std::fs;
use std::path::Path;

use super::check::Check;

/// One way to break the engine, or the middleware.
#[derive(Debug)]
pub(super) struct Break {
    /// The name of the file without its extension.
    pub(super) name: String,
    /// A sentence that describes the break.
    pub(super) what: String,
    /// Each of them must catch the break.
    pub(super) checks: Vec<Check>,
    pub(super) edits: Vec<Edit>,
}

/// A change of some lines of one file.
#[derive(Debug, Default)]
pub(super) struct Edit {
    /// From the repository's root.
    pub(super) path: String,
    old: String,
    new: String,
}

/// The extension of a break's file.
const EXTENSION: &str = "patch";

impl Break {
    /// Reads all breaks, ordered by name.
    pub(super) fn all(root: &Path) -> Result<Vec<Self>, String> {
        let folder = root.join("breaks");
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut breaks = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if path.extension().is_none_or(|extension| extension != EXTENSION) {
                return Err(format!("{} is no .{EXTENSION}", path.display()));
            }
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            breaks.push(Self::parse(&name, &text).map_err(|why| format!("{}: {why}", path.display()))?);
        }
        breaks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(breaks)
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut lines = text.lines().peekable();
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
            if let Some(path) = line.strip_prefix("--- ") {
                edits.push(Edit { path: path.into(), ..Edit::default() });
                continue;
            }
            let edit = edits.last_mut().ok_or("an edit begins with `--- ` and a file")?;
            let (stays, goes) = match line.get(..1) {
                Some(" ") => (true, true),
                Some("-") => (false, true),
                Some("+") => (true, false),
                _ => return Err(format!("a line must begin with a blank, - or +: {line}")),
            };
            for (side, has) in [(&mut edit.old, goes), (&mut edit.new, stays)] {
                if has {
                    side.push_str(&line[1..]);
                    side.push('\n');
                }
            }
        }
        if edits.is_empty() || edits.iter().any(|edit| edit.old == edit.new) {
            return Err("it changes nothing".into());
        }
        Ok(Self { name: name.into(), what: what.into(), checks, edits })
    }
}

impl Edit {
    /// Applies the edit to the text of the file.
    pub(super) fn applied(&self, text: &str) -> Result<String, String> {
        let whole = format!("\n{text}");
        let old = format!("\n{}", self.old);
        match whole.matches(old.as_str()).count() {
            1 => Ok(whole.replacen(&old, &format!("\n{}", self.new), 1)[1..].to_owned()),
            found => Err(format!("{} has these lines {found} times, not once:\n{}", self.path, self.old)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "Two is three.\ncaught by: tests/a.rs: two_is_two\n--- src/a.rs\n fn a() {\n-    2\n+    3\n";

    #[test]
    fn a_break_changes_its_lines_and_no_others() {
        let broken = Break::parse("two", TEXT).expect("it is well formed");
        assert_eq!(broken.what, "Two is three.");
        let applied = broken.edits[0].applied("fn b() {\n    2\n}\nfn a() {\n    2\n}\n");
        assert_eq!(applied.as_deref(), Ok("fn b() {\n    2\n}\nfn a() {\n    3\n}\n"));
    }

    #[test]
    fn a_break_may_have_several_tests() {
        let text = TEXT.replace("---", "caught by: tests/b.rs: two_is_even\n---");
        let broken = Break::parse("two", &text).expect("it is well formed");
        let checks: Vec<String> = broken.checks.iter().map(Check::to_string).collect();
        assert_eq!(checks, ["tests/a.rs: two_is_two", "tests/b.rs: two_is_even"]);
    }

    #[test]
    fn missing_or_repeated_lines_do_not_apply() {
        let broken = Break::parse("two", TEXT).expect("it is well formed");
        assert!(broken.edits[0].applied("fn a() {\n    4\n}\n").is_err());
        assert!(broken.edits[0].applied("fn a() {\n    2\n}\nfn a() {\n    2\n}\n").is_err());
    }

    #[test]
    fn an_incomplete_break_is_an_error() {
        for bad in [
            "No full stop\ncaught by: tests/a.rs: a\n--- src/a.rs\n-a\n",
            "No test.\n--- src/a.rs\n-a\n",
            "No edit.\ncaught by: tests/a.rs: a\n",
            "No change.\ncaught by: tests/a.rs: a\n--- src/a.rs\n a\n",
            "No file.\ncaught by: tests/a.rs: a\n-a\n",
        ] {
            assert!(Break::parse("bad", bad).is_err(), "{bad}");
        }
    }
}
