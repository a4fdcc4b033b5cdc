//! Runs the tests on every mutant.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use super::copy::{self, Arm};
use super::list::Mutant;
use super::suite::{self, Catch, STAGES, Stage};
use crate::tree;

/// The number of mutants by result.
#[derive(Default)]
struct Tally {
    of: usize,
    caught: u32,
    endless: u32,
    missed: u32,
    unviable: u32,
}

/// The copy of the tree, and its target folder.
struct TreeCopy<'r> {
    root: &'r Path,
    tree: PathBuf,
    target: PathBuf,
}

pub(super) fn run(root: &Path, mutants: &[Mutant]) -> Result<ExitCode, String> {
    let begun = Instant::now();
    let folder = tree::target().map_err(|error| error.to_string())?.join("mutants");
    let copy = TreeCopy { root, tree: folder.join("tree"), target: folder.join("target") };
    tree::mirror(root, &copy.tree).map_err(|error| format!("the tree cannot be copied: {error}"))?;
    let mut tally = Tally { of: mutants.len(), ..Tally::default() };
    let numbered = mutants.iter().enumerate();
    copy.run_switched(numbered.filter(|(_, mutant)| mutant.body.is_some()).collect(), &mut tally)?;
    tree::mirror(root, &copy.tree).map_err(|error| format!("the tree cannot be restored: {error}"))?;
    for constant in mutants.iter().filter(|mutant| mutant.body.is_none()) {
        copy.run_constant(constant, &mut tally)?;
    }
    let Tally { caught, endless, missed, unviable, .. } = tally;
    println!(
        "\n{caught} caught, {endless} never ended, {unviable} do not compile, {missed} missed, in {:.0?}.",
        begun.elapsed()
    );
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl TreeCopy<'_> {
    /// Runs the mutants of function bodies, which one build contains, on all cores.
    fn run_switched(&self, mut mutants: Vec<(usize, &Mutant)>, tally: &mut Tally) -> Result<(), String> {
        if mutants.is_empty() {
            return Ok(());
        }
        let mut stages = loop {
            let arms = copy::make(self.root, &self.tree, &mutants);
            let arms = arms.map_err(|error| format!("the copy cannot be written: {error}"))?;
            match suite::build(&self.tree, &self.target, &STAGES) {
                Ok(stages) => break stages,
                Err(errors) => {
                    let uncompilable = uncompilable(&errors, &arms)?;
                    mutants.retain(|(number, mutant)| {
                        let is_unviable = uncompilable.contains(number);
                        if is_unviable {
                            tally.count_unviable(mutant);
                        }
                        !is_unviable
                    });
                }
            }
        };
        stages.iter_mut().try_for_each(Stage::calibrate)?;
        let (queue, tally) = (Mutex::new(mutants.into_iter()), Mutex::new(tally));
        let next = || queue.lock().expect("no thread panics").next();
        let hunt = || {
            while let Some((number, mutant)) = next() {
                let catch = stages.iter().find_map(|stage| stage.run(Some(number)));
                tally.lock().expect("no thread panics").count(mutant, catch);
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(hunt);
            }
        });
        Ok(())
    }

    /// Runs the mutant of a constant, which needs its own build.
    fn run_constant(&self, mutant: &Mutant, tally: &mut Tally) -> Result<(), String> {
        let path = self.tree.join(&mutant.path);
        let broken = |error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(self.root.join(&mutant.path)).map_err(broken)?;
        fs::write(&path, mutant.applied(&text, 0..text.len())).map_err(broken)?;
        match self.run_stages() {
            Ok(catch) => tally.count(mutant, catch),
            Err(_) => tally.count_unviable(mutant),
        }
        fs::write(&path, text).map_err(broken)
    }

    /// Builds and runs the stages one after the other, until one catches the change in the copy.
    fn run_stages(&self) -> Result<Option<Catch>, String> {
        for stage in STAGES {
            let built = suite::build(&self.tree, &self.target, &[stage])?;
            if let Some(catch) = built.iter().find_map(|stage| stage.run(None)) {
                return Ok(Some(catch));
            }
        }
        Ok(None)
    }
}

impl Tally {
    fn count_unviable(&mut self, mutant: &Mutant) {
        self.unviable += 1;
        self.print("unviable", mutant, "");
    }

    fn count(&mut self, mutant: &Mutant, catch: Option<Catch>) {
        match catch {
            Some(Catch::Failed(by)) => {
                self.caught += 1;
                self.print("caught", mutant, &format!("  by {by}"));
            }
            Some(Catch::Endless(by)) => {
                self.endless += 1;
                self.print("endless", mutant, &format!("  in {by}"));
            }
            None => {
                self.missed += 1;
                self.print("missed", mutant, "");
            }
        }
    }

    /// Prints `  17/1241 caught    src/..`.
    fn print(&self, result: &str, mutant: &Mutant, by: &str) {
        let Self { of, caught, endless, missed, unviable } = self;
        println!("{:>4}/{of} {result:<8}  {mutant}{by}", caught + endless + missed + unviable);
    }
}

/// Returns the mutants with compile errors: `src/algorithm/gcra.rs:10:5: error[E0277]: ...`
fn uncompilable(errors: &str, arms: &[Arm]) -> Result<BTreeSet<usize>, String> {
    let mut uncompilable = BTreeSet::new();
    for line in errors.lines().filter(|line| line.contains(": error")) {
        let mut words = line.split(':');
        let (path, at) = (words.next(), words.next().and_then(|at| at.parse().ok()));
        let arm =
            at.and_then(|at| arms.iter().find(|arm| Some(&*arm.path) == path && arm.lines.contains(&at)));
        uncompilable.insert(arm.ok_or_else(|| format!("the copy does not compile: {line}"))?.mutant);
    }
    if uncompilable.is_empty() { Err(errors.into()) } else { Ok(uncompilable) }
}
