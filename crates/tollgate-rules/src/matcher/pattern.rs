//! Patterns of paths: one alone, and a trie of many.

use std::collections::HashMap;

use crate::request::{Form, fold_literal, normalised_literal};

/// A pattern of paths: `/users/{id}`, `/users/*`, `/static/**`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern {
    // Patterns are sorted by their segments: a text, which says more, before what stands for any.
    segments: Box<[Segment]>,
    text: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Literal {
        folded: Box<[u8]>,
        exact: Box<[u8]>,
    },
    /// One that is not empty.
    Single(Option<Box<str>>),
    /// Any segments, or none. It stands last.
    Rest,
}

impl Segment {
    fn literal(&self, form: Form) -> Option<&[u8]> {
        match (self, form) {
            (Self::Literal { folded, .. }, Form::Folded) => Some(folded),
            (Self::Literal { exact, .. }, Form::Exact) => Some(exact),
            _ => None,
        }
    }
}

impl Pattern {
    /// Compiles a pattern that was checked.
    pub(super) fn new(text: &str) -> Self {
        let segment = |part: &str| match part {
            "**" => Segment::Rest,
            "*" => Segment::Single(None),
            _ => match part.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) => Segment::Single(Some(name.into())),
                None => {
                    let exact = normalised_literal(part.as_bytes());
                    Segment::Literal { folded: fold_literal(&exact).into(), exact: exact.into() }
                }
            },
        };
        let rest = text.strip_prefix('/').unwrap_or(text);
        Self { segments: rest.split('/').map(segment).collect(), text: text.into() }
    }

    /// Returns the pattern as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the segments. A folded path has no slash at its end.
    fn segments(&self, form: Form) -> &[Segment] {
        match (form, &*self.segments) {
            (Form::Folded, [start @ .., last]) if !start.is_empty() && last.literal(form) == Some(b"") => {
                start
            }
            (_, all) => all,
        }
    }

    /// Returns whether a path without its first slash matches.
    pub(super) fn matches(&self, path: &[u8], form: Form) -> bool {
        let mut parts = path.split(|&byte| byte == b'/');
        for segment in self.segments(form) {
            let fits = match segment {
                Segment::Rest => return true,
                Segment::Single(_) => parts.next().is_some_and(|part| !part.is_empty()),
                Segment::Literal { .. } => parts.next() == segment.literal(form),
            };
            if !fits {
                return false;
            }
        }
        parts.next().is_none()
    }

    /// Returns the part of a path that `{name}` matched. The path has no first slash.
    pub(super) fn capture<'p>(&self, name: &str, path: &'p [u8]) -> Option<&'p [u8]> {
        let is_it = |segment: &Segment| matches!(segment, Segment::Single(Some(own)) if **own == *name);
        let at = self.segments.iter().position(is_it)?;
        path.split(|&byte| byte == b'/').nth(at)
    }

    /// Returns the pattern as folded text without names, which equal patterns share, and whether
    /// any part of it is a text.
    pub(super) fn shape(&self) -> (Box<[u8]>, bool) {
        let (mut shape, mut has_text) = (Vec::new(), false);
        for segment in self.segments(Form::Folded) {
            shape.push(b'/');
            match segment {
                Segment::Literal { folded, .. } => {
                    has_text = true;
                    shape.extend_from_slice(folded);
                }
                Segment::Single(_) => shape.push(b'*'),
                Segment::Rest => shape.extend(b"**"),
            }
        }
        (shape.into(), has_text)
    }
}

/// Patterns by their segments, each with a number.
#[derive(Clone, Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    form: Form,
}

#[derive(Clone, Debug, Default)]
struct Node {
    literals: HashMap<Box<[u8]>, u32, ahash::RandomState>,
    single: Option<u32>,
    /// The numbers of patterns of which the rest is any.
    rest: Vec<u32>,
    /// The numbers of patterns that end here.
    end: Vec<u32>,
}

/// The nodes of a trie that are left to visit, each with the place in the path where its segments
/// go on; [`END`]: the path ends. A buffer.
pub(super) type Stack = Vec<(u32, usize)>;

const END: usize = usize::MAX;

impl Trie {
    pub(super) fn new(form: Form) -> Self {
        Self { nodes: vec![Node::default()], form }
    }

    pub(super) fn insert(&mut self, pattern: &Pattern, number: u32) {
        let mut at = 0;
        for segment in pattern.segments(self.form) {
            let next = self.nodes.len() as u32;
            let node = &mut self.nodes[at as usize];
            let child = match segment {
                Segment::Rest => return node.rest.push(number),
                Segment::Single(_) => *node.single.get_or_insert(next),
                Segment::Literal { folded, exact } => {
                    let literal = if self.form == Form::Folded { folded } else { exact };
                    *node.literals.entry(literal.clone()).or_insert(next)
                }
            };
            if child == next {
                self.nodes.push(Node::default());
            }
            at = child;
        }
        self.nodes[at as usize].end.push(number);
    }

    /// Returns the numbers of all patterns.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().flat_map(|node| node.rest.iter().chain(&node.end)).copied()
    }

    /// Calls `visit` with the number of each pattern that a path without its first slash matches.
    pub(super) fn visit(&self, path: &[u8], stack: &mut Stack, mut visit: impl FnMut(u32)) {
        stack.clear();
        stack.push((0, 0));
        // Each node has one parent, so that none is visited twice.
        while let Some((node, at)) = stack.pop() {
            let node = &self.nodes[node as usize];
            node.rest.iter().copied().for_each(&mut visit);
            if at == END {
                node.end.iter().copied().for_each(&mut visit);
                continue;
            }
            let rest = &path[at..];
            let slash = rest.iter().position(|&byte| byte == b'/');
            let (part, next) = slash.map_or((rest, END), |slash| (&rest[..slash], at + slash + 1));
            let single = node.single.filter(|_| !part.is_empty());
            stack.extend(single.map(|child| (child, next)));
            stack.extend(node.literals.get(part).map(|&child| (child, next)));
        }
    }
}
