//! The mutants, as cargo-mutants lists them.

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::{fmt, fs};

use serde_json::Value;

/// One small change of one file.
pub(super) struct Mutant {
    /// The path of the file in the repository.
    pub(super) path: String,
    pub(super) line: usize,
    /// The change and its function, in words.
    pub(super) description: String,
    /// The replaced bytes.
    pub(super) changed: Range<usize>,
    pub(super) replacement: String,
    /// The body of the function, with its braces. `None` for a constant.
    pub(super) body: Option<Range<usize>>,
    /// The line after the change; empty if a whole body is replaced.
    changed_line: String,
}

/// Lists the mutants of the files in `.cargo/mutants.toml`.
pub(super) fn read(root: &Path) -> Result<Vec<Mutant>, String> {
    let output = Command::new("cargo").args(["mutants", "--list", "--json"]).current_dir(root).output();
    let output = output.map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{stderr}\nit needs cargo-mutants: cargo install cargo-mutants --locked"));
    }
    let listed: Vec<Value> = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let mut file = (String::new(), String::new());
    listed
        .iter()
        .map(|listed| {
            let path = listed["file"].as_str().unwrap_or_default();
            if file.0 != path {
                let text = fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
                file = (path.into(), text);
            }
            Mutant::parse(listed, path, &file.1)
                .ok_or_else(|| format!("the output of cargo-mutants is not understood: {listed}"))
        })
        .collect()
}

impl Mutant {
    fn parse(listed: &Value, path: &str, text: &str) -> Option<Self> {
        let changed = span(&listed["span"], text)?;
        let replacement = listed["replacement"].as_str()?.to_owned();
        let (_, description) = listed["name"].as_str()?.split_once(": ")?;
        let body = match &listed["function"] {
            Value::Null => None,
            function => Some(body(span(&function["span"], text)?, text)?),
        };
        let changed_line = if listed["genre"] == "FnValue" {
            String::new()
        } else {
            let begin = text[..changed.start].rfind('\n').map_or(0, |at| at + 1);
            let end = text[changed.end..].find('\n').map_or(text.len(), |at| changed.end + at);
            format!("{}{replacement}{}", &text[begin..changed.start], &text[changed.end..end]).trim().into()
        };
        let line = text[..changed.start].matches('\n').count() + 1;
        Some(Self {
            path: path.into(),
            line,
            description: description.into(),
            changed,
            replacement,
            body,
            changed_line,
        })
    }

    /// Makes a mutant for tests.
    #[cfg(test)]
    pub(super) fn of(changed: Range<usize>, replacement: &str, body: Option<Range<usize>>) -> Self {
        let empty = String::new;
        Self {
            path: empty(),
            line: 1,
            description: empty(),
            changed,
            replacement: replacement.into(),
            body,
            changed_line: empty(),
        }
    }

    /// Returns the name in `.cargo/equal-mutants.txt`, which does not depend on the line.
    pub(super) fn name(&self) -> String {
        let Self { path, description, changed_line, .. } = self;
        if changed_line.is_empty() {
            format!("{path}: {description}")
        } else {
            format!("{path}: {description}: {changed_line}")
        }
    }

    /// Returns the bytes `within` of the file, which contain the change, with the change.
    pub(super) fn applied(&self, text: &str, within: Range<usize>) -> String {
        let (before, after) = (&text[within.start..self.changed.start], &text[self.changed.end..within.end]);
        format!("{before}{}{after}", self.replacement)
    }
}

/// Converts a span of lines and columns, both from 1, into bytes.
fn span(span: &Value, text: &str) -> Option<Range<usize>> {
    let at = |end: &Value| {
        let (line, column) = (end["line"].as_u64()? as usize, end["column"].as_u64()? as usize);
        let begin: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
        let letters = text[begin..].char_indices().map(|(at, _)| begin + at);
        letters.chain([text.len()]).nth(column - 1)
    };
    Some(at(&span["start"])?..at(&span["end"])?)
}

/// Returns the body of a function: from its first brace outside of comments and attributes.
fn body(function: Range<usize>, text: &str) -> Option<Range<usize>> {
    let mut begin = function.start;
    for line in text[function.clone()].split_inclusive('\n') {
        let code = line.trim_start();
        if !code.starts_with("//")
            && !code.starts_with("#[")
            && let Some(brace) = line.find('{')
        {
            return Some(begin + brace..function.end);
        }
        begin += line.len();
    }
    None
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {})", self.name(), self.line)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "/// As `{1}`.\n#[inline]\nfn a(b: u64) -> u64 {\n    b + 1\n}\n";

    fn listed(genre: &str, span: Value, replacement: &str) -> Mutant {
        let at = |line: u64, column: u64| json!({ "line": line, "column": column });
        let function = json!({ "span": { "start": at(1, 1), "end": at(5, 2) } });
        let name = "a.rs:4:7: replace + with - in a";
        let listed = json!({ "genre": genre, "span": span, "replacement": replacement, "name": name, "function": function });
        Mutant::parse(&listed, "a.rs", TEXT).expect("as cargo-mutants prints it")
    }

    #[test]
    fn a_mutant_is_the_body_with_its_change() {
        let span = json!({ "start": { "line": 4, "column": 7 }, "end": { "line": 4, "column": 8 } });
        let mutant = listed("BinaryOperator", span, "-");
        let body = mutant.body.clone().expect("it is in a function");
        assert_eq!(mutant.applied(TEXT, body), "{\n    b - 1\n}");
        assert_eq!(mutant.name(), "a.rs: replace + with - in a: b - 1");
    }
}
