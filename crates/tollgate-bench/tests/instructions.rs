//! The baseline of the instruction counts: what is told of a change. (A bench has no tests of its own.)

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
fn more_than_two_per_cent_more_is_bad_and_less_is_not() {
    let judged = |now| baseline().judge("hot key, allow", now).1;
    assert_eq!(judged(101.9), Change::Same);
    assert!(matches!(judged(102.1), Change::More(percent) if (percent - 2.1).abs() < 1e-9));
    assert!(judged(102.1).is_bad() && !judged(98.0).is_bad());
    assert!(matches!(judged(97.0), Change::Less(_)) && !judged(97.0).is_bad());
    assert!(baseline().judge("a new scenario", 1.0).1.is_bad(), "what is not compared is not good");
}

#[test]
fn a_baseline_is_read_as_it_was_written() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("baseline.txt");
    baseline().write(&path).unwrap();
    let read = Baseline::read(&path).unwrap();
    assert_eq!(read.compiler, "rustc 1.0");
    assert_eq!(read.judge("hot key, allow", 110.0).0, Some(100.0));
    std::fs::write(&path, "rustc 1.0\nnot a count\n").unwrap();
    assert!(Baseline::read(&path).is_err_and(|why| why.contains("no baseline")));
}
