//! Tests of the baseline of instruction counts, because a benchmark cannot contain tests.

#[path = "../benches/instructions/baseline.rs"]
mod baseline;

use std::path::PathBuf;

use baseline::{Baseline, Change};

fn baseline() -> Baseline {
    let mut baseline = Baseline::new("rustc 1.0".to_owned());
    baseline.add("hot key, allow", 100.0);
    baseline
}

#[test]
fn only_increases_of_more_than_two_percent_are_bad() {
    let change = |now| baseline().compare("hot key, allow", now).1;
    assert_eq!(change(101.9), Change::Same);
    assert!(matches!(change(102.1), Change::More(percent) if (percent - 2.1).abs() < 1e-9));
    assert!(change(102.1).is_bad() && !change(98.0).is_bad());
    assert!(matches!(change(97.0), Change::Less(_)) && !change(97.0).is_bad());
    assert!(baseline().compare("a new scenario", 1.0).1.is_bad(), "an unknown scenario");
}

#[test]
fn a_baseline_survives_a_write_and_a_read() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("baseline.txt");
    baseline().write(&path).unwrap();
    let read = Baseline::read(&path).unwrap();
    assert_eq!(read.compiler, "rustc 1.0");
    assert_eq!(read.compare("hot key, allow", 110.0).0, Some(100.0));
    std::fs::write(&path, "rustc 1.0\nnot a count\n").unwrap();
    assert!(Baseline::read(&path).is_err_and(|why| why.contains("no baseline")));
}
