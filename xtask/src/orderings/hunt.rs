//! Tries all weakenings, and finds for each a model that catches it.
//!
//! Each weakening is first tried on the model that the table names. All models run only for the
//! weakenings that this model misses.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::ledger::{Ledger, Weakening};
use super::models::Model;
use super::table::{HEAD, Table, Verdict};
use super::{copy, models};
use crate::trial::Outcome;
use crate::{root, tree};

/// A model and its time without a weakening.
struct Timed {
    model: Model,
    took: Duration,
}

/// How many times longer a model may take than without a weakening.
const SLOWDOWN: u32 = 3;
/// The least time limit of a model.
const MIN_LIMIT: Duration = Duration::from_secs(5);

/// Tries these weakenings. Models that take longer than `limit` are left out unless the table names
/// them.
pub(super) fn run(
    ledger: &Ledger,
    weakenings: &[Weakening<'_>],
    limit: Duration,
) -> Result<ExitCode, String> {
    let begun = Instant::now();
    let table = Table::read(root()).map_err(|error| format!("the table cannot be read: {error}"))?;
    let target = tree::target().map_err(|error| error.to_string())?;
    let copied = copy::make(root(), &target, &ledger.sites);
    let copied = copied.map_err(|error| format!("the tree cannot be copied: {error}"))?;
    let built = |files: &BTreeSet<&str>| {
        eprintln!("building models in {}", copied.display());
        models::build(&copied, &target.join("mutate-orderings-target"), files)
    };

    let named = |weakening: &Weakening<'_>| match table.verdict(&weakening.row()) {
        Some(Verdict::Caught(model)) => Some(model.as_str()),
        _ => None,
    };
    let names: BTreeSet<&str> = weakenings.iter().filter_map(named).collect();
    let files = names.iter().filter_map(|name| Some(name.split_once("::")?.0)).collect();
    let known = if names.is_empty() { Vec::new() } else { built(&files)? };
    let known = known.into_iter().filter(|model| names.contains(model.name.as_str())).collect();
    let known = time_unweakened(known, limit * SLOWDOWN)?;
    let by_name = |weakening: &Weakening<'_>| {
        let name = named(weakening)?;
        attempt(weakening, known.iter().filter(|timed| timed.model.name == name))
    };
    let mut caught = hunt(weakenings, by_name);

    let is_open = |weakening: &&Weakening<'_>| !caught.contains_key(&weakening.row());
    let open: Vec<_> = weakenings.iter().filter(is_open).copied().collect();
    if !open.is_empty() {
        let all = built(&BTreeSet::new())?;
        eprintln!(
            "running {} models without a weakening, for {} weakenings that are not caught yet",
            all.len(),
            open.len()
        );
        let all = time_unweakened(all, limit)?;
        caught.extend(hunt(&open, |weakening| attempt(weakening, &all)));
    }
    Ok(summary(weakenings, &caught, &table, begun))
}

/// Prints the table. Fails if a weakening survived without a reason.
fn summary(
    weakenings: &[Weakening<'_>],
    caught: &BTreeMap<String, String>,
    table: &Table,
    begun: Instant,
) -> ExitCode {
    println!("{HEAD}");
    let mut survived = 0;
    for row in weakenings.iter().map(Weakening::row) {
        let verdict = match (caught.get(&row), table.verdict(&row)) {
            (Some(model), _) => Verdict::Caught(model.clone()),
            (None, Some(Verdict::Kept(why))) => Verdict::Kept(why.clone()),
            _ => Verdict::Survived,
        };
        survived += u32::from(verdict == Verdict::Survived);
        println!("{row} {verdict} |");
    }
    let (all, caught) = (weakenings.len(), caught.len());
    println!("\n{caught} of {all} were caught, {survived} survived, in {:.0?}.", begun.elapsed());
    if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the models that end within `limit` without a weakening, the quickest first.
fn time_unweakened(models: Vec<Model>, limit: Duration) -> Result<Vec<Timed>, String> {
    let done = Mutex::new((Vec::new(), Vec::new()));
    in_parallel(models, |model| {
        let (outcome, took) = model.run(None, limit);
        let mut done = done.lock().expect("no thread panics");
        match outcome {
            Outcome::Passed => done.0.push(Timed { model, took }),
            Outcome::Failed => done.1.push(model.name),
            Outcome::TimedOut => eprintln!("  left out, takes longer than {limit:?}: {}", model.name),
        }
    });
    let (mut timed, failed) = done.into_inner().expect("no thread panics");
    if !failed.is_empty() {
        return Err(format!("these fail with nothing weakened: {}", failed.join(", ")));
    }
    timed.sort_by_key(|timed| timed.took);
    Ok(timed)
}

/// Tries each weakening. Returns the rows of those that were caught, with the model that caught
/// them.
fn hunt(
    weakenings: &[Weakening<'_>],
    attempt: impl Fn(&Weakening<'_>) -> Option<String> + Sync,
) -> BTreeMap<String, String> {
    let caught = Mutex::new(BTreeMap::new());
    in_parallel(weakenings.to_vec(), |weakening| {
        if let Some(model) = attempt(&weakening) {
            caught.lock().expect("no thread panics").insert(weakening.row(), model);
        }
    });
    caught.into_inner().expect("no thread panics")
}

/// Runs the models in turn until one fails, and returns it. A model that does not end in time has
/// not caught the weakening.
fn attempt<'m>(weakening: &Weakening<'_>, models: impl IntoIterator<Item = &'m Timed>) -> Option<String> {
    let weakened = format!("{}:{}", weakening.number, weakening.weaker);
    let fails = |Timed { model, took }: &&Timed| {
        model.run(Some(&weakened), (*took * SLOWDOWN).max(MIN_LIMIT)).0 == Outcome::Failed
    };
    models.into_iter().find(fails).map(|timed| timed.model.name.clone())
}

/// Processes the items on as many threads as there are processors.
fn in_parallel<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    let queue = Mutex::new(items.into_iter());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = || queue.lock().expect("no thread panics").next();
    let run = || {
        while let Some(item) = next() {
            work(item);
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(run))));
}
