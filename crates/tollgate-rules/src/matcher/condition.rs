//! Compiled conditions, and whether they hold of a request.

use super::pattern::{Pattern, Stack, Trie};
use super::values::{Networks, Texts};
use crate::request::{Form, MAX_VALUE, Reading, Seen, Source};
use crate::rule::Attribute;

/// What a condition does where it holds, and so how it reads a request that can be read in several
/// ways. What relaxes never holds where what restricts does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// It restricts: one reading and one value that fits is enough. Paths are folded, and `HEAD` is
    /// a `GET`, too.
    Restricts,
    /// It relaxes: all readings and all values must fit, as they were sent. A value that is empty
    /// or too long is missing.
    Relaxes,
}

impl Side {
    pub(super) fn opposite(self) -> Self {
        match self {
            Self::Restricts => Self::Relaxes,
            Self::Relaxes => Self::Restricts,
        }
    }
}

/// A compiled condition.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) attribute: Attribute,
    pub(super) source: Source,
    pub(super) wanted: Wanted,
}

#[derive(Debug)]
pub(super) enum Wanted {
    Paths(Paths),
    Clients { any: bool, networks: Networks<()> },
    Texts(Texts),
}

/// Patterns of which a path must match one.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) any: bool,
    /// Sorted: those that say more first.
    pub(super) patterns: Vec<Pattern>,
    /// All of them, where they are many.
    trie: Option<Trie>,
}

/// How a path matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathMatch<'m> {
    /// The number of the reading.
    pub(super) reading: usize,
    /// The pattern; `None`: any path does.
    pub(super) pattern: Option<&'m Pattern>,
}

/// More patterns than this are found by a trie.
const FEW: usize = 8;

impl Paths {
    pub(super) fn new(any: bool, mut patterns: Vec<Pattern>, form: Form) -> Self {
        patterns.sort();
        let trie = (patterns.len() > FEW).then(|| {
            let mut trie = Trie::new(form);
            for (pattern, number) in patterns.iter().zip(0..) {
                trie.insert(pattern, number);
            }
            trie
        });
        Self { any, patterns, trie }
    }

    /// Returns the first pattern that a path in the form that restricts matches, and of which
    /// `accept` is true.
    fn first(
        &self,
        path: &[u8],
        form: Form,
        stack: &mut Stack,
        accept: impl Fn(&Pattern) -> bool,
    ) -> Option<&Pattern> {
        let Some(trie) = &self.trie else {
            return self.patterns.iter().find(|pattern| pattern.matches(path, form) && accept(pattern));
        };
        let mut first = None;
        trie.visit(path, stack, |number| {
            if first.is_none_or(|first| number < first) && accept(&self.patterns[number as usize]) {
                first = Some(number);
            }
        });
        first.map(|number| &self.patterns[number as usize])
    }

    /// Returns how the path matches; `None`: it does not.
    fn matched(&self, seen: &Seen<'_>, side: Side, stack: &mut Stack) -> Option<PathMatch<'_>> {
        let mut first = None;
        if seen.has_more_readings() {
            let is_one = side == Side::Restricts && (self.any || !self.patterns.is_empty());
            return is_one.then(|| PathMatch { reading: 0, pattern: self.patterns.first() });
        }
        for (reading, path) in seen.readings().iter().enumerate() {
            let exact = seen.bytes(&path.exact);
            // A path that is no path, such as `*`, relaxes nothing but where any does.
            let rooted = exact.strip_prefix(b"/");
            let accept = |pattern: &Pattern| {
                side == Side::Restricts || rooted.is_some_and(|exact| pattern.matches(exact, Form::Exact))
            };
            let is_missing = side == Side::Relaxes && exact.len() > MAX_VALUE;
            let pattern = if self.any { None } else { self.first(seen.path(path), seen.form, stack, accept) };
            match (side, (self.any || pattern.is_some()) && !is_missing) {
                (Side::Restricts, true) => return Some(PathMatch { reading, pattern }),
                (Side::Restricts, false) => {}
                (Side::Relaxes, true) => first = first.or(Some(PathMatch { reading, pattern })),
                (Side::Relaxes, false) => return None,
            }
        }
        first
    }
}

impl Texts {
    /// Returns whether the values of a source fit.
    fn hold(&self, seen: &Seen<'_>, source: &Source, side: Side) -> bool {
        if side == Side::Restricts && seen.may_be_any(source) {
            return !self.is_empty();
        }
        let (mut some, mut all) = (false, true);
        seen.values(source, &mut |value, reading| match (side, reading) {
            (Side::Restricts, _) => {
                let fits = || self.contains(value) || self.restricting.contains(value);
                some = some || self.any || (value.len() <= MAX_VALUE && fits());
            }
            (Side::Relaxes, Reading::Further) => {}
            (Side::Relaxes, Reading::Only | Reading::First) => {
                let is_there = (1..=MAX_VALUE).contains(&value.len()) && reading == Reading::Only;
                some = true;
                all = all && is_there && self.contains(value);
            }
        });
        some && all
    }
}

impl Test {
    /// Returns whether the condition holds. If it is on the path, says how the path matched.
    fn holds<'m>(
        &'m self,
        seen: &Seen<'_>,
        side: Side,
        stack: &mut Stack,
        path: &mut Option<PathMatch<'m>>,
    ) -> bool {
        match &self.wanted {
            Wanted::Texts(texts) => texts.hold(seen, &self.source, side),
            Wanted::Clients { any, networks } => {
                seen.client().is_some_and(|client| *any || networks.containing(client).next().is_some())
            }
            Wanted::Paths(paths) => {
                let matched = paths.matched(seen, side, stack);
                *path = path.or(matched);
                matched.is_some()
            }
        }
    }
}

/// Conditions that must all hold.
#[derive(Debug)]
pub(super) struct All(pub(super) Vec<Test>);

impl All {
    /// Returns how the path matched, if a condition is on it.
    ///
    /// # Errors
    ///
    /// The first condition that does not hold.
    pub(super) fn judge(
        &self,
        seen: &Seen<'_>,
        side: Side,
        stack: &mut Stack,
    ) -> Result<Option<PathMatch<'_>>, &Test> {
        let mut path = None;
        match self.0.iter().find(|test| !test.holds(seen, side, stack, &mut path)) {
            Some(failing) => Err(failing),
            None => Ok(path),
        }
    }
}

/// Returns the number of the first alternative that holds, and how the path matched.
pub(super) fn first<'m>(
    alternatives: &'m [All],
    seen: &Seen<'_>,
    side: Side,
    stack: &mut Stack,
) -> Option<(usize, Option<PathMatch<'m>>)> {
    let mut alternatives = alternatives.iter().enumerate();
    alternatives.find_map(|(number, all)| Some((number, all.judge(seen, side, stack).ok()?)))
}
