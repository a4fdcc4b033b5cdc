//! The files that were read, their problems, and the hash of their bytes.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::draw::Excerpt;
use super::problem::{Code, Problem, ProblemPart};
use super::source::{Memory, Source};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Rules in TOML. Parsing takes up to 150 times as many bytes of memory.
    Rules,
    /// A list.
    List,
    /// The descriptors of a domain in YAML.
    Envoy,
}

impl Holds {
    /// The most bytes of one such file, and of all.
    const fn most(self) -> (u64, u64) {
        match self {
            Self::Rules => (4 << 20, 4 << 20),
            Self::List | Self::Envoy => (16 << 20, 64 << 20),
        }
    }

    const fn plural(self) -> &'static str {
        match self {
            Self::Rules => "rules files",
            Self::List => "lists",
            Self::Envoy => "files",
        }
    }
}

/// The most problems that are kept.
const MOST_PROBLEMS: usize = 1_000;

/// The number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(usize);

/// A part of a file, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: FileId,
    pub(crate) span: Range<usize>,
}

#[derive(Debug)]
struct Loaded {
    path: PathBuf,
    text: Arc<str>,
    /// The offset at which each line starts.
    lines: Vec<usize>,
    /// Whether excerpts may show the text. Lists may hold secrets.
    shown: bool,
}

/// The files that were read, in order, and their problems.
pub(crate) struct Files<'s> {
    source: &'s dyn Source,
    loaded: Vec<Loaded>,
    /// Every path that was read, or that could not be.
    paths: Vec<PathBuf>,
    /// The environment variables that were read.
    variables: Vec<(String, String)>,
    /// The bytes of each kind of files.
    bytes: [u64; 3],
    /// Whether a file is not TOML. Then a missing field may stand in a part that was not parsed.
    broken: bool,
    /// The lines below headings without their last bracket: the parser reads them as another
    /// table's. In the order of files and lines.
    astray: Vec<Place>,
    hash: Sha256,
    problems: Vec<(Place, Problem)>,
    /// The problems that are only counted, and the code of the first.
    left_out: Option<(Code, usize)>,
}

impl<'s> Files<'s> {
    pub(crate) fn new(source: &'s dyn Source) -> Self {
        let (loaded, paths, problems) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            source,
            loaded,
            paths,
            variables: Vec::new(),
            bytes: [0; 3],
            broken: false,
            astray: Vec::new(),
            hash: Sha256::new(),
            problems,
            left_out: None,
        }
    }

    /// Reads a file. An error is reported at `named`, where the file is named, or without a
    /// position for the first file.
    pub(crate) fn read(&mut self, path: &Path, holds: Holds, named: Option<&Place>) -> Option<FileId> {
        let (most, in_all) = holds.most();
        let before = self.bytes[holds as usize];
        let file = FileId(self.loaded.len());
        let read = self.source.read(path, most);
        self.paths.push(path.to_owned());
        self.feed(path.to_string_lossy().as_bytes(), read.as_deref().unwrap_or_default());
        let wrong = match read {
            Err(error) => {
                Some((Code::Unreadable, format!("cannot read `{}`: {error}", path.display()), None))
            }
            Ok(bytes) if bytes.len() as u64 > most => {
                let message = format!("`{}` is larger than {} MiB", path.display(), most >> 20);
                let hint = (holds != Holds::Envoy).then_some("long lists of values belong in lists");
                Some((Code::TooMuch, message, hint))
            }
            Ok(bytes) if before + bytes.len() as u64 > in_all => {
                let message = format!("all {} are larger than {} MiB", holds.plural(), in_all >> 20);
                Some((Code::TooMuch, message, None))
            }
            Ok(bytes) => {
                self.bytes[holds as usize] += bytes.len() as u64;
                let (text, wrong) = match String::from_utf8(bytes) {
                    Ok(text) => {
                        let nul = text.find('\0').map(|at| (at, "a NUL byte"));
                        (text, nul)
                    }
                    Err(error) => {
                        let at = error.utf8_error().valid_up_to();
                        let bytes = error.into_bytes();
                        (
                            String::from_utf8_lossy(&bytes[..at]).into_owned(),
                            Some((at, "a byte that is not UTF-8")),
                        )
                    }
                };
                let lines =
                    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
                let shown = holds != Holds::List;
                self.loaded.push(Loaded { path: path.to_owned(), text: text.into(), lines, shown });
                let Some((at, what)) = wrong else { return Some(file) };
                let message = format!("the file contains {what}");
                let hint = "a rules file is UTF-8 text";
                self.add(&Place { file, span: at..at }, Code::NotText, message, Some(hint));
                return None;
            }
        };
        if let Some((code, message, hint)) = wrong {
            match named {
                Some(place) => self.add(&place.clone(), code, message, hint),
                None => {
                    let (text, lines) = ("".into(), vec![0]);
                    self.loaded.push(Loaded { path: path.to_owned(), text, lines, shown: false });
                    self.add(&Place { file, span: 0..0 }, code, message, hint);
                    if let Some((_, problem)) = self.problems.last_mut() {
                        (problem.line, problem.column, problem.len) = (0, 0, 0);
                    }
                }
            }
        }
        None
    }

    /// Returns the names of the files in a directory, sorted.
    pub(crate) fn names(&mut self, directory: &Path, named: &Place) -> Vec<String> {
        match self.source.names(directory) {
            Ok(mut names) => {
                names.sort();
                names
            }
            Err(error) => {
                let message = format!("cannot read the directory `{}`: {error}", directory.display());
                self.add(named, Code::Unreadable, message, None::<&str>);
                Vec::new()
            }
        }
    }

    /// The value of an environment variable, or why there is none.
    pub(crate) fn variable(&mut self, name: &str) -> Result<String, String> {
        let value = self.source.variable(name);
        self.feed(name.as_bytes(), value.as_deref().unwrap_or_default().as_bytes());
        self.variables.extend(value.iter().map(|value| (name.to_owned(), value.clone())));
        value.ok_or_else(|| match self.source.withholds(name) {
            Some(why) => format!("the environment variable `{name}` is not read: {why}"),
            None => format!("the environment variable `{name}` is not set"),
        })
    }

    fn feed(&mut self, name: &[u8], bytes: &[u8]) {
        for part in [name, bytes] {
            self.hash.update((part.len() as u64).to_le_bytes());
            self.hash.update(part);
        }
    }

    pub(crate) fn text(&self, file: FileId) -> Arc<str> {
        Arc::clone(&self.loaded[file.0].text)
    }

    /// Reports the errors of a file's TOML.
    pub(crate) fn add_syntax(&mut self, file: FileId, errors: &[toml::de::Error]) {
        for error in errors {
            self.astray.extend(self.below_heading(file, error));
        }
        self.astray.sort_by_key(|lines| (lines.file, lines.span.start));
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            let twice = error.message() == "duplicate key";
            if twice && self.is_astray(&Place { file, span: span.clone() }) {
                continue;
            }
            // Lines of YAML, and the opening brace of JSON.
            let is_foreign = ["key with no value", "invalid key-value pair"]
                .iter()
                .any(|beginning| error.message().starts_with(beginning));
            let hint = match (twice, is_foreign) {
                (true, _) => Some("each key once in a table"),
                (_, true) => Some("a rules file is TOML: name = \"value\""),
                _ => None,
            };
            self.add(&Place { file, span }, Code::Syntax, error.message(), hint);
            self.broken |= !twice;
        }
    }

    /// The lines from a heading without its last bracket to the next heading.
    fn below_heading(&self, file: FileId, error: &toml::de::Error) -> Option<Place> {
        let is_unclosed = ["unclosed table", "unclosed array table"]
            .iter()
            .any(|beginning| error.message().starts_with(beginning));
        let at = error.span().filter(|_| is_unclosed)?.start;
        let Loaded { text, lines, .. } = &self.loaded[file.0];
        let first = *lines.get(lines.partition_point(|line| *line <= at))?;
        let is_known = self.astray.last().is_some_and(|last| last.file == file && last.span.start == first);
        let below = text[first..].split_inclusive('\n');
        let below = below.take_while(|line| !line.trim_start().starts_with('['));
        (!is_known).then(|| Place { file, span: first..first + below.map(str::len).sum::<usize>() })
    }

    fn is_astray(&self, place: &Place) -> bool {
        let start = (place.file, place.span.start);
        let after = self.astray.partition_point(|lines| (lines.file, lines.span.start) <= start);
        let before = self.astray[..after].last();
        before.is_some_and(|lines| lines.file == place.file && lines.span.contains(&place.span.start))
    }

    pub(crate) fn path(&self, file: FileId) -> &Path {
        &self.loaded[file.0].path
    }

    /// Reports a problem of several places: it is drawn with all, and stands at the last one.
    pub(crate) fn add_all(
        &mut self,
        places: &[Place],
        code: Code,
        message: impl Into<String>,
        hint: Option<impl Into<String>>,
    ) {
        let Some((last, others)) = places.split_last() else { return };
        let before = self.problems.len();
        self.add(last, code, message, hint);
        if self.problems.len() > before
            && let Some((_, mut problem)) = self.problems.pop()
        {
            problem.also = others.iter().map(|place| self.part(place)).collect();
            self.problems.push((last.clone(), problem));
        }
    }

    /// Reports a problem.
    pub(crate) fn add(
        &mut self,
        place: &Place,
        code: Code,
        message: impl Into<String>,
        hint: Option<impl Into<String>>,
    ) {
        if self.broken
            && matches!(
                code,
                Code::MissingField
                    | Code::UnknownRule
                    | Code::UnknownList
                    | Code::UnknownStore
                    | Code::WrongType
            )
        {
            return;
        }
        if code != Code::Syntax && self.is_astray(place) {
            return;
        }
        if self.is_full() {
            self.left_out.get_or_insert((code, 0)).1 += 1;
            return;
        }
        let ProblemPart { file, line, column, len, excerpt } = self.part(place);
        let (message, hint) = (message.into().into(), hint.map(|hint| hint.into().into()));
        let also = Box::default();
        let problem = Problem { file, line, column, len, code, message, hint, also, excerpt };
        self.problems.push((place.clone(), problem));
    }

    /// A place, as a problem shows it.
    fn part(&self, place: &Place) -> ProblemPart {
        let Loaded { path, text, lines, shown } = &self.loaded[place.file.0];
        let boundary =
            |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let start = boundary(place.span.start);
        let number = lines.partition_point(|line| *line <= start) - 1;
        let line = text[lines[number]..].split('\n').next().unwrap_or_default();
        let line = line.strip_suffix('\r').unwrap_or(line);
        let from = (start - lines[number]).min(line.len());
        let to = (boundary(place.span.end).max(start) - lines[number]).clamp(from, line.len());
        ProblemPart {
            file: path.to_string_lossy().into(),
            line: number + 1,
            column: line[..from].chars().count() + 1,
            len: line[from..to].chars().count(),
            excerpt: shown.then(|| Excerpt::new(line, from..to)),
        }
    }

    /// The line in which a part of a file begins, from 1.
    pub(crate) fn line(&self, place: &Place) -> usize {
        self.loaded[place.file.0].lines.partition_point(|line| *line <= place.span.start)
    }

    /// Whether further problems are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.problems.len() >= MOST_PROBLEMS
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.left_out.is_some_and(|(code, _)| !code.is_warning())
            || self.problems.iter().any(|(_, problem)| !problem.is_warning())
    }

    /// A copy of everything that was read.
    pub(crate) fn copy(&self) -> Memory {
        let files = self
            .loaded
            .iter()
            .fold(Memory::default(), |memory, loaded| memory.file(&loaded.path, loaded.text.as_bytes()));
        self.variables.iter().fold(files, |memory, (name, value)| memory.variable(name, value))
    }

    /// The problems in the order of files and lines, the hash of all bytes, and the paths.
    pub(crate) fn finish(mut self) -> (Vec<Problem>, [u8; 32], Vec<PathBuf>) {
        self.problems.sort_by_key(|(place, _)| (place.file, place.span.start));
        let last = self.problems.last().map(|(place, _)| Place { file: place.file, span: 0..0 });
        let mut problems: Vec<_> = self.problems.drain(..).map(|(_, problem)| problem).collect();
        problems.dedup();
        if let (Some(place), Some((first, more))) = (last, self.left_out) {
            // Warnings come after errors: of warnings that are left out none hides an error.
            let code = if first.is_warning() { first } else { Code::TooMuch };
            self.add(&place, code, format!("and {more} more problems"), None::<&str>);
            problems.extend(self.problems.pop().map(|(_, problem)| problem));
        }
        (problems, self.hash.finalize().into(), self.paths)
    }
}
