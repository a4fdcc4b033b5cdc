//! The modules of the workspace's crates: which file imports from which.
//!
//! A declaration of a module is no import. Neither is a re-export of a name from a module below:
//! a file that imports the name imports from the file that defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use crate::reader::Reader;

/// A path of a module, or of an item in it, from the root of the crate.
pub(crate) type Names = Vec<String>;

/// A crate, without the code that only tests or loom compile: that may use any module.
#[derive(Default)]
pub(crate) struct Crate {
    /// The folder of its sources.
    pub(crate) folder: String,
    pub(crate) modules: BTreeMap<Names, Module>,
    /// Every import from another file.
    pub(crate) imports: Vec<Import>,
    /// Every inherent `impl` block: its type, and its file.
    pub(crate) impls: Vec<(Names, String)>,
}

/// One import, or one path in code.
pub(crate) struct Import {
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The module that imports.
    pub(crate) by: Names,
    /// The module that defines what is imported.
    pub(crate) of: Names,
    pub(crate) of_file: String,
}

/// One module.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: String,
    pub(crate) items: BTreeSet<String>,
    /// The names that the module imports or re-exports, and its modules, with their paths.
    pub(crate) names: BTreeMap<String, Names>,
    /// The names that it imports from other crates.
    pub(crate) outside: BTreeSet<String>,
    /// The modules whose names it imports all.
    pub(crate) globs: Vec<Names>,
}

/// A path that a file mentions, before it is known what it names.
pub(crate) struct Mention {
    pub(crate) by: Names,
    pub(crate) path: Names,
    pub(crate) line: usize,
    pub(crate) is_reexport: bool,
}

/// Returns a file's text, if the file exists.
type Text<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns every crate of the workspace, those that prove included.
pub(crate) fn crates() -> &'static [Crate] {
    static CRATES: OnceLock<Vec<Crate>> = OnceLock::new();
    CRATES.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = |path: &str| std::fs::read_to_string(root.join(path)).ok();
        let mut folders = vec!["src".to_owned(), "xtask/src".to_owned()];
        for parent in ["crates", "proof"] {
            for entry in std::fs::read_dir(root.join(parent)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                folders.push(format!("{parent}/{name}/src"));
            }
        }
        folders.sort();
        let roots = folders.iter().flat_map(|folder| {
            let root = ["lib.rs", "main.rs"].map(|name| format!("{folder}/{name}"));
            root.into_iter().find(|root| text(root).is_some())
        });
        let roots: Vec<String> = roots.collect();
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                roots.iter().map(|root| scope.spawn(move || Crate::read(root, &text))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    })
}

impl Crate {
    /// Reads the crate whose root is this file.
    pub(crate) fn read(root: &str, text: Text<'_>) -> Self {
        let folder = root.rsplit_once('/').unwrap().0.to_owned();
        let mut read = Self { folder, ..Self::default() };
        let mut mentions = Vec::new();
        read.add_file(Names::new(), root, text, &mut mentions);
        for mention in mentions {
            read.add_import(&mention);
        }
        for index in 0..read.impls.len() {
            let of = &read.impls[index].0;
            if let Some(mut module) = read.defining_module(of, 0) {
                module.extend(of.last().cloned());
                read.impls[index].0 = module;
            }
        }
        read
    }

    fn add_file(&mut self, module: Names, path: &str, text: Text<'_>, all: &mut Vec<Mention>) {
        let source = text(path).unwrap_or_else(|| panic!("{path} must exist"));
        let parsed = syn::parse_file(&source).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut reader = Reader::new(module, path, self);
        reader.read_module(&parsed.items);
        all.append(&mut reader.mentions);
        let impls = std::mem::take(&mut reader.impls).into_iter().map(|of| (of, path.to_owned()));
        let below = reader.below;
        self.impls.extend(impls);
        for (child, given) in below {
            let folder = match Path::new(path).file_name().and_then(|name| name.to_str()) {
                Some("lib.rs" | "main.rs" | "mod.rs") => path.rsplit_once('/').unwrap().0.to_owned(),
                _ => path.trim_end_matches(".rs").to_owned(),
            };
            let name = child.last().unwrap();
            let places = match given {
                Some(given) => vec![format!("{folder}/{given}")],
                None => vec![format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")],
            };
            let file = places.into_iter().find(|place| text(place).is_some());
            // A file that a build script writes is not of the sources.
            if let Some(file) = file {
                self.add_file(child, &file, text, all);
            }
        }
    }

    fn add_import(&mut self, mention: &Mention) {
        let Some(of) = self.defining_module(&mention.path, 0) else { return };
        let is_facade = mention.is_reexport && of.starts_with(&mention.by);
        let (file, of_file) = (&self.modules[&mention.by].file, &self.modules[&of].file);
        if !is_facade && file != of_file {
            let (file, of_file) = (file.clone(), of_file.clone());
            self.imports.push(Import { file, line: mention.line, by: mention.by.clone(), of, of_file });
        }
    }

    /// Returns the module that defines what a path names; `None` for what is outside of the crate,
    /// and for a module: its items are mentioned where they are used.
    fn defining_module(&self, path: &[String], depth: usize) -> Option<Names> {
        let known = (0..=path.len()).rev().find(|&length| self.modules.contains_key(&path[..length]))?;
        let (owner, rest) = path.split_at(known);
        let (name, rest) = rest.split_first()?;
        let module = &self.modules[owner];
        let follow = |target: &Names| {
            let target: Names = target.iter().chain(rest).cloned().collect();
            self.defining_module(&target, depth + 1)
        };
        if module.outside.contains(name) {
            return None;
        }
        if depth > 16 || module.items.contains(name) {
            return Some(owner.to_owned());
        }
        if let Some(target) = module.names.get(name) {
            return follow(target);
        }
        let with_name = |glob: &Names| glob.iter().chain([name]).cloned().collect::<Names>();
        let found = module.globs.iter().find(|glob| {
            self.modules.get(*glob).is_some_and(|of| of.items.contains(name) || of.names.contains_key(name))
        });
        match found {
            Some(glob) => follow(&with_name(glob)),
            // A macro may have written it.
            None => Some(owner.to_owned()),
        }
    }
}

/// Returns the crate of these files, whose root is `src/lib.rs`.
pub(crate) fn in_memory(files: &[(&str, &str)]) -> Crate {
    let text = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
    Crate::read("src/lib.rs", &text)
}
