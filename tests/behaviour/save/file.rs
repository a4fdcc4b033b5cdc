//! A limiter saved to a file: the file is whole, or the one that was there before.

use std::fs;
use std::path::PathBuf;

use tollgate::{Limiter, ManualClock, Quota, Rate, TokenBucket};

use super::{SECOND, Subject, clock};

const BEGUN: u64 = 1_700_000_000 * SECOND;

/// A directory of its own for a test, empty.
fn directory(test: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn five_an_hour() -> tollgate::Builder<u64, Quota, 1, ManualClock> {
    let quota: Quota = TokenBucket::new(Rate::per_hour(5)).into();
    Limiter::builder(quota).per().clock(clock(BEGUN, SECOND))
}

fn charged(units: u64) -> Subject {
    let limiter = five_an_hour().build().unwrap();
    assert!(limiter.check_n(7, units).is_allowed());
    limiter
}

#[test]
fn a_file_is_restored_as_it_was_saved() {
    let path = directory("restored").join("limiter");
    assert_eq!(charged(3).save_to(&path).unwrap(), 1);
    assert_eq!(charged(4).save_to(&path).unwrap(), 1, "the second replaces the first");
    let restored = five_an_hour().restore(fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(restored.account(7).peek_n(0).remaining(), 1);
    let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(names.len(), 1, "nothing is left beside it: {names:?}");
}

#[test]
fn a_save_that_fails_leaves_the_file_before() {
    let directory = directory("fails");
    let path = directory.join("limiter");
    charged(3).save_to(&path).unwrap();
    let before = fs::read(&path).unwrap();
    // No file can be made where a directory is.
    fs::create_dir(directory.join("limiter.new")).unwrap();
    charged(4).save_to(&path).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), before);
    charged(4).save_to(directory.join("none").join("limiter")).unwrap_err();
}

#[cfg(unix)]
#[test]
fn only_its_owner_reads_a_saved_file() {
    use std::os::unix::fs::PermissionsExt;

    let directory = directory("owner");
    let path = directory.join("limiter");
    // What a killed process left there, for everybody.
    fs::write(directory.join("limiter.new"), "half").unwrap();
    fs::set_permissions(directory.join("limiter.new"), fs::Permissions::from_mode(0o666)).unwrap();
    charged(3).save_to(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
