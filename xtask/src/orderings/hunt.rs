//! Goes through all weakenings, and says for each which model caught it.

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::ledger::{Ledger, Site};
use super::models::Model;
use super::{copy, models};
use crate::trial::Outcome;
use crate::{root, tree};

/// A weakening to try.
struct Weakening<'s> {
    /// The site's place in the ledger.
    number: usize,
    site: &'s Site,
    weaker: &'static str,
}

/// A model and how long it takes when nothing is weakened.
struct Timed {
    model: Model,
    took: Duration,
}

/// What became of a weakening.
struct Fate {
    caught: Option<String>,
    /// Models that were stopped before they ended.
    stopped: usize,
}

/// How much longer than without a weakening a model may take, and how long at least.
const PATIENCE: u32 = 3;
const LEAST: Duration = Duration::from_secs(5);

/// Weakens `sites`. Models that take longer than `limit` are left out.
pub(super) fn run(ledger: &Ledger, sites: &[&Site], limit: Duration) -> Result<ExitCode, String> {
    let begun = Instant::now();
    let target = tree::target().map_err(|error| error.to_string())?;
    let copied = copy::make(root(), &target, &ledger.sites);
    let copied = copied.map_err(|error| format!("the tree cannot be copied: {error}"))?;
    eprintln!("building the models in {}", copied.display());
    let models = models::build(&copied, &target.join("mutate-orderings-target"))?;
    eprintln!("running {} models as they are", models.len());
    let models = as_they_are(models, limit)?;

    let number = |site: &Site| ledger.sites.iter().position(|other| other == site).unwrap_or_default();
    let both = |site| {
        let site: &Site = site;
        site.weaker().iter().map(move |&weaker| Weakening { number: number(site), site, weaker })
    };
    let weakenings: Vec<_> = sites.iter().copied().flat_map(both).collect();
    println!("| where | ordering | weakened to | edges | caught by |");
    println!("|---|---|---|---|---|");
    let survived = hunt(&weakenings, &models);
    let caught = weakenings.len() - survived;
    println!("\n{caught} of {} were caught, in {:.0?}.", weakenings.len(), begun.elapsed());
    Ok(if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The models that end within `limit` when nothing is weakened, the quickest first.
fn as_they_are(models: Vec<Model>, limit: Duration) -> Result<Vec<Timed>, String> {
    let queue = Mutex::new(models.into_iter());
    let done = Mutex::new((Vec::new(), Vec::new()));
    in_parallel(|| {
        while let Some(model) = { queue.lock().expect("nobody panics").next() } {
            let (outcome, took) = model.run(None, limit);
            let mut done = done.lock().expect("nobody panics");
            match outcome {
                Outcome::Passed => done.0.push(Timed { model, took }),
                Outcome::Failed => done.1.push(model.name),
                Outcome::TimedOut => eprintln!("  left out, takes longer than {limit:?}: {}", model.name),
            }
        }
    });
    let (mut timed, failed) = done.into_inner().expect("nobody panics");
    if !failed.is_empty() {
        return Err(format!("these fail with nothing weakened: {}", failed.join(", ")));
    }
    timed.sort_by_key(|timed| timed.took);
    let total: Duration = timed.iter().map(|timed| timed.took).sum();
    eprintln!("{} models, {total:.0?} in all", timed.len());
    Ok(timed)
}

/// Tries each weakening and prints its row; says how many survived.
fn hunt(weakenings: &[Weakening<'_>], models: &[Timed]) -> usize {
    let queue = Mutex::new(weakenings.iter());
    let survived = Mutex::new(0);
    // Who caught what: the next of the same edge is likely to be caught by the same.
    let catchers = Mutex::new(Vec::<(String, Vec<String>)>::new());
    in_parallel(|| {
        while let Some(weakening) = { queue.lock().expect("nobody panics").next() } {
            let Weakening { number, site, weaker } = weakening;
            let known = |model: &Timed| {
                let catchers = catchers.lock().expect("nobody panics");
                let same = |edges: &[String]| edges.iter().any(|edge| site.edges.contains(edge));
                catchers.iter().any(|(name, edges)| *name == model.model.name && same(edges))
            };
            let (mut first, rest): (Vec<&Timed>, Vec<&Timed>) = models.iter().partition(|model| known(model));
            first.extend(rest);
            let result = attempt(&format!("{number}:{weaker}"), &first);
            let verdict = match &result.caught {
                Some(name) => format!("`{name}`"),
                None if result.stopped > 0 => format!("**survived** ({} models stopped)", result.stopped),
                None => "**survived**".into(),
            };
            let (place, edges) = (site.place(), site.edges.join(", "));
            println!("| `{place}` | {} | {weaker} | {edges} | {verdict} |", site.ordering);
            match result.caught {
                Some(name) => catchers.lock().expect("nobody panics").push((name, site.edges.clone())),
                None => *survived.lock().expect("nobody panics") += 1,
            }
        }
    });
    survived.into_inner().expect("nobody panics")
}

/// Runs the models in turn until one fails.
fn attempt(weakening: &str, models: &[&Timed]) -> Fate {
    let mut stopped = 0;
    for Timed { model, took } in models {
        match model.run(Some(weakening), (*took * PATIENCE).max(LEAST)).0 {
            Outcome::Failed => return Fate { caught: Some(model.name.clone()), stopped },
            Outcome::TimedOut => stopped += 1,
            Outcome::Passed => {}
        }
    }
    Fate { caught: None, stopped }
}

/// Runs `work` on as many threads as there are processors.
fn in_parallel(work: impl Fn() + Sync) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(&work))));
}
