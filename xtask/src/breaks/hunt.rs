//! Breaks the copy in each way in turn, and says whether the test that must notice did.

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::check::{Bench, Check};
use super::patch::Break;
use crate::trial::Outcome;
use crate::{root, tree};

/// How much longer than in the tree as it is a test may take, and how long at least.
const PATIENCE: u32 = 5;
const LEAST: Duration = Duration::from_secs(60);

/// What became of a break.
enum Fate {
    Caught,
    Survived,
    /// The test did not end: that is no catch.
    Stopped,
    /// The list is wrong: it does not compile, or the test is not there.
    Wrong(String),
}

pub(super) fn run(breaks: &[Break]) -> Result<ExitCode, String> {
    let begun = Instant::now();
    let target = tree::target().map_err(|error| error.to_string())?.join("breaks");
    let bench = Bench { tree: target.join("tree"), target };
    tree::mirror(root(), &bench.tree).map_err(|error| format!("the tree cannot be copied: {error}"))?;
    println!("| break | caught by | result | build and test |");
    println!("|---|---|---|---|");
    let mut missed = 0;
    let mut known: Vec<(Check, Duration)> = Vec::new();
    for (number, broken) in breaks.iter().enumerate() {
        eprintln!("[{}/{}] {}", number + 1, breaks.len(), broken.name);
        let begun = Instant::now();
        let took = match known.iter().find(|(check, _)| *check == broken.check) {
            Some(&(_, took)) => Ok(took),
            None => as_it_is(&broken.check, &bench).inspect(|&took| known.push((broken.check.clone(), took))),
        };
        let fate =
            took.map_or_else(Fate::Wrong, |took| attempt(broken, &bench, (took * PATIENCE).max(LEAST)));
        let verdict = match &fate {
            Fate::Caught => "caught".into(),
            Fate::Survived => "**survived**".into(),
            Fate::Stopped => "**did not end**".into(),
            Fate::Wrong(why) => {
                eprintln!("{}: {why}", broken.name);
                "**the list is wrong**".to_owned()
            }
        };
        missed += u32::from(!matches!(fate, Fate::Caught));
        println!("| `{}` | `{}` | {verdict} | {:.0?} |", broken.name, broken.check, begun.elapsed());
    }
    let caught = breaks.len() - missed as usize;
    println!("\n{caught} of {} were caught, in {:.0?}.", breaks.len(), begun.elapsed());
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How long the check takes when nothing is broken. A test that fails by itself notices nothing.
fn as_it_is(check: &Check, bench: &Bench) -> Result<Duration, String> {
    check.is_written(root())?;
    let trial = check.build(bench)?;
    match check.run(&trial, bench, LEAST * PATIENCE) {
        (Outcome::Passed, took) => Ok(took),
        (outcome, took) => Err(format!("with nothing broken {check} {outcome:?} after {took:.0?}")),
    }
}

/// Breaks the copy, asks the check, and mends the copy.
fn attempt(broken: &Break, bench: &Bench, limit: Duration) -> Fate {
    let fate = break_and_check(broken, bench, limit).unwrap_or_else(Fate::Wrong);
    // The whole tree: a break may be in any package, and the next one must not find it.
    match tree::mirror(root(), &bench.tree) {
        Ok(()) => fate,
        Err(error) => Fate::Wrong(format!("the copy cannot be mended: {error}")),
    }
}

fn break_and_check(broken: &Break, bench: &Bench, limit: Duration) -> Result<Fate, String> {
    for edit in &broken.edits {
        let path = bench.tree.join(&edit.path);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        fs::write(&path, edit.applied(&text)?).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let trial = broken.check.build(bench)?;
    Ok(match broken.check.run(&trial, bench, limit).0 {
        Outcome::Failed => Fate::Caught,
        Outcome::Passed => Fate::Survived,
        Outcome::TimedOut => Fate::Stopped,
    })
}
