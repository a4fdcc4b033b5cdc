//! Reads one file of a crate: its modules, its paths, its `impl` blocks.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, Token, UseTree};

use crate::modules::{Crate, Mention, Module, Names};

/// Reads one file into its crate.
pub(crate) struct Reader<'a> {
    module: Names,
    file: &'a str,
    krate: &'a mut Crate,
    pub(crate) mentions: Vec<Mention>,
    /// The types of its inherent `impl` blocks.
    pub(crate) impls: Vec<Names>,
    /// The modules that have files of their own, with the path if the source gives one.
    pub(crate) below: Vec<(Names, Option<String>)>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(module: Names, file: &'a str, krate: &'a mut Crate) -> Self {
        Self { module, file, krate, mentions: Vec::new(), impls: Vec::new(), below: Vec::new() }
    }

    pub(crate) fn read_module(&mut self, items: &[Item]) {
        let mut module = Module { file: self.file.to_owned(), ..Module::default() };
        let items: Vec<&Item> = items.iter().filter(|item| !is_of_tests(attributes(item))).collect();
        let children = items.iter().filter_map(|item| match item {
            Item::Mod(child) => Some(child.ident.to_string()),
            _ => None,
        });
        let children: BTreeSet<String> = children.collect();
        module.items.extend(items.iter().filter_map(|item| name_of(item)));
        self.krate.modules.insert(self.module.clone(), module);
        for name in &children {
            let target = self.module.iter().chain([name]).cloned().collect();
            self.own().names.insert(name.clone(), target);
        }
        for item in items.iter().filter(|item| matches!(item, Item::Use(_))) {
            self.visit_item(item);
        }
        for item in items.iter().filter(|item| !matches!(item, Item::Use(_))) {
            self.visit_item(item);
        }
    }

    fn own(&mut self) -> &mut Module {
        self.krate.modules.get_mut(&self.module).unwrap()
    }

    /// Returns a path from the root of the crate; `None` for one that names another crate.
    fn rooted(&self, path: &[String]) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        let mut base = self.module.clone();
        match first.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                base.pop()?;
                let ups = rest.iter().take_while(|name| *name == "super").count();
                base.truncate(base.len().checked_sub(ups)?);
                return Some(base.into_iter().chain(rest[ups..].iter().cloned()).collect());
            }
            _ => base = self.krate.modules[&self.module].names.get(first)?.clone(),
        }
        Some(base.into_iter().chain(rest.iter().cloned()).collect())
    }

    fn mention(&mut self, path: &[String], line: usize, is_reexport: bool) {
        if let Some(path) = self.rooted(path) {
            self.mentions.push(Mention { by: self.module.clone(), path, line, is_reexport });
        }
    }

    fn read_use(&mut self, tree: &UseTree, before: &mut Names, is_reexport: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.read_use(&path.tree, before, is_reexport);
                before.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.read_use(tree, before, is_reexport);
                }
            }
            UseTree::Glob(glob) => {
                if let Some(target) = self.rooted(before) {
                    self.own().globs.push(target);
                    before.push("*".into());
                    self.mention(before, glob.span().start().line, is_reexport);
                    before.pop();
                }
            }
            UseTree::Name(name) => self.read_name(&name.ident, &name.ident, before, is_reexport),
            UseTree::Rename(name) => self.read_name(&name.ident, &name.rename, before, is_reexport),
        }
    }

    fn read_name(&mut self, name: &syn::Ident, known_as: &syn::Ident, before: &[String], is_reexport: bool) {
        let mut path = before.to_vec();
        if name != "self" {
            path.push(name.to_string());
        }
        let known_as = if known_as == "self" { path.last().unwrap().clone() } else { known_as.to_string() };
        if let Some(target) = self.rooted(&path) {
            self.own().names.insert(known_as, target);
            self.mention(&path, name.span().start().line, is_reexport);
        } else {
            self.own().outside.insert(known_as);
        }
    }

    /// Reads paths in the tokens of a macro: its arguments, or what it expands to.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path = Names::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) if colons == 2 && !path.is_empty() => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                other => {
                    self.mention_qualified(&path, line);
                    (path, colons) = (Names::new(), 0);
                    match other {
                        TokenTree::Ident(ident) => {
                            line = ident.span().start().line;
                            path.push(ident.to_string());
                        }
                        TokenTree::Group(group) => self.read_tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        self.mention_qualified(&path, line);
    }

    fn mention_qualified(&mut self, path: &[String], line: usize) {
        if path.len() > 1 {
            self.mention(path, line, false);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_of_tests(attributes(item)) {
            return;
        }
        match item {
            Item::Mod(child) => {
                self.module.push(child.ident.to_string());
                match &child.content {
                    Some((_, items)) => self.read_module(items),
                    None => self.below.push((self.module.clone(), given_path(&child.attrs))),
                }
                self.module.pop();
            }
            Item::Use(used) => {
                let is_reexport = !matches!(used.vis, syn::Visibility::Inherited);
                self.read_use(&used.tree, &mut Names::new(), is_reexport);
            }
            Item::Impl(block) => {
                if let (None, syn::Type::Path(of)) = (&block.trait_, &*block.self_ty) {
                    let names = names_of(&of.path);
                    let own = || self.module.iter().cloned().chain(names.clone()).collect();
                    let of = self.rooted(&names).unwrap_or_else(own);
                    self.impls.push(of);
                }
                visit::visit_item(self, item);
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Fn(function) => &function.attrs,
            syn::ImplItem::Const(constant) => &constant.attrs,
            _ => return visit::visit_impl_item(self, item),
        };
        if !is_of_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mention_qualified(&names_of(path), path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.read_tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }

    /// A visibility is no import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn names_of(path: &syn::Path) -> Names {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Returns whether only tests, or loom, compile what has these attributes.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(|cfg| !may_hold(&cfg))
    })
}

/// Returns whether a condition may hold without tests and without loom.
fn may_hold(cfg: &Meta) -> bool {
    let parts = |list: &syn::MetaList| {
        list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default()
    };
    match cfg {
        Meta::Path(path) => !path.is_ident("test") && !path.is_ident("loom"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).iter().all(may_hold),
        Meta::List(list) if list.path.is_ident("any") => parts(list).iter().any(may_hold),
        _ => true,
    }
}

/// Returns the path of `#[path = "..."]`.
fn given_path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(given) if given.path.is_ident("path") => match &given.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
