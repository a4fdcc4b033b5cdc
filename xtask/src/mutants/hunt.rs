//! Every mutant in turn, and what the tests say of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use super::copy::{self, Arm};
use super::list::Mutant;
use super::suite::{self, Fate, STAGES, Stage};
use crate::tree;

/// How many mutants ended how, of how many.
#[derive(Default)]
struct Tally {
    of: usize,
    caught: u32,
    endless: u32,
    missed: u32,
    unviable: u32,
}

/// The copy of the tree, and where it is built.
struct Bench<'r> {
    root: &'r Path,
    copy: PathBuf,
    target: PathBuf,
}

pub(super) fn run(root: &Path, mutants: &[Mutant]) -> Result<ExitCode, String> {
    let begun = Instant::now();
    let folder = tree::target().map_err(|error| error.to_string())?.join("mutants");
    let bench = Bench { root, copy: folder.join("tree"), target: folder.join("target") };
    tree::mirror(root, &bench.copy).map_err(|error| format!("the tree cannot be copied: {error}"))?;
    let mut tally = Tally { of: mutants.len(), ..Tally::default() };
    let numbered = mutants.iter().enumerate();
    bench.switched(numbered.filter(|(_, mutant)| mutant.body.is_some()).collect(), &mut tally)?;
    tree::mirror(root, &bench.copy).map_err(|error| format!("the tree cannot be mended: {error}"))?;
    for constant in mutants.iter().filter(|mutant| mutant.body.is_none()) {
        bench.constant(constant, &mut tally)?;
    }
    let Tally { caught, endless, missed, unviable, .. } = tally;
    println!(
        "\n{caught} caught, {endless} never ended, {unviable} do not compile, {missed} missed, in {:.0?}.",
        begun.elapsed()
    );
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Bench<'_> {
    /// Those that can be chosen when a test starts: one a core at a time.
    fn switched(&self, mut mutants: Vec<(usize, &Mutant)>, tally: &mut Tally) -> Result<(), String> {
        if mutants.is_empty() {
            return Ok(());
        }
        let mut stages = loop {
            let arms = copy::make(self.root, &self.copy, &mutants);
            let arms = arms.map_err(|error| format!("the copy cannot be written: {error}"))?;
            match suite::build(&self.copy, &self.target, &STAGES) {
                Ok(stages) => break stages,
                Err(said) => {
                    let refused = refused(&said, &arms)?;
                    mutants.retain(|(number, mutant)| {
                        let refused = refused.contains(number);
                        if refused {
                            tally.unviable(mutant);
                        }
                        !refused
                    });
                }
            }
        };
        stages.iter_mut().try_for_each(Stage::calibrate)?;
        let (queue, tally) = (Mutex::new(mutants.into_iter()), Mutex::new(tally));
        let next = || queue.lock().expect("nobody panics with it").next();
        let hunt = || {
            while let Some((number, mutant)) = next() {
                let fate = stages.iter().find_map(|stage| stage.run(Some(number)));
                tally.lock().expect("nobody panics with it").judged(mutant, fate);
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(hunt);
            }
        });
        Ok(())
    }

    /// A changed constant needs a build of its own.
    fn constant(&self, mutant: &Mutant, tally: &mut Tally) -> Result<(), String> {
        let path = self.copy.join(&mutant.path);
        let broken = |error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(self.root.join(&mutant.path)).map_err(broken)?;
        fs::write(&path, mutant.applied(&text, 0..text.len())).map_err(broken)?;
        match self.noticed() {
            Ok(fate) => tally.judged(mutant, fate),
            Err(_) => tally.unviable(mutant),
        }
        fs::write(&path, text).map_err(broken)
    }

    /// How the tests notice what the copy holds: they are built one after the other, until one does.
    fn noticed(&self) -> Result<Option<Fate>, String> {
        for stage in STAGES {
            let built = suite::build(&self.copy, &self.target, &[stage])?;
            if let Some(fate) = built.iter().find_map(|stage| stage.run(None)) {
                return Ok(Some(fate));
            }
        }
        Ok(None)
    }
}

impl Tally {
    fn unviable(&mut self, mutant: &Mutant) {
        self.unviable += 1;
        self.say("unviable", mutant, "");
    }

    fn judged(&mut self, mutant: &Mutant, fate: Option<Fate>) {
        match fate {
            Some(Fate::Caught(by)) => {
                self.caught += 1;
                self.say("caught", mutant, &format!("  by {by}"));
            }
            Some(Fate::Endless(by)) => {
                self.endless += 1;
                self.say("endless", mutant, &format!("  in {by}"));
            }
            None => {
                self.missed += 1;
                self.say("missed", mutant, "");
            }
        }
    }

    /// `  17/1241 caught    src/..`
    fn say(&self, fate: &str, mutant: &Mutant, by: &str) {
        let Self { of, caught, endless, missed, unviable } = self;
        println!("{:>4}/{of} {fate:<8}  {mutant}{by}", caught + endless + missed + unviable);
    }
}

/// The mutants that the compiler refuses: `src/algorithm/gcra.rs:10:5: error[E0277]: ...`
fn refused(said: &str, arms: &[Arm]) -> Result<BTreeSet<usize>, String> {
    let mut refused = BTreeSet::new();
    for line in said.lines().filter(|line| line.contains(": error")) {
        let mut words = line.split(':');
        let (path, at) = (words.next(), words.next().and_then(|at| at.parse().ok()));
        let arm =
            at.and_then(|at| arms.iter().find(|arm| Some(&*arm.path) == path && arm.lines.contains(&at)));
        refused.insert(arm.ok_or_else(|| format!("the copy does not compile: {line}"))?.mutant);
    }
    if refused.is_empty() { Err(said.into()) } else { Ok(refused) }
}
