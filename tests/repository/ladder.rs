//! The ladders of the crates: imports go downwards only.

use crate::modules::{Crate, crates};
use crate::tidy::Offence;

/// The ladder of each crate, bottom first. A module uses modules of its own rung and of the rungs
/// before it, never those behind it. A module that is not listed belongs to its parent; the root of
/// the crate is above all.
const LADDERS: &[(&str, &[&str])] = &[
    (
        "src",
        &[
            "sync",
            "bits",
            "time",
            "error rate",
            "ring",
            "algorithm::payload",
            "algorithm",
            "algorithm::change",
            "algorithm::packing algorithm::windows",
            "algorithm::refill algorithm::sub_windows",
            "algorithm::as_much algorithm::gcra algorithm::in_flight",
            "algorithm::leaky_bucket",
            "algorithm::token_bucket algorithm::fixed_window algorithm::sliding_window algorithm::sliding_log \
             algorithm::call_quota",
            "algorithm::first_hit",
            "algorithm::any_rule algorithm::change::past",
            "algorithm::quota",
            "algorithm::parse",
            "clock key",
            "saved",
            "table::word table::fingerprint",
            "table::basis table::slot_index",
            "table::header table::validity",
            "table::versioned",
            "table::ruling table::stats",
            "table::slot",
            "table::bucket table::full",
            "table::memory",
            "table::zeroed",
            "table::marks",
            "table",
            "table::find",
            "table::doors table::growth table::hold table::insert table::look table::peek table::recycle \
             table::saved",
            "receipt",
            "outcome timer",
            "observe",
            "limiter::space",
            "limiter::tables",
            "limiter::part",
            "limiter::decision",
            "limiter::version",
            "limiter::core",
            "limiter::decide limiter::charge",
            "limiter::give_back",
            "limiter",
        ],
    ),
    (
        "crates/tollgate-bench/src",
        &[
            "error keys limit machine measure process",
            "build contest paired results",
            "floors peers replay_speed server_speed",
            "scaling serve targets workloads",
            "report tables",
            "charts json",
            "command",
        ],
    ),
    (
        "crates/tollgate-cli/src",
        &[
            "columns note random round_numbers share spec",
            "report",
            "demo failure progress",
            "output reading",
            "by_rules pages serve stress timelines",
            "accuracy replay rules tune",
            "cli probe",
        ],
    ),
    (
        "crates/tollgate-http/src",
        &["headers key::buffer key::first_byte outcome request_head", "client respond", "key rules"],
    ),
    (
        "crates/tollgate-logs/src",
        &[
            "malformed",
            "key time",
            "durations",
            "error",
            "parts batch options totals",
            "fields lines",
            "extra json delimited",
            "clf trace",
            "detect",
            "source",
            "blocks in_order",
            "pipeline",
        ],
    ),
    (
        "crates/tollgate-redis/src",
        &[
            "breaker deny failed fallback id name pulse shadow sync",
            "lease::pace lease::permits lease::slot lease::spent_permits lease::table",
            "answer error failure_log",
            "guard quota",
            "lease script",
            "connection metrics",
            "cluster",
            "store",
            "layers shared",
            "limiter",
            "builder",
            "centre data",
            "backend",
            "rules::charge rules::counts rules::name",
            "rules::plan",
            "rules::decide",
            "rules::shadow",
            "rules::stores",
            "rules::envoy",
            "rules",
        ],
    ),
    (
        "crates/tollgate-rules/src",
        &[
            "store::fault store::reply store::secret store::share",
            "store::address store::backend",
            "store",
            "address forgotten matcher::error rule",
            "request set::allowance set::at_once set::ban set::error set::memory",
            "matcher",
            "set",
            "set::parked set::saved set::succeed",
            "live simulation",
        ],
    ),
    ("crates/tollgate-net/src", &["limits workers", "listen", "counts life", "web"]),
    ("crates/tollgate-proxy/src", &["counts settings generation park", "proxy"]),
    ("crates/tollgate-rules-file/src", &["file", "trial", "live::error", "live::text", "envoy live"]),
    (
        "crates/tollgate-server/src",
        &[
            "clock state web",
            "metrics",
            "settings",
            "core",
            "admin metrics::page resp rls state::file state::keeper state::lock v1",
            "start_error",
            "state::begin",
            "probe server",
        ],
    ),
    (
        "crates/tollgate-tower/src",
        &[
            "hooks queue rule::bounds telemetry",
            "error",
            "rule",
            "decide",
            "body handle",
            "request_limits",
            "future",
            "service",
            "in_flight",
            "layer",
            "change file save",
        ],
    ),
    (
        "proof/model/src",
        &[
            "algorithm answer exact inherit turn",
            "rule",
            "arrival first_hit grid receipt sliding_log",
            "fixed_window refund reservation sliding_window",
            "leaky_bucket sub_windows token_bucket",
            "model",
            "multi",
        ],
    ),
    (
        "proof/protocol/src",
        &[
            "mutant values",
            "catchers ring",
            "rule",
            "scenario",
            "logs fast_path splits state",
            "digest machine scenarios",
            "search",
        ],
    ),
    (
        "proof/testing/src",
        &[
            "certificates clocks folder frames http logs marked process random tools wait",
            "client faketime keys limits schemathesis stores::proxy upstream",
            "servers stores",
            "stores::cluster",
        ],
    ),
    (
        "xtask/src",
        &[
            "root step tree trial",
            "check fuzz mutants orderings sanitize targets",
            "breaks test",
            "soak thorough",
        ],
    ),
];

/// Returns the rung of a module, counted from the bottom; the root is above all.
fn rung(ladder: &[&str], module: &[String]) -> Option<usize> {
    if module.is_empty() {
        return Some(ladder.len());
    }
    (1..=module.len()).rev().find_map(|length| {
        let name = module[..length].join("::");
        ladder.iter().position(|rung| rung.split(' ').any(|other| other == name))
    })
}

fn imports_only_downwards(krate: &Crate, ladder: &[&str]) -> Vec<Offence> {
    let root = krate.modules[&[][..]].file.clone();
    // A module inside of the root's file is of the root.
    let rung = |module: &[String]| {
        if krate.modules[module].file == root { Some(ladder.len()) } else { rung(ladder, module) }
    };
    let offence = |path: &str, line, why| Offence { path: path.to_owned(), line, why };
    let mut offences = Vec::new();
    for (name, module) in &krate.modules {
        if rung(name).is_none() {
            let why = format!("`{}` is on no rung: add it to tests/repository/ladder.rs", name.join("::"));
            offences.push(offence(&module.file, 1, why));
        }
    }
    for import in &krate.imports {
        let (Some(by), Some(of)) = (rung(&import.by), rung(&import.of)) else { continue };
        if of > by {
            let (by, of) = (import.by.join("::"), import.of.join("::"));
            let of = if of.is_empty() { "the root" } else { &of };
            offences.push(offence(
                &import.file,
                import.line,
                format!("`{by}` uses `{of}`, which is above it"),
            ));
        }
    }
    offences
}

#[test]
fn modules_import_only_downwards() {
    let mut offences = Vec::new();
    for krate in crates() {
        match LADDERS.iter().find(|(folder, _)| *folder == krate.folder) {
            Some((_, ladder)) => offences.extend(imports_only_downwards(krate, ladder)),
            None => offences.push(Offence {
                path: krate.folder.clone(),
                line: 1,
                why: "add its ladder to tests/repository/ladder.rs".into(),
            }),
        }
    }
    let offences: Vec<_> = offences.iter().map(Offence::to_string).collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

mod each_rule {
    use super::*;
    use crate::modules::in_memory;

    /// Returns the files and lines of what imports upwards.
    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let offences = imports_only_downwards(&in_memory(files), &["a a::top", "b c", "a::upper"]);
        offences.into_iter().map(|offence| (offence.path, offence.line)).collect()
    }

    #[test]
    fn an_import_from_a_higher_rung_is_an_error() {
        let bad = [
            ("src/lib.rs", "mod a; mod b; mod c; pub use b::B; pub struct Root;"),
            (
                "src/a/mod.rs",
                "mod lower;\nmod upper;\nuse crate::{\n    b::B,\n    c::f,\n};\nuse crate::b as other;",
            ),
            (
                "src/a/lower.rs",
                "type It = super::upper::It;\nconst ROOT: crate::Root = crate::Root;\nuse crate::B;",
            ),
            ("src/a/upper.rs", "use crate::{Root, b::B};\npub(super) struct It;"),
            ("src/b.rs", "use crate::{a::A, c::f};\n/// [`crate::a::upper`]\npub struct B;"),
            ("src/c.rs", "macro_rules! m { () => { $crate::a::upper::It } }\npub(crate) fn f() {}"),
        ];
        let lower = "src/a/lower.rs".to_owned();
        let expected = [
            ("src/a/mod.rs".to_owned(), 4),
            ("src/a/mod.rs".to_owned(), 5),
            ("src/a/upper.rs".to_owned(), 1),
            ("src/c.rs".to_owned(), 1),
            (lower.clone(), 1),
            (lower.clone(), 2),
            (lower.clone(), 2),
            (lower, 3),
        ];
        let mut found = found(&bad);
        found.sort();
        let mut expected = expected.to_vec();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn tests_may_import_from_any_rung() {
        let tests = "#[cfg(test)]\nmod tests;\n#[cfg(all(test, not(loom)))]\nuse crate::b::B;\nimpl A {\n    #[cfg(loom)]\n    fn f() { crate::b::f() }\n}";
        let good = [
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", tests),
            ("src/a/tests.rs", "use crate::b::B;"),
            ("src/b.rs", ""),
        ];
        assert!(found(&good).is_empty());
    }

    #[test]
    fn a_module_on_no_rung_is_an_error() {
        let bad = [
            ("src/lib.rs", "mod novelty; mod probe { pub use crate::a::A; } mod a;"),
            ("src/novelty.rs", ""),
            ("src/a.rs", ""),
        ];
        assert_eq!(found(&bad), [("src/novelty.rs".to_owned(), 1)]);
    }
}
