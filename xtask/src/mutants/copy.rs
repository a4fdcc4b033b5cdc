//! A copy of the tree in which an environment variable selects one mutant, so that all need one
//! build.
//!
//! In the copy, a function with mutants has a body for each: `match crate::mutant() { 7 => .., _ =>
//! .. }`. Such a function is not `const`. The repository itself is not changed.

use std::ops::RangeInclusive;
use std::path::Path;
use std::{fs, io};

use super::list::Mutant;
use crate::tree;

/// The environment variable that selects the mutant by its number.
pub(super) const VARIABLE: &str = "TOLLGATE_MUTANT";

const CHOSEN: &str = r#"
/// The mutant that the environment asks for.
pub(crate) fn mutant() -> usize {
    static CHOSEN: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {
        let asked = std::env::var("TOLLGATE_MUTANT").ok();
        asked.map_or(usize::MAX, |number| number.parse().expect("a mutant's number"))
    });
    *CHOSEN
}
"#;

/// The lines of a file that belong to a mutant.
pub(super) struct Arm {
    pub(super) path: String,
    pub(super) lines: RangeInclusive<usize>,
    pub(super) mutant: usize,
}

/// Writes these mutants, with their numbers, into a copy of the repository.
pub(super) fn make(root: &Path, copy: &Path, mutants: &[(usize, &Mutant)]) -> io::Result<Vec<Arm>> {
    let lib = fs::read_to_string(root.join("src/lib.rs"))? + CHOSEN;
    tree::write(&copy.join("src/lib.rs"), lib.as_bytes())?;
    let mut arms = Vec::new();
    for of_file in mutants.chunk_by(|(_, one), (_, next)| one.path == next.path) {
        let path = &of_file[0].1.path;
        let text = fs::read_to_string(root.join(path))?;
        tree::write(&copy.join(path), switchable(&text, of_file, &mut arms).as_bytes())?;
    }
    Ok(arms)
}

/// Returns the text of a file with a body for each mutant.
fn switchable(text: &str, mutants: &[(usize, &Mutant)], arms: &mut Vec<Arm>) -> String {
    let mut mutants: Vec<_> =
        mutants.iter().filter_map(|&(number, mutant)| Some((mutant.body.clone()?, number, mutant))).collect();
    mutants.sort_by_key(|(body, ..)| body.start);
    // A nested function is a part of the function around it.
    for at in 1..mutants.len() {
        if mutants[at].0.start < mutants[at - 1].0.end {
            mutants[at].0 = mutants[at - 1].0.clone();
        }
    }
    let mut out = String::new();
    let mut done = 0;
    for of_body in mutants.chunk_by(|one, next| one.0 == next.0) {
        let body = &of_body[0].0;
        out += &text[done..body.start].replace("const fn", "fn");
        out += "{ match crate::mutant() {\n";
        let mut line = out.matches('\n').count() + 1;
        for (_, number, mutant) in of_body {
            let arm = format!("{number} => {}\n", mutant.applied(text, body.clone()));
            let begin = line;
            line += arm.matches('\n').count();
            arms.push(Arm { path: mutant.path.clone(), lines: begin..=line - 1, mutant: *number });
            out += &arm;
        }
        out += &format!("_ => {} }} }}", &text[body.clone()]);
        done = body.end;
    }
    out + &text[done..].replace("const fn", "fn")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_a_body_for_each_of_its_mutants() {
        let text = "const fn a() -> u64 { 1 + 2 }\n";
        let mutant = |replacement: &str| Mutant::of(24..25, replacement, Some(20..29));
        let (minus, times) = (mutant("-"), mutant("*"));
        let mut arms = Vec::new();
        let switchable = switchable(text, &[(3, &minus), (8, &times)], &mut arms);
        let bodies = "3 => { 1 - 2 }\n8 => { 1 * 2 }\n_ => { 1 + 2 }";
        assert_eq!(switchable, format!("fn a() -> u64 {{ match crate::mutant() {{\n{bodies} }} }}\n"));
        let arms: Vec<_> = arms.into_iter().map(|arm| (arm.mutant, arm.lines)).collect();
        assert_eq!(arms, [(3, 2..=2), (8, 3..=3)]);
    }
}
