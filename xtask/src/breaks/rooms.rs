//! Which breaks a change of the tree concerns: those of each room in which a break, a file that it
//! changes, or the file of a test that must catch it differs from a commit.

use std::collections::BTreeSet;

use super::form::{Break, FOLDER};
use super::places::Crates;

/// Returns the breaks of the rooms that differ from the commit at which the branch left `commit`.
pub(super) fn changed<'b>(
    breaks: &'b [Break],
    crates: &Crates,
    commit: &str,
) -> Result<Vec<&'b Break>, String> {
    let paths = crate::check::changed_since(commit)?;
    let mut rooms = BTreeSet::new();
    for broken in breaks {
        let mut files: Vec<String> = crates.find(broken)?.into_iter().map(|place| place.file).collect();
        files.push(format!("{FOLDER}/{}/{}.break", broken.room(), broken.name));
        let concerns =
            |path: &String| files.contains(path) || broken.checks.iter().any(|check| check.is_in(path));
        if paths.iter().any(concerns) {
            rooms.insert(broken.room());
        }
    }
    Ok(breaks.iter().filter(|broken| rooms.contains(&broken.room())).collect())
}
