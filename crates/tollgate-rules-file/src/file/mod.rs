//! From the bytes of a rules file to its rules, or to all its mistakes.
//!
//! ```text
//!   source -> files -> toml -> walk (by the table of fields) -> read -> names -> lint
//! ```
//!
//! | file | what |
//! |------|------|
//! | `source`, `files` | where bytes come from; the files read, their problems, their hash |
//! | `problem`, `draw` | a mistake with its position, and its drawing |
//! | `fields`, `text` | what a file may say: fields, and the texts in them |
//! | `nesting` | how deeply a file is nested, before it is parsed |
//! | `walk`, `schema` | compares a file with the table of fields; writes it as a JSON Schema |
//! | `read` | rules, conditions, lists, tests from what the walker has compared |
//! | `names` | names over all files |
//! | `lint` | warnings of likely mistakes |

mod draw;
mod fields;
mod files;
mod lint;
mod names;
mod nearest;
mod nesting;
#[cfg(test)]
mod page;
mod problem;
mod read;
mod schema;
mod source;
mod text;
mod walk;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::DeTable;

use fields::{FILE, INCLUDED, MOST_RULES, Table};
pub(crate) use files::{FileId, Files, Holds, Place};
pub use lint::{Listener, unserved};
pub(crate) use nearest::nearest;
pub use problem::{Code, Problem, ProblemPart};
use read::lists::Lists;
use read::rule::Placed;
use read::{Reader, each, inner, number, settings, tables};
pub use schema::schema;
pub use source::{Disk, Memory, Source};
pub use text::value::read_network;
pub(crate) use text::{LONGEST_VALUE, Wrong, limit::limit as limit_of, quoted};
use tollgate_rules::{Mode, Rules, UpstreamLimits};

/// The result of reading: the rules of a file (or another `T` of other files), or all mistakes.
#[derive(Clone, Debug)]
pub struct Reading<T = Rules> {
    pub(crate) rules: Option<T>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) hash: [u8; 32],
    pub(crate) paths: Vec<PathBuf>,
    /// Everything that was read, where it has no error.
    pub(crate) copy: Arc<Memory>,
    /// The page that describes all of it. `None`: a section for each kind of mistake.
    pub(crate) page: Option<&'static str>,
}

impl<T> Reading<T> {
    /// The rules; `None` if there is an error.
    #[must_use]
    pub fn rules(&self) -> Option<&T> {
        self.rules.as_ref()
    }

    /// The rules, or the reading itself with its errors.
    ///
    /// # Errors
    ///
    /// The reading, if it has no rules.
    pub fn into_rules(mut self) -> Result<T, Self> {
        self.rules.take().ok_or(self)
    }

    /// All errors and warnings, in the order of files and lines. Warnings are looked for where
    /// there is no error.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The SHA-256 over all bytes that were read: of files, lists and environment variables, with
    /// their names. Equal hashes: nothing changed.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// The files that were read or could not be: a change of any may change the rules. (So may a
    /// new file that an `include` with `*` names.)
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}

impl<T> Reading<T> {
    /// The sections of the documentation that the problems go against, in a line without a
    /// break. `None`: there is no problem.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        let page = |problem: &Problem| self.page.unwrap_or(problem.code.page());
        let mut pages: Vec<_> = self.problems.iter().map(page).collect();
        pages.sort_unstable();
        pages.dedup();
        (!pages.is_empty()).then(|| format!("help: {}", pages.join(", ")))
    }
}

impl<T> std::fmt::Display for Reading<T> {
    /// All problems as [`Problem`] draws them, with a blank line between two, and the help.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n\n" })?;
        }
        self.help().map_or(Ok(()), |help| write!(f, "\n\n{help}"))
    }
}

/// Reads a rules file with all that it includes and all its lists, and finds all mistakes.
///
/// The format is described in docs/reference/rules.md; [`schema`] describes it to editors.
///
/// # Examples
///
/// ```
/// use tollgate_rules_file::{Memory, read};
///
/// let text = "version = 1\n[[rule]]\nname = \"all\"\nkey = \"everyone\"\nlimits = \"10/s\"\n";
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// assert_eq!(&*rules.rules[0].name, "all");
///
/// let reading = read("rules.toml", &Memory::new("rules.toml", text.replace("key", "kye")));
/// assert!(reading.rules().is_none());
/// assert_eq!(
///     reading.to_string(),
///     "error: unknown field `kye` of a rule
///  --> rules.toml:4:1
///   |
/// 4 | kye = \"everyone\"
///   | ^^^ did you mean `key`?
///
/// help: docs/reference/rules.md#fields"
/// );
/// ```
///
/// # Cost
///
/// Never panics, for any bytes. All rules files together may have 4 MiB, a file with a list 16
/// MiB and all of them 64 MiB; there may be 10,000 rules, and 1,000,000 values in all conditions.
/// The limits of all rules may come to take 1 GiB, if the file does not say another number.
/// Parsing takes up to 150 times the bytes of a rules file in memory.
#[must_use]
pub fn read(path: impl AsRef<Path>, source: &dyn Source) -> Reading {
    let mut files = Files::new(source);
    let rules = files.read(path.as_ref(), Holds::Rules, None).and_then(|main| whole(&mut files, main));
    let rules = rules.filter(|_| !files.has_errors());
    let copy = Arc::new(if rules.is_some() { files.copy() } else { Memory::default() });
    let (problems, hash, paths) = files.finish();
    Reading { rules, problems, hash, paths, copy, page: None }
}

/// The rules of a file and of all that it includes.
fn whole(files: &mut Files<'_>, main: FileId) -> Option<Rules> {
    let text = files.text(main);
    let document = parsed(files, main, &text, &FILE);
    let included = include(files, main, &document);
    let texts: Vec<(FileId, Arc<str>)> = included.iter().map(|file| (*file, files.text(*file))).collect();
    let mut documents = vec![(main, document)];
    for (file, text) in &texts {
        let document = parsed(files, *file, text, &INCLUDED);
        documents.push((*file, document));
    }

    let lists = &mut Lists::default();
    for (file, document) in &documents {
        Reader { files, lists, file: *file }.lists(document.get_ref());
    }
    let default = settings::mode(documents[0].1.get_ref()).unwrap_or(Mode::Enforce);
    let (mut placed, mut tests, mut named) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rules_found, mut tests_found) = (0, 0);
    let stores = Reader { files, lists, file: main }.stores(documents[0].1.get_ref());
    for (file, document) in &documents {
        let mut reader = Reader { files, lists, file: *file };
        for (table, at) in tables(document.get_ref(), "rule") {
            rules_found += 1;
            if rules_found == MOST_RULES + 1 {
                let place = Place { file: *file, span: at.clone() };
                let message = format!("there are more than {MOST_RULES} rules");
                reader.files.add(&place, Code::TooMuch, message, Some("conditions take lists of values"));
            }
            if rules_found <= MOST_RULES {
                placed.extend(reader.rule(table, at, default, &stores));
            }
        }
        for (table, _) in tables(document.get_ref(), "test") {
            tests_found += 1;
            tests.extend(reader.test(table, &mut named));
        }
    }
    let first = documents[0].1.get_ref();
    let mut reader = Reader { files, lists, file: main };
    let mut rules = Rules::default();
    rules.clients = reader.clients(first);
    rules.answer = inner(first, "answer").map(|table| reader.answer(table)).unwrap_or_default();
    rules.upstream_limits = match read::text(first, "upstream_limits") {
        Some("ours") => UpstreamLimits::Ours,
        _ => UpstreamLimits::Stricter,
    };
    rules.cors = first.get("cors").map_or_else(Vec::new, |origins| {
        let texts = each(origins).filter_map(|value| value.get_ref().as_str());
        texts.map(Into::into).collect()
    });
    let fold_paths = inner(first, "paths").and_then(|paths| paths.get("fold")?.get_ref().as_bool());
    rules.fold_paths = fold_paths.unwrap_or(rules.fold_paths);
    if let Some(mib) = number::<u64>(first, "memory_budget_mib") {
        rules.memory_budget = usize::try_from(mib << 20).unwrap_or(usize::MAX);
    }
    names::check(files, &placed, &named);
    if !files.has_errors() {
        let whole = placed.iter().filter(|placed| placed.is_whole).count();
        if whole != rules_found || tests.len() != tests_found {
            let place = Place { file: main, span: 0..0 };
            let message = "a rule or a test was lost: this is a mistake of Tollgate";
            files.add(&place, Code::Internal, message, Some("please report it"));
        }
        lint::check(files, main, &placed);
    }
    if !files.has_errors() {
        within_budget(files, &placed, rules.memory_budget);
    }
    rules.rules = placed.into_iter().map(|placed: Placed| placed.rule).collect();
    rules.tests = tests;
    Some(rules)
}

/// Reports rules that may come to take more memory than they may, at the one that takes most.
fn within_budget(files: &mut Files<'_>, placed: &[Placed], budget: usize) {
    let of = |placed: &Placed| placed.rule.memory().unwrap_or_default();
    let needed = placed.iter().map(of).fold(0, usize::saturating_add);
    // Of equals, the first.
    let largest = placed.iter().rev().max_by_key(|placed| of(placed));
    let Some(largest) = largest.filter(|_| needed > budget) else { return };
    let mib = |bytes: usize| bytes.div_ceil(1 << 20);
    let message = format!(
        "the keys of all rules may take {} MiB, but the budget is {} MiB; the most, {} MiB, are those of `{}`",
        mib(needed),
        mib(budget),
        mib(of(largest)),
        largest.rule.name
    );
    let hint = "fewer max_keys, or a larger memory_budget_mib of the file";
    files.add(&largest.field("max_keys"), Code::TooMuch, message, Some(hint));
}

fn parsed<'t>(
    files: &mut Files<'_>,
    file: FileId,
    text: &'t str,
    table: &'static Table,
) -> Spanned<DeTable<'t>> {
    // The parser would go on without a warning, and the stack overflow.
    let deep = nesting::too_deep(text);
    if let Some(at) = deep {
        let message = "the file is nested too deeply";
        files.add(
            &Place { file, span: at..at + 1 },
            Code::TooMuch,
            message,
            Some("a rules file needs five levels"),
        );
    }
    let (document, errors) = DeTable::parse_recoverable(if deep.is_some() { "version = 1" } else { text });
    files.add_syntax(file, &errors);
    walk::walk(files, file, table, document.get_ref());
    document
}

/// The files that a file includes, in the order of their paths.
fn include(files: &mut Files<'_>, main: FileId, document: &Spanned<DeTable<'_>>) -> Vec<FileId> {
    let own = files.path(main).to_owned();
    let base = own.parent().unwrap_or(Path::new("")).to_owned();
    let mut paths: Vec<(PathBuf, Place)> = Vec::new();
    for value in document.get_ref().get("include").into_iter().flat_map(each) {
        let Some(pattern) = value.get_ref().as_str() else { continue };
        let place = Place { file: main, span: value.span() };
        let (directory, name) =
            pattern.rsplit_once('/').map_or((base.clone(), pattern), |(directory, name)| {
                (base.join(if directory.is_empty() { "/" } else { directory }), name)
            });
        if name.is_empty() || pattern[..pattern.len() - name.len()].contains('*') {
            continue;
        }
        match name.split_once('*') {
            None => paths.push((directory.join(name), place)),
            Some(_) => {
                let names = files.names(&directory, &place).into_iter();
                let fits =
                    |found: &String| glob(name, found) && (name.starts_with('.') || !found.starts_with('.'));
                paths.extend(names.filter(fits).map(|found| (directory.join(found), place.clone())));
            }
        }
    }
    paths.sort_by(|(one, _), (other, _)| one.cmp(other));
    paths.retain(|(path, _)| *path != own);
    let mut seen = BTreeSet::new();
    paths.retain(|(path, _)| seen.insert(path.clone()));
    if let Some((_, place)) = paths.get(MOST_FILES) {
        let message = format!("more than {MOST_FILES} files are included");
        files.add(&place.clone(), Code::TooMuch, message, None::<&str>);
        paths.truncate(MOST_FILES);
    }
    paths.iter().filter_map(|(path, place)| files.read(path, Holds::Rules, Some(place))).collect()
}

/// The most files that a file includes.
const MOST_FILES: usize = 1_000;

/// Whether a name fits a pattern in which `*` is any characters. Takes linear time for each `*`.
pub(crate) fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
