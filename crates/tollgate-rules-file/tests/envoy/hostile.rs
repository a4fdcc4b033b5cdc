//! Files that are no descriptors: a clear error each, in bounded time.

use std::fs;
use std::time::{Duration, Instant};

use tollgate_rules_file::{Code, Disk, EnvoyConfig, Reading, SameDomain};

use crate::{domain, reading};

fn code(reading: &Reading<EnvoyConfig>) -> Code {
    assert!(reading.rules().is_none());
    reading.problems()[0].code
}

#[test]
fn bytes_that_are_no_text_are_told_at_their_position() {
    let binary = reading(&b"domain: d\n\xff\xfe"[..]);
    assert_eq!((code(&binary), binary.problems()[0].line), (Code::NotText, 2));
    assert_eq!(code(&reading("domain: d\0")), Code::NotText);
}

#[test]
fn an_empty_file_has_no_domain() {
    for text in ["", "\n\n", "# nothing\n", "---\n", "~\n", "\u{feff}"] {
        assert_eq!(code(&reading(text)), Code::MissingField, "{text:?}");
    }
}

#[test]
fn what_is_no_file_is_an_error() {
    for path in ["/no/such/file.yaml", "/dev/null", "/proc/self/task/1/fd"] {
        let reading = EnvoyConfig::read(&[path], SameDomain::Refuse, &Disk);
        assert_eq!(code(&reading), Code::Unreadable, "{path}: {reading}");
    }
}

#[test]
fn large_files_are_errors_that_say_how_large() {
    let path = std::env::temp_dir().join(format!("tollgate-envoy-{}.yaml", std::process::id()));
    let file = fs::File::create(&path).expect("the temporary directory can be written to");
    file.set_len(100 << 20).expect("a file may be sparse");
    let large = EnvoyConfig::read(&[&path], SameDomain::Refuse, &Disk);
    fs::remove_file(&path).expect("it is there");
    assert!(code(&large) == Code::TooMuch && large.to_string().contains("16 MiB"), "{large}");
}

#[test]
fn nesting_and_aliases_are_bounded() {
    let started = Instant::now();
    let nested = |open: &str| format!("domain: d\ndescriptors: {}", open.repeat(100_000));
    for text in [nested("["), nested("{a: "), nested("- "), nested("[{descriptors: ")] {
        assert!(matches!(code(&reading(&*text)), Code::TooMuch | Code::Syntax), "{}", reading(text));
    }
    let mut deep = String::from("domain: d\ndescriptors:\n");
    for level in 0..40 {
        let blanks = "  ".repeat(level * 2);
        deep += &format!("{blanks}- key: k\n{blanks}  descriptors:\n");
    }
    assert_eq!(code(&reading(deep)), Code::TooMuch);
    let mut bomb = String::from("domain: d\nx0: &x0 { key: k }\n");
    for n in 1..30 {
        let inner = vec![format!("*x{}", n - 1); 10].join(", ");
        bomb += &format!("x{n}: &x{n} {{ key: k, descriptors: [{inner}] }}\n");
    }
    assert_eq!(code(&reading(bomb)), Code::TooMuch);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn long_keys_make_no_long_memory() {
    let long = "k".repeat(5_000);
    assert_eq!(code(&reading(domain(&format!("  - key: {long}\n")))), Code::OutOfRange);
    let text = domain(&format!("  - key: {0}\n    descriptors: [{{ key: {0} }}]\n", &long[..3_000]));
    assert_eq!(code(&reading(text)), Code::TooMuch);
    let many: String = (0..20_000)
        .map(|n| {
            format!("      - {{ key: k, value: {n}, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}\n")
        })
        .collect();
    let text = format!("  - key: {}\n    descriptors:\n{many}", &long[..4_000]);
    let reading = reading(domain(&text));
    assert!(reading.problems().len() == 1 && code(&reading) == Code::TooMuch, "{reading}");
}

#[test]
fn a_thousand_problems_are_told_and_the_others_counted() {
    let many = reading(domain(&"  - { kye: x }\n".repeat(3_000)));
    assert_eq!(many.problems().len(), 1_001);
    assert!(many.to_string().contains("more problems"));
}
