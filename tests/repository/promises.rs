//! `docs/reference/promises.md`: every verb against every algorithm, without a gap.

const PAGE: &str = include_str!("../../docs/reference/promises.md");

/// The cells of the first table: a row for each verb, its name first.
fn matrix() -> Vec<Vec<&'static str>> {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("| verb |"));
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn every_verb_is_told_for_every_algorithm() {
    let rows = matrix();
    assert!(rows.len() > 15, "{} rows", rows.len());
    for row in &rows {
        assert_eq!(row.len(), rows[0].len(), "{row:?}");
        assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?}");
    }
}

#[test]
fn the_matrix_has_each_verb_of_a_limiter() {
    let verbs: String = matrix().iter().map(|row| row[0].to_owned() + "\n").collect();
    for verb in [
        "check",
        "peek",
        "reset",
        "check_up_to",
        "debit",
        "refund",
        "credit",
        "reserve",
        "cancel",
        "wait",
        "ready",
        "account",
        "check_many",
        "lease",
        "save",
        "restore",
        "restore_changed",
        "change",
        "realign",
        "on_decision",
    ] {
        let is_there = |row: &str| row.split(", ").any(|name| name == verb);
        assert!(verbs.lines().any(is_there), "{verb} is in no row");
    }
}
