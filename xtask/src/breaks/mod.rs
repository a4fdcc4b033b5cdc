//! `cargo xtask break`: breaks the product on purpose; each time the named tests must fail.
//!
//! | file | its idea |
//! |---|---|
//! | `form` | a break as a file: a sentence, its tests, and what changes in which function |
//! | `places` | where a fragment stands, by the name of its function |
//! | `check` | the test that must catch a break |
//! | `rooms` | which breaks a change of the tree concerns |
//! | `weave` | many breaks in one build |
//! | `build` | the test programs, by one command of cargo |
//! | `hunt` | runs the breaks in a copy of the tree, so that the user's files stay as they are |
//! | `took` | how long they take |

mod build;
mod check;
mod form;
mod hunt;
mod places;
mod rooms;
mod took;
mod weave;

use std::process::ExitCode;

use form::Break;
use places::Crates;
use took::Took;

/// Which breaks to run.
#[derive(Debug, PartialEq)]
enum Selection {
    /// Those of the rooms that differ from this commit.
    Since(String),
    /// Those with one of these words in `CRATE/ROOM/NAME`.
    Only(Vec<String>),
    /// So many, drawn by lot from a seed.
    Lot(usize, u64),
    All,
}

/// The options of the command.
#[derive(Debug, PartialEq)]
struct Options {
    selection: Selection,
    list: bool,
}

pub(crate) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let options = options(words)?;
    let root = crate::root();
    let breaks = Break::all(root)?;
    let crates = Crates::of(root, breaks.iter())?;
    let chosen: Vec<&Break> = match &options.selection {
        Selection::All => breaks.iter().collect(),
        Selection::Only(words) => only(&breaks, words)?,
        Selection::Since(_) if options.list => breaks.iter().collect(),
        Selection::Since(commit) => rooms::changed(&breaks, &crates, commit)?,
        Selection::Lot(count, seed) => {
            println!("Drawn by lot: --lot {count} --seed {seed}");
            lot(&breaks, *count, *seed)
        }
    };
    if options.list {
        print!("{}", table(&chosen));
        return Ok(ExitCode::SUCCESS);
    }
    let took = Took::load();
    let is_alone = |broken: &Break| {
        crates.find(broken).is_ok_and(|places| places.iter().any(|place| place.body.is_none()))
    };
    let all = took.estimate(breaks.iter().map(|broken| (broken, is_alone(broken))));
    println!(
        "{} of {} breaks. All (--all) take about {} minutes.",
        chosen.len(),
        breaks.len(),
        all.as_secs() / 60
    );
    if chosen.is_empty() {
        println!("No room of proof/breaks differs from main. --since COMMIT compares with another commit.");
        return Ok(ExitCode::SUCCESS);
    }
    hunt::run(&chosen, &crates, took)
}

fn options(words: &[&str]) -> Result<Options, String> {
    let mut options = Options { selection: Selection::Since("main".into()), list: false };
    let mut seed = std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = |what: &str| words.next().copied().ok_or(format!("{word} needs {what}"));
        match *word {
            "--list" => options.list = true,
            "--all" => options.selection = Selection::All,
            "--since" => options.selection = Selection::Since(value("a commit")?.to_owned()),
            "--only" => {
                let part = value("a part of CRATE/ROOM/NAME")?.to_owned();
                options.selection = Selection::Only(vec![part]);
            }
            "--lot" => {
                let count = value("a number of breaks")?;
                let count = count.parse().map_err(|_| format!("{count} is no number of breaks"))?;
                options.selection = Selection::Lot(count, seed);
            }
            "--seed" => {
                let number = value("a number")?;
                seed = number.parse().map_err(|_| format!("{number} is no seed"))?;
                if let Selection::Lot(_, drawn) = &mut options.selection {
                    *drawn = seed;
                }
            }
            name => match &mut options.selection {
                Selection::Only(words) if !name.starts_with('-') => words.push(name.to_owned()),
                _ => return Err(format!("break does not know {name}")),
            },
        }
    }
    Ok(options)
}

/// Returns the breaks with one of these words in their names.
fn only<'b>(breaks: &'b [Break], words: &[String]) -> Result<Vec<&'b Break>, String> {
    let is_named =
        |broken: &Break, word: &String| format!("{}/{}", broken.room(), broken.name).contains(word);
    if let Some(word) = words.iter().find(|word| !breaks.iter().any(|broken| is_named(broken, word))) {
        return Err(format!("no break has {word} in its name"));
    }
    Ok(breaks.iter().filter(|broken| words.iter().any(|word| is_named(broken, word))).collect())
}

/// Draws `count` breaks by lot: the first ones in an order that the seed gives.
fn lot(breaks: &[Break], count: usize, seed: u64) -> Vec<&Break> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut drawn: Vec<&Break> = breaks.iter().collect();
    drawn.sort_by_key(|broken| {
        let mut hasher = DefaultHasher::new();
        (seed, broken.room(), &broken.name).hash(&mut hasher);
        hasher.finish()
    });
    drawn.truncate(count);
    drawn.sort_by_key(|broken| (broken.room(), broken.name.clone()));
    drawn
}

/// Returns the table of breaks and their tests.
fn table(breaks: &[&Break]) -> String {
    let mut table = String::from("| break | fault | caught by |\n|---|---|---|\n");
    for broken in breaks {
        let checks: Vec<String> = broken.checks.iter().map(|check| format!("`{check}`")).collect();
        let (room, name) = (broken.room(), &broken.name);
        table.push_str(&format!("| `{room}/{name}` | {} | {} |\n", broken.what, checks.join(", ")));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Break> {
        Break::all(crate::root()).expect("every file of proof/breaks can be read")
    }

    #[test]
    fn every_break_still_applies() {
        let breaks = all();
        assert!(breaks.len() >= 800, "there are {} breaks", breaks.len());
        let crates = Crates::of(crate::root(), breaks.iter()).expect("every crate can be read");
        let gone: Vec<String> = breaks.iter().filter_map(|broken| crates.find(broken).err()).collect();
        assert!(gone.is_empty(), "{}", gone.join("\n"));
    }

    #[test]
    fn every_break_names_a_check_that_exists() {
        let breaks = all();
        let check = |broken: &Break| broken.checks.iter().find_map(|check| check.exists(crate::root()).err());
        let gone: Vec<String> = breaks
            .iter()
            .filter_map(|broken| Some(format!("{}/{}: {}", broken.room(), broken.name, check(broken)?)))
            .collect();
        assert!(gone.is_empty(), "{}", gone.join("\n"));
    }

    #[test]
    fn every_break_has_a_name_of_its_own() {
        let mut names: Vec<String> = all().into_iter().map(|broken| broken.name).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_lot_is_drawn_again_by_its_seed() {
        let breaks = all();
        assert_eq!(lot(&breaks, 60, 7), lot(&breaks, 60, 7));
        assert_ne!(lot(&breaks, 60, 7), lot(&breaks, 60, 8));
        assert_eq!(lot(&breaks, 60, 7).len(), 60);
    }

    #[test]
    fn options_choose_the_breaks() {
        let selection = |words: &[&str]| options(words).map(|options| options.selection);
        assert_eq!(selection(&[]), Ok(Selection::Since("main".into())));
        assert_eq!(selection(&["--only", "a", "b"]), Ok(Selection::Only(vec!["a".into(), "b".into()])));
        assert_eq!(selection(&["--lot", "60", "--seed", "7"]), Ok(Selection::Lot(60, 7)));
        assert!(selection(&["--lot"]).is_err() && selection(&["--everything"]).is_err());
    }
}
