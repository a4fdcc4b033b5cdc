//! The readings of a path (RFC 3986, section 6), each exact and folded.
//!
//! Servers disagree on some paths. `/a//../b` is `/a/b` by the RFC, and `/b` where slashes are
//! merged first. `/a%2Fb` is `/a/b` where escaped slashes are decoded, and `/a;x/b` where
//! parameters of segments are cut, both before dot segments are removed. `/a%252Fb` and `/a%3Bx/b`
//! are these where a path is decoded twice: by a proxy that passes on what it decoded, or by a
//! rewrite into a parameter. `//a/b` is `/b` where a target is read as a reference to a URL.
//! `/a%0A` and `/a.` are `/a` where the ends of a path are cut. A restriction holds if it does by
//! any reading; a relaxation only if it does by all.

use std::ops::Range;

use tollgate::spelling::escape;

/// A reading of a path, as places in the buffer of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathReading {
    /// Normalised: escapes and dot segments.
    pub(crate) exact: Range<usize>,
    /// Also without empty segments, a last slash, and escapes that servers decode; the case kept.
    pub(crate) folded: Range<usize>,
    /// Also in lower case. As long as `folded`.
    pub(crate) lower: Range<usize>,
}

/// The longest path that is read as decoded twice, in bytes.
const LONGEST_TWICE: usize = 1024;

/// The form in which paths and patterns are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Folded,
    Exact,
}

/// Whether a byte stands for itself in a segment (RFC 3986, `pchar` without escapes).
fn is_pchar(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@".contains(&byte)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Appends a path with its escapes normalised: those of unreserved bytes decoded once, other bytes
/// that no path contains escaped, a broken escape as it is.
fn normalise_escapes(path: &[u8], out: &mut Vec<u8>) {
    let (mut at, mut broken) = (0, None);
    while at < path.len() {
        let byte = path[at];
        match escape(&path[at..]) {
            Some(escaped) => {
                // Decoded, it might complete a broken escape, which a second pass would decode.
                let completes = escaped.is_ascii_hexdigit()
                    && broken.is_some_and(|broken| match &out[broken..] {
                        [_] => true,
                        [_, first] => first.is_ascii_hexdigit(),
                        _ => false,
                    });
                if is_unreserved(escaped) && !completes {
                    out.push(escaped);
                } else {
                    push_escape(escaped, out);
                }
                at += 3;
                continue;
            }
            None if byte == b'%' => {
                broken = Some(out.len());
                out.push(byte);
            }
            None if is_pchar(byte) || byte == b'/' => out.push(byte),
            None => push_escape(byte, out),
        }
        at += 1;
    }
}

/// Appends a path without its dot segments.
fn remove_dots(path: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    let mut segments = path.strip_prefix(b"/").unwrap_or(path).split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    let last = out[begin..].iter().rposition(|&byte| byte == b'/');
                    out.truncate(begin + last.unwrap_or(0));
                }
                if segments.peek().is_none() {
                    out.push(b'/');
                }
            }
            _ => {
                out.push(b'/');
                out.extend_from_slice(segment);
            }
        }
    }
    if out.len() == begin {
        out.push(b'/');
    }
}

/// Makes of a path without dot segments what some servers compare: without a line feed at its end,
/// before which `$` of PCRE and Python matches (nginx, Starlette), and without dots and blanks
/// behind its parts (Windows, older versions of Caddy).
fn cut_ends(path: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let path = path.strip_suffix(b"%0A").unwrap_or(path);
    for mut part in path.split_inclusive(|&byte| byte == b'/') {
        let slash = part.strip_suffix(b"/");
        part = slash.unwrap_or(part);
        while let Some(less) = part.strip_suffix(b".").or_else(|| part.strip_suffix(b"%20")) {
            part = less;
        }
        out.extend_from_slice(part);
        out.extend(slash.map(|_| b'/'));
    }
}

/// What a server may do to a path before it removes dot segments.
type Step = fn(&mut Vec<u8>);

/// Puts slashes in place of escaped slashes and backslashes.
fn decode_slashes(path: &mut Vec<u8>) {
    let (mut at, mut end) = (0, 0);
    while at < path.len() {
        let (byte, length) = match escape(&path[at..]) {
            Some(b'/' | b'\\') => (b'/', 3),
            _ => (path[at], 1),
        };
        path[end] = byte;
        (at, end) = (at + length, end + 1);
    }
    path.truncate(end);
}

/// Takes the parameters of segments away.
fn cut_parameters(path: &mut Vec<u8>) {
    let mut is_cut = false;
    path.retain(|&byte| {
        is_cut = byte != b'/' && (is_cut || byte == b';');
        !is_cut
    });
}

/// Returns the steps that servers may take, in the order of readings. Only those are named that
/// change the path.
fn steps(path: &[u8]) -> &'static [&'static [Step]] {
    let has_slash = (0..path.len()).any(|at| matches!(escape(&path[at..]), Some(b'/' | b'\\')));
    match (has_slash, path.contains(&b';')) {
        (true, true) => &[
            &[decode_slashes, cut_parameters],
            &[cut_parameters, decode_slashes],
            &[decode_slashes],
            &[cut_parameters],
            &[],
        ],
        (true, false) => &[&[decode_slashes], &[]],
        (false, true) => &[&[cut_parameters], &[]],
        (false, false) => &[&[]],
    }
}

/// Letters beyond ASCII that are letters of ASCII in another case, as Caddy and Java compare them:
/// the Kelvin sign, the long s, and the Turkish letters i.
const LETTERS: [(&[u8], u8); 4] =
    [(b"%E2%84%AA", b'K'), (b"%C5%BF", b'S'), (b"%C4%B0", b'I'), (b"%C4%B1", b'I')];

/// Appends a normalised path folded: escapes of `pchar` and of [`LETTERS`] decoded, slashes merged,
/// the last one off.
fn fold(path: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    if path.first() != Some(&b'/') {
        out.push(b'/');
    }
    let mut at = 0;
    while at < path.len() {
        let (byte, length) = match escape(&path[at..]) {
            Some(byte) if is_pchar(byte) && !is_unreserved(byte) => (byte, 3),
            Some(0x80..) => {
                let letter = LETTERS.iter().find(|(escapes, _)| path[at..].starts_with(escapes));
                letter.map_or((path[at], 1), |(escapes, letter)| (*letter, escapes.len()))
            }
            _ => (path[at], 1),
        };
        if byte != b'/' || out.len() == begin || out.last() != Some(&b'/') {
            out.push(byte);
        }
        at += length;
    }
    if out.len() > begin + 1 && out.last() == Some(&b'/') {
        out.pop();
    }
}

/// Returns a literal segment of a pattern in the form of exact readings.
pub(crate) fn normalised_literal(segment: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    normalise_escapes(segment, &mut out);
    out
}

/// Returns a normalised literal in the form of folded readings, in lower case.
pub(crate) fn fold_literal(segment: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    fold(segment, &mut out);
    out.make_ascii_lowercase();
    out.split_off(1)
}

/// Returns the path of a request's target, without query and fragment, and the authority of an
/// absolute form (`http://host/path`).
pub(crate) fn parts_of(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    let end = target.iter().position(|byte| b"?#".contains(byte)).unwrap_or(target.len());
    let path = &target[..end];
    let scheme = path.iter().position(|byte| !(byte.is_ascii_alphanumeric() || b"+-.".contains(byte)));
    let rest = scheme.filter(|&scheme| scheme > 0).and_then(|scheme| path[scheme..].strip_prefix(b"://"));
    let (authority, path) = match rest {
        Some(rest) => {
            let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            (Some(&rest[..slash]), &rest[slash..])
        }
        None => (None, path),
    };
    (if path.is_empty() { b"/" } else { path }, authority)
}

/// Returns whether all readings of a path are its own bytes.
fn is_plain(path: &[u8]) -> bool {
    let mut before = 0;
    path.first() == Some(&b'/')
        && !matches!(path, [_, .., b'/' | b'.'])
        && path.iter().all(|&byte| {
            let plain = match byte {
                b'/' => !matches!(before, b'/' | b'.'),
                b'.' => before != b'/',
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => true,
                _ => false,
            };
            before = byte;
            plain
        })
}

/// Appends a path with the escapes decoded that a second decoding turns into something else:
/// of `%`, of `;`, and of what a broken escape before them kept. At `?` and `#` the path ends.
/// Returns whether there are any.
fn decode_again(path: &[u8], out: &mut Vec<u8>) -> bool {
    let (mut at, mut changed) = (0, false);
    while at < path.len() {
        let (byte, length) = match escape(&path[at..]) {
            Some(b'?' | b'#') => return true,
            Some(byte) if byte == b'%' || byte == b';' || is_unreserved(byte) => (byte, 3),
            _ => (path[at], 1),
        };
        out.push(byte);
        (at, changed) = (at + length, changed || length > 1);
    }
    changed
}

/// Makes of a path with two slashes at its beginning what a server sees that reads it as a
/// reference to another host: `//host/path`. Returns whether it is one.
fn cut_authority(path: &[u8], out: &mut Vec<u8>) -> bool {
    let slash = |text: &[u8]| match text {
        [b'/', ..] => 1,
        [b'%', b'5', b'C', ..] => 3,
        _ => 0,
    };
    let (mut rest, mut slashes) = (path, 0);
    while slash(rest) > 0 {
        (rest, slashes) = (&rest[slash(rest)..], slashes + 1);
    }
    let end = (0..rest.len()).find(|&at| slash(&rest[at..]) > 0).unwrap_or(rest.len());
    out.clear();
    out.push(b'/');
    out.extend_from_slice(&rest[end..][slash(&rest[end..])..]);
    slashes > 1
}

/// The buffers in which forms of a path are made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forms {
    /// With its escapes normalised.
    normal: Vec<u8>,
    /// What a second decoding makes of it.
    again: Vec<u8>,
    /// What a server makes of one of these before it removes dot segments.
    form: Vec<u8>,
    /// That with one slash in place of several.
    merged: Vec<u8>,
    /// One of these without them.
    dotless: Vec<u8>,
    /// That without what some servers cut at its ends.
    cut: Vec<u8>,
}

impl Forms {
    /// Gives back what grew beyond `most` bytes.
    pub(crate) fn shrink_to(&mut self, most: usize) {
        let Self { normal, again, form, merged, dotless, cut } = self;
        for buffer in [normal, again, form, merged, dotless, cut] {
            buffer.clear();
            buffer.shrink_to(most);
        }
    }

    /// Adds the readings of `normal`, in the order in which keys use them.
    fn add_readings(&mut self, buffer: &mut Vec<u8>, readings: &mut Vec<PathReading>) {
        let Self { normal, form, merged, dotless, cut, .. } = self;
        let mut add = |form: &[u8]| {
            dotless.clear();
            remove_dots(form, dotless);
            cut_ends(dotless, cut);
            for path in [cut.as_slice(), dotless] {
                if !readings.iter().any(|other| buffer[other.exact.clone()] == *path) {
                    let begin = buffer.len();
                    buffer.extend_from_slice(path);
                    readings.push(folded(begin..buffer.len(), path, buffer));
                }
            }
        };
        for steps in steps(normal) {
            form.clear();
            form.extend_from_slice(normal);
            steps.iter().for_each(|step| step(form));
            let has = |pair: &[u8]| form.windows(2).any(|window| window == pair);
            if has(b"//") && has(b"/.") {
                merged.clear();
                merged.extend_from_slice(form);
                merged.dedup_by(|byte, before| [*byte, *before] == *b"//");
                add(merged);
            }
            add(form);
        }
    }
}

/// Reads a target's path. The readings stand in the order in which keys use them: those that leave
/// a client fewer spellings of one path first. `false`: there are more, since it is too long to be
/// read as decoded twice.
#[must_use]
pub(crate) fn read(
    target: &[u8],
    buffer: &mut Vec<u8>,
    forms: &mut Forms,
    readings: &mut Vec<PathReading>,
) -> bool {
    let (path, _) = parts_of(target);
    if is_plain(path) {
        let whole = buffer.len()..buffer.len() + path.len();
        buffer.extend_from_slice(path);
        readings.push(PathReading { exact: whole.clone(), folded: whole.clone(), lower: whole });
        return true;
    }
    forms.normal.clear();
    normalise_escapes(path, &mut forms.normal);
    if forms.normal.first() != Some(&b'/') {
        // `*`, or no path at all. Rules that restrict read it as if it began with a slash.
        let Forms { normal, dotless, .. } = forms;
        let begin = buffer.len();
        buffer.extend_from_slice(normal);
        let exact = begin..buffer.len();
        normal.insert(0, b'/');
        dotless.clear();
        remove_dots(normal, dotless);
        readings.push(folded(exact, dotless, buffer));
        return true;
    }
    if cut_authority(&forms.normal, &mut forms.again) {
        std::mem::swap(&mut forms.normal, &mut forms.again);
        forms.add_readings(buffer, readings);
        std::mem::swap(&mut forms.normal, &mut forms.again);
    }
    forms.add_readings(buffer, readings);
    let Forms { normal, again, .. } = &mut *forms;
    again.clear();
    if !decode_again(normal, again) {
        return true;
    }
    // There are up to twenty readings for each of these, so this bounds the work for a request.
    if path.len() > LONGEST_TWICE {
        return false;
    }
    // The server before it has removed dot segments, or not.
    let once = readings.len();
    for before in 0..=once {
        let Forms { normal, again, .. } = &mut *forms;
        normal.clear();
        normalise_escapes(again, normal);
        forms.add_readings(buffer, readings);
        if let Some(before) = readings[..once].get(before) {
            forms.again.clear();
            decode_again(&buffer[before.exact.clone()], &mut forms.again);
        }
    }
    readings.rotate_left(once);
    true
}

/// Appends the folded forms of a path without dot segments.
fn folded(exact: Range<usize>, dotless: &[u8], buffer: &mut Vec<u8>) -> PathReading {
    let begin = buffer.len();
    fold(dotless, buffer);
    let folded = begin..buffer.len();
    buffer.extend_from_within(folded.clone());
    let lower = folded.end..buffer.len();
    buffer[lower.clone()].make_ascii_lowercase();
    PathReading { exact, folded, lower }
}

#[cfg(test)]
mod tests;
