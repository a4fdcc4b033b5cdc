//! Equivalent mutants, which no test can catch: `.cargo/equal-mutants.txt`, with a reason above
//! each.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::list::Mutant;

const FILE: &str = ".cargo/equal-mutants.txt";

/// Removes the equivalent mutants. A line of the file that names no mutant is an error.
pub(super) fn remove_equal(root: &Path, mutants: Vec<Mutant>) -> Result<Vec<Mutant>, String> {
    let text = fs::read_to_string(root.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    let named = named(&text)?;
    let mut unknown = named.clone();
    let mut left = Vec::new();
    for mutant in mutants {
        let name = mutant.name();
        unknown.remove(&*name);
        if !named.contains(&*name) {
            left.push(mutant);
        }
    }
    match unknown.first() {
        None => Ok(left),
        Some(name) => Err(format!("{FILE} names a mutant that does not exist: {name}")),
    }
}

/// Returns the names in the file: the lines after a comment.
fn named(text: &str) -> Result<BTreeSet<&str>, String> {
    let mut has_reason = false;
    let mut named = BTreeSet::new();
    for line in text.lines() {
        if line.is_empty() {
            has_reason = false;
        } else if line.starts_with('#') {
            has_reason = true;
        } else if has_reason {
            named.insert(line);
        } else {
            return Err(format!("{FILE} gives no reason for {line}"));
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_left_out_only_for_a_reason() {
        assert_eq!(named("# Why.\na\nb\n\n# Why.\nc\n"), Ok(BTreeSet::from(["a", "b", "c"])));
        assert!(named("# Why.\na\n\nb\n").is_err());
    }
}
