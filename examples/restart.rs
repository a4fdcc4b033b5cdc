//! Limits that survive a restart: debts are saved when the server stops, and the next process
//! begins with them.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::path::Path;

use tollgate::{Limiter, Rate, TokenBucket};

/// Five invitations an hour, of each user.
fn quota() -> TokenBucket {
    TokenBucket::new(Rate::per_hour(5))
}

/// Begins with the debts of the process before, if there was one.
fn start(saved: &Path) -> Result<Limiter<str>, Box<dyn Error>> {
    let settings = Limiter::builder(quota()).per::<str>();
    match File::open(saved) {
        // A damaged file is an error, and nothing is built: no debt is forgiven unless you say so.
        Ok(file) => Ok(settings.restore(BufReader::new(file))?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(settings.build()?),
        Err(error) => Err(error.into()),
    }
}

/// Writes beside and renames, so that a crash leaves the old file. No check waits for a save: call
/// it once a minute, too, and a crash forgives at most a minute.
fn save(limiter: &Limiter<str>, saved: &Path) -> io::Result<()> {
    let beside = saved.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // For its owner only: the file holds the secret by which keys are hashed, though no key.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&beside)?;
    limiter.save(BufWriter::new(&file))?;
    file.sync_all()?;
    fs::rename(beside, saved)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("tollgate-restart-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let saved = folder.join("limits.saved");

    let limiter = start(&saved)?; // there is no file yet
    assert!(limiter.check_n("alice", 5).is_allowed());
    save(&limiter, &saved)?;
    drop(limiter);

    let limiter = start(&saved)?; // another process, another day: the time between has passed
    assert!(!limiter.check("alice").is_allowed());
    assert!(limiter.check("bob").is_allowed());

    let whole = fs::read(&saved)?;
    fs::write(&saved, &whole[..whole.len() - 1])?;
    assert!(start(&saved).is_err(), "a damaged file is no empty one");
    fs::remove_dir_all(folder)?;
    println!("alice is still refused");
    Ok(())
}
