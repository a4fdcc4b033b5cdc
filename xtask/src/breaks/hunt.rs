//! Applies each break to the copy of the tree and runs the test that must catch it.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{fs, io};

use super::check::{Check, TreeCopy};
use super::patch::{Break, Edit};
use crate::trial::Outcome;
use crate::{root, tree};

/// How many times longer a test may take than without a break.
const SLOWDOWN: u32 = 5;
/// The least time limit of a test.
const MIN_LIMIT: Duration = Duration::from_secs(60);

/// The result of a break.
enum Verdict {
    Caught,
    Survived,
    /// The test did not end in time, which does not catch the break.
    TimedOut,
    /// The break does not apply or compile, or its test does not exist or fails without it.
    Invalid(String),
}

pub(super) fn run(breaks: &[Break]) -> Result<ExitCode, String> {
    let begun = Instant::now();
    let target = tree::target().map_err(|error| error.to_string())?.join("breaks");
    let copy = TreeCopy { tree: target.join("tree"), target };
    tree::mirror(root(), &copy.tree).map_err(|error| format!("the tree cannot be copied: {error}"))?;
    println!("| break | caught by | result | build and test |");
    println!("|---|---|---|---|");
    let known = time_all(breaks, &copy);
    let mut missed = 0;
    for (number, broken) in breaks.iter().enumerate() {
        eprintln!("[{}/{}] {}", number + 1, breaks.len(), broken.name);
        let begun = Instant::now();
        let verdicts = attempt(broken, &copy, &known);
        for (check, verdict) in broken.checks.iter().zip(&verdicts) {
            let result = match verdict {
                Verdict::Caught => "caught",
                Verdict::Survived => "**survived**",
                Verdict::TimedOut => "**did not end**",
                Verdict::Invalid(error) => {
                    eprintln!("{}: {error}", broken.name);
                    "**invalid**"
                }
            };
            println!("| `{}` | `{check}` | {result} | {:.0?} |", broken.name, begun.elapsed());
        }
        missed += usize::from(!verdicts.iter().all(|verdict| matches!(verdict, Verdict::Caught)));
    }
    println!("\n{} of {} were caught, in {:.0?}.", breaks.len() - missed, breaks.len(), begun.elapsed());
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How long each check takes with nothing broken; an error if it does not pass then.
type Known = Vec<(Check, Result<Duration, String>)>;

/// Times the checks of all breaks, so that the unbroken tree is built once.
fn time_all(breaks: &[Break], copy: &TreeCopy) -> Known {
    let mut known: Known = Vec::new();
    for check in breaks.iter().flat_map(|broken| &broken.checks) {
        if known.iter().all(|(other, _)| other != check) {
            eprintln!("with nothing broken: {check}");
            known.push((check.clone(), time_unbroken(check, copy)));
        }
    }
    known
}

/// Returns how long the check takes without a break. A test that fails anyway cannot catch a break.
fn time_unbroken(check: &Check, copy: &TreeCopy) -> Result<Duration, String> {
    check.exists(root())?;
    let trial = check.build(copy)?;
    match check.run(&trial, copy, MIN_LIMIT * SLOWDOWN) {
        (Outcome::Passed, took) => Ok(took),
        (outcome, took) => {
            let printed = trial.output();
            Err(format!("with nothing broken {check} {outcome:?} after {took:.0?}:\n{printed}"))
        }
    }
}

/// Breaks the copy, runs each of the break's checks, and restores the copy.
fn attempt(broken: &Break, copy: &TreeCopy, known: &Known) -> Vec<Verdict> {
    let is_broken = apply(broken, copy);
    let run = |check: &Check| -> Result<Verdict, String> {
        is_broken.clone()?;
        let took = known.iter().find(|(other, _)| other == check).map(|(_, took)| took.clone());
        let limit = (took.ok_or("the check was not timed")?? * SLOWDOWN).max(MIN_LIMIT);
        let trial = check.build(copy)?;
        Ok(match check.run(&trial, copy, limit).0 {
            Outcome::Failed => Verdict::Caught,
            Outcome::Passed => Verdict::Survived,
            Outcome::TimedOut => Verdict::TimedOut,
        })
    };
    let verdicts = broken.checks.iter().map(|check| run(check).unwrap_or_else(Verdict::Invalid)).collect();
    restore(broken, root(), &copy.tree).expect("the copy can be written, as it was before");
    verdicts
}

/// Copies the files that the break has changed, of any package, from `from` again.
fn restore(broken: &Break, from: &Path, to: &Path) -> io::Result<()> {
    broken
        .edits
        .iter()
        .try_for_each(|Edit { path, .. }| tree::write(&to.join(path), &fs::read(from.join(path))?))
}

fn apply(broken: &Break, copy: &TreeCopy) -> Result<(), String> {
    for edit in &broken.edits {
        let path = copy.tree.join(&edit.path);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        fs::write(&path, edit.applied(&text)?).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_broken_file_is_restored_in_any_package() {
        let copy = std::env::temp_dir().join(format!("tollgate-breaks-{}", std::process::id()));
        for broken in Break::all(root()).expect("every break can be read") {
            for Edit { path, .. } in &broken.edits {
                let file = copy.join(path);
                fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("it can be created");
                fs::write(&file, "broken").expect("it can be written");
            }
            restore(&broken, root(), &copy).expect("the copy can be written");
            for Edit { path, .. } in &broken.edits {
                let read = |folder: &Path| fs::read(folder.join(path)).expect("it can be read");
                assert_eq!(read(&copy), read(root()), "{}: {path}", broken.name);
            }
        }
        fs::remove_dir_all(copy).expect("it can be removed");
    }
}
