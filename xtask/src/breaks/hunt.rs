//! Runs the test of each break in a copy of the tree: first all that one build can hold, then the
//! others one by one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::build::{self, Errors, Programs, TreeCopy};
use super::check::Check;
use super::form::Break;
use super::places::{Crates, exchanged};
use super::took::Took;
use super::weave::{self, Numbered, VARIABLE};
use crate::trial::{Outcome, Trial};
use crate::{root, tree};

/// How many times longer a test may take than without a break.
const SLOWDOWN: u32 = 5;
/// The least time limit of a test.
const MIN_LIMIT: Duration = Duration::from_secs(60);

/// Tests with a time limit of their own run longer than usual, so that they do not miss a break by
/// chance.
const LONGER: (&str, Option<&str>) = ("LINEARIZABLE_SECONDS", Some("20"));

/// The result of a break for one of its tests.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Caught,
    Survived,
    /// The test did not end in time, which does not catch the break.
    TimedOut,
    /// The break does not compile, or its test does not exist or fails without it.
    Invalid(String),
}

/// A run of the command.
struct Hunt<'b> {
    copy: TreeCopy,
    crates: &'b Crates,
    breaks: &'b [Numbered<'b>],
    /// How long each check takes with nothing broken; an error if it does not pass then.
    known: HashMap<Check, Result<Duration, String>>,
    verdicts: BTreeMap<u32, Vec<Verdict>>,
    took: Took,
    begun: Instant,
}

pub(super) fn run(breaks: &[&Break], crates: &Crates, took: Took) -> Result<ExitCode, String> {
    let target = tree::target().map_err(|error| error.to_string())?.join("breaks");
    let copy = TreeCopy { tree: target.join("tree"), target };
    let numbered = breaks
        .iter()
        .zip(1..)
        .map(|(broken, number)| crates.find(broken).map(|places| Numbered { number, broken, places }));
    let breaks = numbered.collect::<Result<Vec<_>, _>>()?;
    let (known, verdicts, begun) = (HashMap::new(), BTreeMap::new(), Instant::now());
    let mut hunt = Hunt { copy, crates, breaks: &breaks, known, verdicts, took, begun };
    let alone = hunt.run_woven()?;
    hunt.run_alone(&alone)?;
    Ok(hunt.report())
}

impl Hunt<'_> {
    fn say(&self, what: &str) {
        eprintln!("[{:>5.0}s] {what}", self.begun.elapsed().as_secs_f64());
    }

    /// Runs the breaks that one build can hold. Returns the numbers of the others, and of those
    /// that were not caught: the last word on a break is that of its own build.
    fn run_woven(&mut self) -> Result<BTreeSet<u32>, String> {
        let can_be_woven = |numbered: &&Numbered| numbered.can_be_woven();
        let mut alone: BTreeSet<u32> = self
            .breaks
            .iter()
            .filter(|numbered| !numbered.can_be_woven())
            .map(|other| other.number)
            .collect();
        if self.breaks.iter().filter(can_be_woven).count() < 2 {
            return Ok(self.breaks.iter().map(|numbered| numbered.number).collect());
        }
        let programs = loop {
            self.restore()?;
            let woven: Vec<&Numbered> =
                self.breaks.iter().filter(|numbered| !alone.contains(&numbered.number)).collect();
            self.say(&format!("building {} breaks at once, {} are left for later", woven.len(), alone.len()));
            let bodies = weave::weave(&woven, self.crates, &self.copy.tree)?;
            let checks: Vec<&Check> =
                self.breaks.iter().flat_map(|numbered| &numbered.broken.checks).collect();
            match build::build(&self.copy, &checks) {
                Ok(programs) => break programs,
                Err(Errors { places, text }) => {
                    let found = places.iter().filter_map(|(file, line)| bodies.at(file, *line));
                    let found: BTreeSet<u32> = found.filter(|number| alone.insert(*number)).collect();
                    if found.is_empty() {
                        return Err(format!("the tests do not build, whatever is broken:\n{text}"));
                    }
                    for number in found {
                        let Break { name, .. } = self.breaks[number as usize - 1].broken;
                        self.say(&format!("{name} does not build beside others"));
                    }
                }
            }
        };
        self.time_all(&programs);
        // Two bodies may be what a test does not bear, such as one that measures a future.
        self.known.retain(|_, took| took.is_ok());
        for Numbered { number, .. } in self.breaks {
            if alone.contains(number) {
                continue;
            }
            let verdicts = self.attempt(*number, &programs, Some(*number));
            if verdicts.iter().any(|verdict| *verdict != Verdict::Caught) {
                alone.insert(*number);
            }
            self.verdicts.insert(*number, verdicts);
        }
        Ok(alone)
    }

    /// Runs these breaks, each built alone.
    fn run_alone(&mut self, alone: &BTreeSet<u32>) -> Result<(), String> {
        if alone.is_empty() {
            return Ok(());
        }
        self.restore()?;
        let breaks = self.breaks;
        let numbered = |number: &u32| &breaks[*number as usize - 1];
        let checks = alone.iter().flat_map(|number| &numbered(number).broken.checks);
        let untimed: Vec<&Check> = checks.filter(|check| !self.known.contains_key(check)).collect();
        if !untimed.is_empty() {
            self.say("building the unbroken tree");
            let programs = build::build(&self.copy, &untimed).map_err(|errors| errors.text)?;
            self.time_all(&programs);
        }
        self.say(&format!("building {} breaks one by one", alone.len()));
        for number in alone {
            let begun = Instant::now();
            let Numbered { broken, places, .. } = numbered(number);
            let files: BTreeSet<&str> = places.iter().map(|place| place.file.as_str()).collect();
            for file in &files {
                let text = self.crates.sources(broken).text(file).unwrap_or_default();
                let in_file = places.iter().zip(&broken.edits).filter(|(place, _)| place.file == *file);
                let mut changes: Vec<_> = in_file
                    .map(|(place, edit)| (place.range.clone(), weave::replacement(&edit.new)))
                    .collect();
                self.write(file, &exchanged(text, &mut changes))?;
            }
            let checks: Vec<&Check> = broken.checks.iter().collect();
            let verdicts = match build::build(&self.copy, &checks) {
                Ok(programs) => self.attempt(*number, &programs, None),
                Err(errors) => vec![Verdict::Invalid(errors.text); checks.len()],
            };
            for file in &files {
                let text = self.crates.sources(broken).text(file).unwrap_or_default();
                self.write(file, text)?;
            }
            self.took.note(broken, begun.elapsed());
            self.verdicts.insert(*number, verdicts);
        }
        Ok(())
    }

    /// Makes the copy of the tree unbroken.
    fn restore(&self) -> Result<(), String> {
        let copied = tree::mirror(root(), &self.copy.tree);
        copied.map_err(|error| format!("the tree cannot be copied: {error}"))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        fs::write(self.copy.tree.join(file), text).map_err(|error| format!("{file}: {error}"))
    }

    /// Times the checks that these programs have and that were not timed before.
    fn time_all(&mut self, programs: &Programs) {
        let checks = self.breaks.iter().flat_map(|numbered| &numbered.broken.checks);
        let untimed = checks.filter(|check| !self.known.contains_key(check));
        let checks: BTreeSet<&Check> = untimed.filter(|check| programs.contains_key(&check.file)).collect();
        for (number, check) in checks.iter().enumerate() {
            let took = match self.run_check(check, programs, None, MIN_LIMIT * SLOWDOWN) {
                Ok((Outcome::Passed, took, _)) => Ok(took),
                Ok((outcome, took, printed)) => {
                    Err(format!("with nothing broken {check} {outcome:?} after {took:.0?}:\n{printed}"))
                }
                Err(why) => Err(why),
            };
            if (number + 1) % 50 == 0 || number + 1 == checks.len() {
                self.say(&format!("{} of {} tests ran with nothing broken", number + 1, checks.len()));
            }
            self.known.insert((*check).clone(), took);
        }
    }

    /// Runs the tests of a break; `chosen` is its number if the programs hold several breaks.
    fn attempt(&mut self, number: u32, programs: &Programs, chosen: Option<u32>) -> Vec<Verdict> {
        let broken = self.breaks[number as usize - 1].broken;
        let begun = Instant::now();
        let run = |check: &Check| {
            let known =
                self.known.get(check).cloned().unwrap_or_else(|| Err(format!("{check} was not timed")));
            let limit = match known {
                Ok(took) => (took * SLOWDOWN).max(MIN_LIMIT),
                Err(why) => return Verdict::Invalid(why),
            };
            match self.run_check(check, programs, chosen, limit) {
                Ok((Outcome::Failed, ..)) => Verdict::Caught,
                Ok((Outcome::Passed, ..)) => Verdict::Survived,
                Ok((Outcome::TimedOut, ..)) => Verdict::TimedOut,
                Err(why) => Verdict::Invalid(why),
            }
        };
        let verdicts: Vec<Verdict> = broken.checks.iter().map(run).collect();
        self.took.note(broken, begun.elapsed());
        let caught = verdicts.iter().filter(|verdict| **verdict == Verdict::Caught).count();
        let way = if chosen.is_some() { "" } else { ", built alone" };
        let (room, name) = (broken.room(), &broken.name);
        self.say(&format!(
            "{number}/{} {room}/{name}: {caught} of {}{way}",
            self.breaks.len(),
            verdicts.len()
        ));
        verdicts
    }

    fn run_check(
        &self,
        check: &Check,
        programs: &Programs,
        chosen: Option<u32>,
        limit: Duration,
    ) -> Result<(Outcome, Duration, String), String> {
        check.exists(&self.copy.tree)?;
        let binary = programs.get(&check.file).ok_or_else(|| format!("{} was not built", check.file))?;
        let trial = Trial { binary: binary.clone(), test: check.test.clone() };
        let number = chosen.map(|number| number.to_string());
        let variables = [LONGER, (VARIABLE, number.as_deref())];
        let folder = self.copy.tree.join(check.folder_and_source().0);
        let (outcome, took) = trial.run(&folder, &variables, limit);
        let printed = trial.output();
        if outcome == Outcome::Passed && printed.contains("running 0 tests") {
            return Err(format!("{} has no test {}", check.file, check.test));
        }
        Ok((outcome, took, printed))
    }

    /// Prints what was not caught, and how long all took.
    fn report(&self) -> ExitCode {
        let mut missed = 0;
        for Numbered { number, broken, .. } in self.breaks {
            let verdicts = &self.verdicts[number];
            for (check, verdict) in broken.checks.iter().zip(verdicts) {
                let result = match verdict {
                    Verdict::Caught => continue,
                    Verdict::Survived => "survived",
                    Verdict::TimedOut => "the test did not end",
                    Verdict::Invalid(error) => error,
                };
                println!("{}/{}: {check}: {result}", broken.room(), broken.name);
            }
            missed += usize::from(!verdicts.iter().all(|verdict| *verdict == Verdict::Caught));
        }
        let all = self.breaks.len();
        println!("{} of {all} were caught, in {:.0?}.", all - missed, self.begun.elapsed());
        self.took.save();
        if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
