//! Limits that survive a restart: debts are saved when the server stops, and the next process
//! begins with them.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufReader, ErrorKind};
use std::path::Path;

use tollgate::{Inherit, Limiter, Rate, TokenBucket};

/// So many invitations an hour, of each user. Begins with the debts of the process before, if there
/// was one, also of one with another limit.
fn start(an_hour: u64, saved: &Path) -> Result<Limiter<str>, Box<dyn Error>> {
    let settings = Limiter::builder(TokenBucket::new(Rate::per_hour(an_hour))).per::<str>();
    match File::open(saved) {
        // A damaged file is an error, and nothing is built: no debt is forgiven unless you say so.
        Ok(file) => Ok(settings.restore_changed(BufReader::new(file), Inherit::Additive)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(settings.build()?),
        Err(error) => Err(error.into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("tollgate-restart-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let saved = folder.join("limits.saved");

    let limiter = start(5, &saved)?; // there is no file yet
    assert!(limiter.check_n("alice", 5).is_allowed());
    // No check waits for a save: call it once a minute, too, and a crash forgives at most a minute.
    limiter.save_to(&saved)?;
    drop(limiter);

    let limiter = start(5, &saved)?; // another process, another day: the time between has passed
    assert!(!limiter.check("alice").is_allowed());
    assert!(limiter.check("bob").is_allowed());

    let limiter = start(6, &saved)?; // a deployment that allows one more
    assert!(limiter.check("alice").is_allowed());
    assert!(!limiter.check("alice").is_allowed());

    let whole = fs::read(&saved)?;
    fs::write(&saved, &whole[..whole.len() - 1])?;
    assert!(start(5, &saved).is_err(), "a damaged file is no empty one");
    fs::remove_dir_all(folder)?;
    println!("alice is still refused");
    Ok(())
}
