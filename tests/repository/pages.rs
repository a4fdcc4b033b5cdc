//! The pages of the repository: every link resolves, every page is found from `docs/README.md`,
//! every command of a first page is typed by a test, and no example hides a line.
//!
//! Each rule is a function from a tree of files to what breaks it, with a bad sample below that it
//! must find.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The most lines of the front page.
const LONGEST_FRONT_PAGE: usize = 160;

/// The tests that type the commands of the first pages.
const TYPED_BY: &str = "crates/tollgate-cli/tests/serve/pages.rs";

/// The pages whose examples are compiled.
const COMPILED_BY: &str = "crates/tollgate-tower/src/lib.rs";

/// Files by their paths from the root, with slashes.
struct Tree {
    /// The texts: pages, sources and settings.
    texts: BTreeMap<String, String>,
    /// All files and folders.
    paths: BTreeSet<String>,
}

impl Tree {
    fn pages(&self) -> impl Iterator<Item = (&str, &str)> {
        let pages = self.texts.iter().filter(|(path, _)| path.ends_with(".md"));
        pages.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The first pages: those that a newcomer types from.
    fn first_pages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pages().filter(|(path, _)| *path == "README.md" || path.starts_with("docs/start/"))
    }
}

/// The lines of a page outside of its blocks of code, without what is in backticks.
fn prose(page: &str) -> Vec<String> {
    let mut is_code = false;
    let mut prose = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // A name in backticks may be the name of a reference: `[`Key`]: path`.
            let is_definition = line.starts_with('[') && line.contains("]: ");
            let outside = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            prose.push(if is_definition { line.to_owned() } else { outside });
        }
    }
    prose
}

/// What a page links to: in place, and by references.
fn links(page: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(page) {
        if let Some((_, target)) = line.split_once("]: ").filter(|_| line.starts_with('[')) {
            links.push(target.trim().to_owned());
        }
        let in_place = line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()));
        links.extend(in_place);
    }
    links
}

/// The anchors of a page's headings, as forges make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|number| format!("{slug}-{number}"));
        let own = std::iter::once(slug.clone()).chain(again).find(|slug| !anchors.contains(slug));
        anchors.extend(own);
    }
    anchors
}

/// A path from the root that a link of this page leads to.
fn resolved(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Whether an address of the web can be one.
fn is_address(link: &str) -> bool {
    let Some((_, rest)) = link.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let is_named = host == "localhost" || host.contains('.');
    is_named && !link.contains([' ', '<', '>', '"'])
}

/// Why a link of a page leads nowhere.
fn fault(tree: &Tree, page: &str, link: &str) -> Option<String> {
    if link.starts_with("http://") || link.starts_with("https://") {
        return (!is_address(link)).then(|| format!("{page}: {link} is no address"));
    }
    // The front pages of crates are read on docs.rs too, where a path of Rust is a link.
    if page.starts_with("crates/") && link.contains("::") {
        return None;
    }
    let (file, anchor) = match link.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (link, None),
    };
    let nowhere = || Some(format!("{page}: {link} leads nowhere"));
    let target = if file.is_empty() { Some(page.to_owned()) } else { resolved(page, file) };
    let Some(target) = target.filter(|target| target.is_empty() || tree.paths.contains(target)) else {
        return nowhere();
    };
    let anchor = anchor?;
    let has_anchor = tree.texts.get(&target).is_some_and(|text| anchors(text).contains(anchor));
    if has_anchor { None } else { nowhere() }
}

fn links_that_lead_nowhere(tree: &Tree) -> Vec<String> {
    let faults = |(page, text)| links(text).into_iter().filter_map(move |link| fault(tree, page, &link));
    tree.pages().flat_map(faults).collect()
}

/// The names of references that a page uses: `[text][name]`, and a name in backticks by itself,
/// which docs.rs finds and a forge does not.
fn names(page: &str) -> Vec<String> {
    let mut is_code = false;
    let mut names = Vec::new();
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if is_code {
            continue;
        }
        let by_text = line.split("][").skip(1).filter_map(|rest| Some(rest.split_once(']')?.0.to_owned()));
        names.extend(by_text);
        for rest in line.split("[`").skip(1) {
            let Some((name, after)) = rest.split_once("`]") else { continue };
            if !after.starts_with(['(', '[', ':']) {
                names.push(format!("`{name}`"));
            }
        }
    }
    names
}

fn references_to_nothing(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in tree.pages().filter(|(path, _)| !path.starts_with("crates/")) {
        let is_defined = |name: &String| text.lines().any(|line| line.starts_with(&format!("[{name}]: ")));
        let undefined = names(text).into_iter().filter(|name| !is_defined(name));
        faults.extend(undefined.map(|name| format!("{path}: [{name}] is defined nowhere")));
    }
    faults
}

/// Where a text names a page or a file below `docs/`, it must exist.
fn mentions_of_no_file(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    // The samples below name pages that are in no tree.
    for (path, text) in tree.texts.iter().filter(|(path, _)| !path.ends_with("repository/pages.rs")) {
        for (at, _) in text.match_indices("docs/") {
            let is_path = |c: char| c.is_ascii_alphanumeric() || ['/', '.', '_', '-'].contains(&c);
            let before = text[..at].chars().next_back();
            let is_part = before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            let rest = &text[at..];
            let name = &rest[..rest.find(|c| !is_path(c)).unwrap_or(rest.len())];
            let name = name.trim_end_matches(['.', '/']);
            let is_page = name.ends_with(".md") && !is_part;
            if is_page && !tree.paths.contains(name) {
                faults.push(format!("{path} names {name}, which does not exist"));
            }
        }
    }
    faults
}

/// `docs/README.md` names each page but those that a program wrote, which another page links.
fn pages_that_nobody_finds(tree: &Tree) -> Vec<String> {
    let index = "docs/README.md";
    let leads = |page: &str, text: &str| -> BTreeSet<String> {
        let links = links(text).into_iter();
        links.filter_map(|link| resolved(page, link.split('#').next()?)).collect()
    };
    let named = tree.texts.get(index).map(|text| leads(index, text)).unwrap_or_default();
    let linked: BTreeSet<String> = tree.pages().flat_map(|(page, text)| leads(page, text)).collect();
    let docs = tree.pages().map(|(page, _)| page).filter(|page| page.starts_with("docs/") && *page != index);
    let lost = docs.filter(|page| {
        let found = if page.starts_with("docs/charts/") { &linked } else { &named };
        !found.contains(*page)
    });
    lost.map(|page| format!("{index} does not name {page}")).collect()
}

fn a_long_front_page(tree: &Tree) -> Vec<String> {
    let lines = tree.texts.get("README.md").map_or(0, |text| text.lines().count());
    let long = lines > LONGEST_FRONT_PAGE;
    long.then(|| format!("README.md has {lines} lines: at most {LONGEST_FRONT_PAGE}")).into_iter().collect()
}

/// The blocks of a page: the heading above, the language with its options, and the text.
fn blocks(page: &str) -> Vec<(&str, &str, &str)> {
    let mut blocks = Vec::new();
    let (mut rest, mut heading) = (page, "");
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if line.starts_with('#') {
            heading = line;
        } else if let Some(language) = line.strip_prefix("```") {
            let (text, after) = rest.split_once("\n```").unwrap_or((rest, ""));
            blocks.push((heading, language, text));
            rest = after.split_once('\n').map_or("", |(_, after)| after);
        }
    }
    blocks
}

/// An example of the front page and of the documents shows all that it needs, and is compiled.
fn examples_that_hide_lines(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    let compiled = tree.texts.get(COMPILED_BY).map_or("", String::as_str);
    for (path, text) in tree.pages().filter(|(path, _)| *path == "README.md" || path.starts_with("docs/")) {
        for (heading, language, code) in blocks(text) {
            let is_hidden = |line: &str| line.trim() == "#" || line.trim_start().starts_with("# ");
            if language.starts_with("rust") && code.lines().any(is_hidden) {
                faults.push(format!("{path}, {heading}: an example hides a line"));
            }
            if language.starts_with("rust") && (language.contains("ignore") || !compiled.contains(path)) {
                faults.push(format!("{path}, {heading}: an example is not compiled"));
            }
        }
    }
    faults
}

/// The commands of the first pages are typed by tests: each page, and each part of the front page.
fn commands_that_no_test_types(tree: &Tree) -> Vec<String> {
    let tests: String = tree.texts.get(TYPED_BY).map_or("", String::as_str).split_whitespace().collect();
    let mut faults = Vec::new();
    for (path, text) in tree.first_pages() {
        for (heading, language, _) in blocks(text) {
            let part = if path == "README.md" { format!("Some(\"{heading}\")") } else { "None".into() };
            let call: String = format!("type_page(\"{path}\", {part},").split_whitespace().collect();
            match language {
                "sh" if !tests.contains(&call) => {
                    faults.push(format!("{path}, {heading}: no test types this"))
                }
                "console" | "bash" | "shell" => {
                    faults.push(format!("{path}, {heading}: `sh` is what is typed"))
                }
                _ => {}
            }
        }
    }
    faults
}

/// Every page of the documents says first who reads it.
fn pages_without_a_reader(tree: &Tree) -> Vec<String> {
    let is_page = |path: &str| {
        path.starts_with("docs/") && path.matches('/').count() == 2 && !path.contains("/charts/")
    };
    let pages = tree.pages().filter(|(path, _)| is_page(path));
    let first = |text: &str| text.split("\n\n").nth(1).unwrap_or_default().to_owned();
    let faults = pages.filter(|(_, text)| !first(text).starts_with("Read this "));
    faults.map(|(path, _)| format!("{path}: its first words are not whom it is for: `Read this …`")).collect()
}

/// The engine's page is read on docs.rs, too: there `src/lib.rs` says where its references lead.
fn references_lost_on_docs_rs(tree: &Tree) -> Vec<String> {
    let text = |path| tree.texts.get(path).map_or("", String::as_str);
    let is_told = |name: &str| name == "headline" || text("src/lib.rs").contains(&format!("//! [{name}]: "));
    let lines = prose(text("docs/engine.md"));
    let defined = lines.iter().filter_map(|line| Some(line.strip_prefix('[')?.split_once("]: ")?.0));
    let lost =
        defined.filter(|name| !is_told(name)).map(|name| format!("src/lib.rs does not define [{name}]"));
    let in_place = lines.iter().filter(|line| line.contains("](") && !line.contains("](#"));
    lost.chain(in_place.map(|line| format!("docs/engine.md links without a reference: {line}"))).collect()
}

/// The repository.
fn repository() -> Tree {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tree = Tree { texts: BTreeMap::new(), paths: BTreeSet::new() };
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let own = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            let is_generated = ["target", ".git", "node_modules", "corpus", "generated"].contains(&&*name);
            if is_generated || name.starts_with('.') && ![".github", ".cargo"].contains(&&*name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if [".md", ".rs", ".toml", ".html", ".yml", ".conf"].iter().any(|end| name.ends_with(end))
            {
                tree.texts.insert(own.clone(), std::fs::read_to_string(&path).unwrap());
            }
            tree.paths.insert(own);
        }
    }
    assert!(tree.texts.contains_key("README.md"), "the walk must find the front page");
    tree
}

fn holds(rule: fn(&Tree) -> Vec<String>) {
    let faults = rule(&repository());
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_link_of_every_page_resolves() {
    holds(links_that_lead_nowhere);
}

#[test]
fn every_reference_of_a_page_is_defined() {
    holds(references_to_nothing);
}

#[test]
fn the_engines_page_has_its_links_on_docs_rs() {
    holds(references_lost_on_docs_rs);
}

#[test]
fn every_document_that_a_file_names_exists() {
    holds(mentions_of_no_file);
}

#[test]
fn every_page_is_found_from_the_first() {
    holds(pages_that_nobody_finds);
}

#[test]
fn the_front_page_is_short() {
    holds(a_long_front_page);
}

#[test]
fn no_example_hides_a_line() {
    holds(examples_that_hide_lines);
}

#[test]
fn every_command_of_a_first_page_is_typed() {
    holds(commands_that_no_test_types);
}

#[test]
fn every_page_names_its_reader() {
    holds(pages_without_a_reader);
}

mod each_rule {
    use super::*;

    /// How many faults a rule finds in these files.
    fn found(rule: fn(&Tree) -> Vec<String>, files: &[(&str, &str)]) -> usize {
        let mut tree = Tree { texts: BTreeMap::new(), paths: BTreeSet::new() };
        for (path, text) in files {
            tree.texts.insert((*path).into(), (*text).into());
            tree.paths.insert((*path).into());
        }
        rule(&tree).len()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_an_error() {
        let rule = links_that_lead_nowhere;
        let other = ("docs/b.md", "# One thing, `two`\n\n## Again\n\n## Again\n");
        let good =
            "[b](b.md) [c](b.md#one-thing-two) [d](b.md#again-1) [r] `[no](link)`\n\n[r]: ../docs/b.md\n";
        assert_eq!(found(rule, &[("docs/a.md", good), other]), 0);
        for bad in [
            "[b](c.md)",
            "[b](b.md#three)",
            "[b](#here)",
            "[b]: ../b.md",
            "[b](../../b.md)",
            "[b](http://x y)",
        ] {
            assert_eq!(found(rule, &[("docs/a.md", bad), other]), 1, "{bad}");
        }
        assert_eq!(found(rule, &[("docs/a.md", "```\n[b](c.md)\n```\n[b](https://a.test/c)"), other]), 0);
        assert_eq!(found(rule, &[("crates/x/README.md", "[b](x::B) [c](c.md)")]), 1);
    }

    #[test]
    fn a_reference_to_nothing_is_an_error() {
        let rule = references_to_nothing;
        let good = "[a][b] [`C`] [`d`](d.md)\n\n```\n[a][x]\n```\n\n[b]: b.md\n[`C`]: c.rs\n";
        assert_eq!(found(rule, &[("README.md", good)]), 0);
        assert_eq!(found(rule, &[("README.md", "[a][b]"), ("docs/a.md", "[`C`], [`D`][e]")]), 3);
        assert_eq!(found(rule, &[("crates/a/README.md", "[`C`]")]), 0);
    }

    #[test]
    fn a_reference_lost_on_docs_rs_is_an_error() {
        let rule = references_lost_on_docs_rs;
        let engine = ("src/lib.rs", "//! [a]: https://a.test\n//! [`B`]: crate::B\n");
        let good = "[a] [b](#b)\n\n[a]: a.md\n[`B`]: b.rs\n[headline]: c.svg\n";
        assert_eq!(found(rule, &[("docs/engine.md", good), engine]), 0);
        assert_eq!(found(rule, &[("docs/engine.md", "[c]: c.md\n\n[d](d.md)\n"), engine]), 2);
    }

    #[test]
    fn the_name_of_no_document_is_an_error() {
        let rule = mentions_of_no_file;
        let page = ("docs/b.md", "");
        let source = concat!("//! See docs/b.md.\n//! See `docs", "/c.md`, and my-docs", "/d.md.\n");
        assert_eq!(found(rule, &[("src/a.rs", source), page]), 1);
    }

    #[test]
    fn a_page_that_nobody_finds_is_an_error() {
        let rule = pages_that_nobody_finds;
        let index = ("docs/README.md", "[a](a.md)");
        assert_eq!(found(rule, &[index, ("docs/a.md", "[t](charts/t.md)"), ("docs/charts/t.md", "")]), 0);
        assert_eq!(found(rule, &[index, ("docs/a.md", "[b](b.md)"), ("docs/b.md", "")]), 1);
        assert_eq!(found(rule, &[index, ("docs/a.md", ""), ("docs/charts/t.md", "")]), 1);
    }

    #[test]
    fn a_long_front_page_is_an_error() {
        let lines = |count| "\n".repeat(count);
        assert_eq!(found(a_long_front_page, &[("README.md", &lines(LONGEST_FRONT_PAGE))]), 0);
        assert_eq!(found(a_long_front_page, &[("README.md", &lines(LONGEST_FRONT_PAGE + 1))]), 1);
    }

    #[test]
    fn a_hidden_line_is_an_error() {
        let rule = examples_that_hide_lines;
        let compiled = (COMPILED_BY, "README.md docs/a.md");
        let good = "# A\n\n```rust\n#[test]\nfn a() {}\n```\n\n```sh\n# a comment\n```\n";
        assert_eq!(found(rule, &[("README.md", good), compiled]), 0);
        assert_eq!(found(rule, &[("docs/b.md", good), compiled]), 1);
        assert_eq!(found(rule, &[("README.md", "```rust\nf()?;\n# Ok(())\n```\n"), compiled]), 1);
        assert_eq!(found(rule, &[("docs/a.md", "```rust,no_run\n#\n```\n"), compiled]), 1);
        assert_eq!(found(rule, &[("docs/a.md", "```rust,ignore\nf();\n```\n"), compiled]), 1);
    }

    #[test]
    fn a_command_that_no_test_types_is_an_error() {
        let rule = commands_that_no_test_types;
        let tests =
            "type_page(\"README.md\", Some(\"## A\"), &[]);\n type_page(\n\"docs/start/a.md\", None, &[]);";
        let front = ("README.md", "## A\n\n```sh\ntrue\n```\n");
        let start = ("docs/start/a.md", "## Any\n\n```sh\ntrue\n```\n");
        assert_eq!(found(rule, &[front, start, (TYPED_BY, tests)]), 0);
        assert_eq!(found(rule, &[front, start]), 2);
        assert_eq!(found(rule, &[("README.md", "## B\n\n```sh\ntrue\n```\n"), (TYPED_BY, tests)]), 1);
        assert_eq!(found(rule, &[("docs/start/a.md", "```console\n$ true\n```\n"), (TYPED_BY, tests)]), 1);
    }

    #[test]
    fn a_page_without_a_reader_is_an_error() {
        let rule = pages_without_a_reader;
        assert_eq!(found(rule, &[("docs/why/a.md", "# A\n\nRead this to see.\n")]), 0);
        assert_eq!(found(rule, &[("docs/why/a.md", "# A\n\nThis page says.\n")]), 1);
    }
}
