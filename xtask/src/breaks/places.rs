//! Where a fragment stands: the named items of a crate, and the search in them.
//!
//! | `in` | names |
//! |---|---|
//! | `Slot::charge` | a method, in whichever `impl` or trait; its type without parameters |
//! | `seconds_up` | a function, constant, static, type, or macro |
//! | `Ranged::RANGED` | a constant of a type or trait |
//! | `decide.lua` | a file of another language, by its name |
//!
//! Functions in a function are part of it. A fragment is compared without white space, and must
//! occur once in all items of that name.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::ops::Range;
use std::path::Path;

use syn::spanned::Spanned;

use super::form::{Break, Edit};

/// The sources of one crate.
pub(super) struct Sources {
    /// From the repository's root.
    files: Vec<(String, String)>,
    items: HashMap<String, Vec<Item>>,
}

/// A named item: the range of its text in a file.
struct Item {
    file: usize,
    range: Range<usize>,
    /// The block of a function that can hold two bodies; the braces are outside.
    body: Option<Range<usize>>,
}

/// Where the fragment of an edit stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    /// From the repository's root.
    pub(super) file: String,
    pub(super) range: Range<usize>,
    /// The body of the function around it, if it can be there twice.
    pub(super) body: Option<Range<usize>>,
}

impl Sources {
    /// Reads the crate in `folder`, which ends with a slash if it is not empty.
    pub(super) fn read(root: &Path, folder: &str) -> Result<Self, String> {
        let mut sources = Self { files: Vec::new(), items: HashMap::new() };
        sources.read_folder(root, &format!("{folder}src"))?;
        for number in 0..sources.files.len() {
            let (path, text) = &sources.files[number];
            let mut names = Names { file: number, within: Vec::new(), items: Vec::new() };
            if path.ends_with(".rs") {
                let parsed = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
                names.read(&parsed.items);
            } else {
                let name = path.rsplit('/').next().unwrap_or(path).to_owned();
                names.items.push((name, Item { file: number, range: 0..text.len(), body: None }));
            }
            for (name, item) in names.items {
                sources.items.entry(name).or_default().push(item);
            }
        }
        Ok(sources)
    }

    fn read_folder(&mut self, root: &Path, folder: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{folder}: {error}");
        let mut names: Vec<_> = Vec::new();
        for entry in fs::read_dir(root.join(folder)).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        for name in names {
            let path = format!("{folder}/{name}");
            if root.join(&path).is_dir() {
                self.read_folder(root, &path)?;
            } else if let Ok(text) = fs::read_to_string(root.join(&path)) {
                self.files.push((path, text));
            }
        }
        Ok(())
    }

    /// Returns the text of a file.
    pub(super) fn text(&self, file: &str) -> Option<&str> {
        self.files.iter().find(|(path, _)| path == file).map(|(_, text)| text.as_str())
    }

    /// Finds the fragment of an edit.
    pub(super) fn find(&self, edit: &Edit) -> Result<Place, String> {
        let items = self.items.get(&edit.item).ok_or_else(|| {
            format!("the crate has no `{}`: name the function that has this now:\n{}", edit.item, edit.old)
        })?;
        let mut places: Vec<Place> = Vec::new();
        for Item { file, range, body } in items {
            let (path, text) = &self.files[*file];
            for found in occurrences(&text[range.clone()], &edit.old) {
                let found = range.start + found.start..range.start + found.end;
                let body = body.clone().filter(|body| body.start <= found.start && found.end <= body.end);
                let place = Place { file: path.clone(), range: found, body };
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        match places.len() {
            1 => Ok(places.remove(0)),
            0 => Err(format!("`{}` has this no more:\n{}", edit.item, edit.old)),
            found => Err(format!("`{}` has this {found} times; take more of it:\n{}", edit.item, edit.old)),
        }
    }
}

/// The sources of each crate that has a break, each read once.
#[derive(Default)]
pub(super) struct Crates(HashMap<String, Sources>);

impl Crates {
    /// Reads the crates of these breaks.
    pub(super) fn of<'b>(root: &Path, breaks: impl Iterator<Item = &'b Break>) -> Result<Self, String> {
        let mut crates = Self::default();
        for broken in breaks {
            let folder = broken.crate_folder();
            if let Entry::Vacant(unread) = crates.0.entry(folder.clone()) {
                unread.insert(Sources::read(root, &folder)?);
            }
        }
        Ok(crates)
    }

    pub(super) fn sources(&self, broken: &Break) -> &Sources {
        &self.0[&broken.crate_folder()]
    }

    /// Finds the fragments of a break.
    pub(super) fn find(&self, broken: &Break) -> Result<Vec<Place>, String> {
        let sources = self.sources(broken);
        let places = broken.edits.iter().map(|edit| sources.find(edit));
        places.collect::<Result<_, _>>().map_err(|why| format!("{}/{}: {why}", broken.room(), broken.name))
    }
}

/// Collects the named items of a file.
struct Names {
    file: usize,
    /// The type or trait around the item.
    within: Vec<String>,
    items: Vec<(String, Item)>,
}

impl Names {
    fn add(&mut self, name: &impl ToString, whole: &impl Spanned, body: Option<Range<usize>>) {
        let name = match self.within.last() {
            Some(within) => format!("{within}::{}", name.to_string()),
            None => name.to_string(),
        };
        self.items.push((name, Item { file: self.file, range: whole.span().byte_range(), body }));
    }

    fn read(&mut self, items: &[syn::Item]) {
        for item in items {
            match item {
                syn::Item::Fn(function) => {
                    self.add(&function.sig.ident, function, body(&function.sig, Some(&function.block)));
                }
                syn::Item::Const(constant) => self.add(&constant.ident, constant, None),
                syn::Item::Static(constant) => self.add(&constant.ident, constant, None),
                syn::Item::Struct(kind) => self.add(&kind.ident, kind, None),
                syn::Item::Enum(kind) => self.add(&kind.ident, kind, None),
                syn::Item::Type(kind) => self.add(&kind.ident, kind, None),
                syn::Item::Macro(item) => {
                    let name =
                        item.ident.as_ref().or_else(|| item.mac.path.segments.last().map(|s| &s.ident));
                    if let Some(name) = name {
                        self.add(name, item, None);
                    }
                }
                syn::Item::Trait(item) => {
                    self.add(&item.ident, item, None);
                    self.within.push(item.ident.to_string());
                    for part in &item.items {
                        match part {
                            syn::TraitItem::Fn(method) => {
                                self.add(
                                    &method.sig.ident,
                                    method,
                                    body(&method.sig, method.default.as_ref()),
                                );
                            }
                            syn::TraitItem::Const(constant) => self.add(&constant.ident, constant, None),
                            _ => {}
                        }
                    }
                    self.within.pop();
                }
                syn::Item::Impl(item) => {
                    self.within.push(type_name(&item.self_ty));
                    for part in &item.items {
                        match part {
                            syn::ImplItem::Fn(method) => {
                                self.add(&method.sig.ident, method, body(&method.sig, Some(&method.block)));
                            }
                            syn::ImplItem::Const(constant) => self.add(&constant.ident, constant, None),
                            syn::ImplItem::Type(kind) => self.add(&kind.ident, kind, None),
                            _ => {}
                        }
                    }
                    self.within.pop();
                }
                syn::Item::Mod(module) if !is_test(&module.attrs) => {
                    if let Some((_, items)) = &module.content {
                        self.read(items);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the body of a function that can hold a second body: not that of a constant function, and
/// not if its type is that of its body.
fn body(sig: &syn::Signature, block: Option<&syn::Block>) -> Option<Range<usize>> {
    let returns_own_type = match &sig.output {
        syn::ReturnType::Type(_, kind) => matches!(**kind, syn::Type::ImplTrait(_)),
        syn::ReturnType::Default => false,
    };
    let block = block.filter(|_| sig.constness.is_none() && !returns_own_type)?;
    let inside = block.brace_token.span;
    Some(inside.open().byte_range().end..inside.close().byte_range().start)
}

/// Returns the name of a type without references and parameters.
fn type_name(kind: &syn::Type) -> String {
    match kind {
        syn::Type::Path(path) => {
            path.path.segments.last().map(|part| part.ident.to_string()).unwrap_or_default()
        }
        syn::Type::Reference(reference) => type_name(&reference.elem),
        syn::Type::Slice(slice) => type_name(&slice.elem),
        syn::Type::Array(array) => type_name(&array.elem),
        _ => String::new(),
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

/// Returns where `fragment` occurs in `text`, by everything but white space.
fn occurrences(text: &str, fragment: &str) -> Vec<Range<usize>> {
    let wanted: String = fragment.split_whitespace().collect();
    let (mut dense, mut places) = (String::new(), Vec::new());
    for (at, letter) in text.char_indices().filter(|(_, letter)| !letter.is_whitespace()) {
        dense.push(letter);
        // One for each byte, as the search counts bytes.
        places.extend(std::iter::repeat_n(at, letter.len_utf8()));
    }
    let last = wanted.chars().next_back().map_or(0, char::len_utf8);
    let ranges = dense.match_indices(&wanted).map(|(at, _)| {
        let end = at + wanted.len();
        places[at]..places[end - last] + last
    });
    ranges.filter(|range| stands_alone(text, range)).collect()
}

/// Returns whether no name or number runs over either end of the range.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let is_part =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let joins = |at: usize| is_part(text[..at].chars().next_back()) && is_part(text[at..].chars().next());
    !joins(range.start) && !joins(range.end)
}

/// Returns `text` with these ranges exchanged. They must not overlap.
pub(super) fn exchanged(text: &str, changes: &mut [(Range<usize>, String)]) -> String {
    changes.sort_by_key(|(range, _)| range.start);
    let (mut result, mut done) = (String::new(), 0);
    for (range, new) in changes.iter() {
        result.push_str(&text[done..range.start]);
        result.push_str(new);
        done = range.end;
    }
    result + &text[done..]
}
