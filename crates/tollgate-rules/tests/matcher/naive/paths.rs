//! The readings of a path.

use tollgate_rules::PlainRequest;

#[derive(PartialEq)]
pub(super) struct Path {
    pub(super) exact: String,
    /// Folded but for its case.
    pub(super) folded: String,
}

const UNRESERVED: &str = "-._~";

pub(super) fn paths(request: &PlainRequest) -> Vec<Path> {
    let Some(target) = &request.target else { return Vec::new() };
    let target = String::from_utf8(target.clone()).unwrap();
    let path = target.split(['?', '#']).next().unwrap();
    let path = path.strip_prefix("http://").map_or(path, |rest| rest.find('/').map_or("", |at| &rest[at..]));
    let normal = normal(if path.is_empty() { "/" } else { path });
    if !normal.starts_with('/') {
        return vec![Path { folded: folded(&dotless(&format!("/{normal}"))), exact: normal }];
    }
    let mut once = host_cut(&normal).map_or(Vec::new(), |path| readings(&path));
    once.extend(readings(&normal));
    let mut paths: Vec<Path> = Vec::new();
    let firsts = once.iter().map(|path| &path.exact);
    for first in [&normal].into_iter().chain(firsts) {
        if let Some(twice) = twice(first) {
            paths.extend(readings(&twice));
        }
    }
    paths.retain(|path| !once.contains(path));
    let mut all: Vec<Path> = Vec::new();
    for path in paths.into_iter().chain(once) {
        if !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

/// The escapes of unreserved characters decoded, others in upper case. Without broken ones.
fn normal(path: &str) -> String {
    let mut normal = String::new();
    let mut rest = path;
    while let Some(c) = rest.chars().next() {
        let hex = rest.get(1..3).filter(|_| c == '%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match hex.map(char::from) {
            Some(plain) if plain.is_ascii_alphanumeric() || UNRESERVED.contains(plain) => normal.push(plain),
            Some(_) => normal += &rest[..3].to_uppercase(),
            None => {
                normal.push(c);
                rest = &rest[1..];
                continue;
            }
        }
        rest = &rest[3..];
    }
    normal
}

/// The path behind a host, if two slashes begin the path.
fn host_cut(path: &str) -> Option<String> {
    let plain = path.replace("%5C", "/");
    let rest = plain.trim_start_matches('/');
    (plain.len() - rest.len() > 1).then(|| {
        let mut own = path;
        while let Some(less) = own.strip_prefix("%5C").or_else(|| own.strip_prefix('/')) {
            own = less;
        }
        let end = own.find('/').into_iter().chain(own.find("%5C")).min().unwrap_or(own.len());
        let path = &own[end..];
        format!("/{}", path.strip_prefix("%5C").or_else(|| path.strip_prefix('/')).unwrap_or(path))
    })
}

/// A normal path decoded once more, if that changes it.
fn twice(path: &str) -> Option<String> {
    let path_of = |text: String| text.split(['?', '#']).next().unwrap().to_owned();
    let plain =
        |path: &str| path.replace("%3B", ";").replace("%3F", "?").replace("%23", "#").replace("%25", "%");
    (plain(path) != path).then(|| normal(&path_of(plain(path))))
}

fn readings(normal: &str) -> Vec<Path> {
    let mut paths: Vec<Path> = Vec::new();
    for steps in ["/;", ";/", "/", ";", ""] {
        let form = opened(normal, steps);
        let may_merge = form.contains("//") && form.contains("/.");
        for form in may_merge.then(|| merged(&form)).into_iter().chain([form]) {
            let whole = dotless(&form);
            for exact in [cut(&whole), whole] {
                let path = Path { folded: folded(&exact), exact };
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
    }
    paths
}

/// What a server sees that decodes slashes (`/`) or cuts parameters (`;`), in this order, before it
/// removes dot segments.
fn opened(path: &str, steps: &str) -> String {
    let mut path = path.to_owned();
    for step in steps.chars() {
        path = match step {
            '/' => path.replace("%2F", "/").replace("%5C", "/"),
            _ => path.split('/').map(|part| part.split(';').next().unwrap()).collect::<Vec<_>>().join("/"),
        };
    }
    path
}

fn merged(path: &str) -> String {
    let mut path = path.to_owned();
    while path.contains("//") {
        path = path.replace("//", "/");
    }
    path
}

/// Without a line feed behind it, and without dots and blanks behind its parts.
fn cut(path: &str) -> String {
    let path = path.strip_suffix("%0A").unwrap_or(path).replace("%20", " ");
    let parts = path.split('/').map(|part| part.trim_end_matches(['.', ' ']));
    parts.collect::<Vec<_>>().join("/").replace(' ', "%20")
}

fn dotless(path: &str) -> String {
    let parts: Vec<&str> = path[1..].split('/').collect();
    let mut left = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        match *part {
            "." => {}
            ".." => drop(left.pop()),
            other => left.push(other),
        }
        if number + 1 == parts.len() && (*part == "." || *part == "..") {
            left.push("");
        }
    }
    format!("/{}", left.join("/"))
}

fn folded(path: &str) -> String {
    let mut plain = merged(path);
    for reserved in "!$&'()*+,;=:@".chars() {
        plain = plain.replace(&format!("%{:02X}", u32::from(reserved)), &reserved.to_string());
    }
    for (escapes, letter) in [("%E2%84%AA", "K"), ("%C5%BF", "S"), ("%C4%B0", "I"), ("%C4%B1", "I")] {
        plain = plain.replace(escapes, letter);
    }
    let trimmed = plain.trim_end_matches('/');
    if trimmed.is_empty() { "/".into() } else { trimmed.into() }
}
