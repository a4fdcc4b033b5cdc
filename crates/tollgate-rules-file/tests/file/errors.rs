//! Every mistake in one run, at its place.

use tollgate::ManualClock;
use tollgate_rules::LiveRules;
use tollgate_rules_file::{Code, Memory, Reading, read};

use crate::{found, problems, reading, rule};

/// The one error of a file with a rule `r` of these fields: its code, its part, message and hint.
fn error(fields: &str) -> (&'static str, String, String) {
    let text = format!("version = 1\n{}", rule("r", fields));
    let found = found(&text);
    let reading = reading(&text);
    assert_eq!(found.len(), 1, "{fields}\n{reading}");
    assert!(reading.rules().is_none(), "{fields}");
    let problem = &reading.problems()[0];
    let said = format!("{} | {}", problem.message, problem.hint.as_deref().unwrap_or_default());
    (found[0].0, found[0].1.clone(), said)
}

/// As docs/reference/rules.md shows its errors.
pub(crate) const FOUR_MISTAKES: &str = "\
version = 1
[[rule]]
name = \"a\"
kye = \"client\"
limits = \"10/month\"
[[rule]]
name = \"b\"
key = \"client\"
limits = \"10/s\"
replaces = [\"c\"]
[[rule]]
name = \"c\"
key = \"client\"
limits = \"10/s\"
replaces = [\"b\"]
[[rule]]
name = \"b\"
key = \"client\"
limits = \"10/s\"
";

#[test]
fn four_mistakes_are_four_errors_in_one_run() {
    let reading = reading(FOUR_MISTAKES);
    assert!(reading.rules().is_none());
    let told =
        reading.problems().iter().map(|p| (p.line, p.column, p.len, p.code, p.hint.as_deref().unwrap_or("")));
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 4, "{reading}");
    assert_eq!(told[0], (4, 1, 3, Code::UnknownField, "did you mean `key`?"));
    assert_eq!((told[1].0, told[1].1, told[1].2, told[1].3), (5, 14, 5, Code::BadLimit));
    assert!(told[1].4.contains("30d"), "{reading}");
    assert_eq!((told[2].0, told[2].3), (15, Code::Circle));
    assert_eq!((told[3].0, told[3].3), (17, Code::NameTwice));
    let drawn = reading.to_string();
    assert!(drawn.contains("4 | kye = \"client\"\n  | ^^^ did you mean `key`?"), "{drawn}");
    assert!(drawn.contains("5 | limits = \"10/month\"\n  |              ^^^^^"), "{drawn}");
}

/// Three kinds of mistakes in four: each section of the page once.
#[test]
fn errors_name_the_page_once() {
    let help = "help: docs/reference/rules.md#errors, docs/reference/rules.md#fields, \
                docs/reference/rules.md#values";
    let drawn = reading(FOUR_MISTAKES).to_string();
    assert!(drawn.ends_with(&format!("\n\n{help}")), "{drawn}");
    assert_eq!(drawn.matches("help: docs").count(), 1, "{drawn}");
}

/// Fields of a rule with one mistake, its code, the wrong part, and a part of its error.
pub(crate) const MISTAKES: [(&str, &str, &str, &str); 103] = [
    ("limits = \"10/fortnight\"", "bad-limit", "fortnight", "no unit of time | expected ns, us"),
    ("limits = '''\n10/x'''", "bad-limit", "", "no unit"),
    ("limits = \"10/s,\\u0062rust=2\"", "bad-limit", "\"10/s,\\u0062rust=2\"", "no option"),
    ("limits = \"0/s\"", "bad-limit", "0/s", "rate.count is 0"),
    ("limits = [\"1/s\", \"block\"]", "bad-limit", "block", "stands beside no other"),
    ("limits = []", "out-of-range", "[]", "0 values | 1 to 8"),
    ("limits = 10", "wrong-type", "10", "cannot be an integer | a limit"),
    ("limits = \"in-flight:0\"", "bad-limit", "0", "write `block`"),
    ("limits = \"in-flight:18446744073709551615\"", "bad-limit", "18446744073709551615", "must be between 1"),
    ("limits = \"10/s\"\ncost = 11", "unfit", "11", "more than a whole limit"),
    ("host = \"x\"", "unknown-field", "host", "match.host"),
    ("zzz = 1", "unknown-field", "zzz", "there are name, was"),
    ("refuse.mode = \"off\"", "unknown-field", "mode", "stands above"),
    ("refuse.include = \"x\"", "unknown-field", "include", "a field of the file"),
    ("limits = \"in-flight:2, ttl=5x\"", "bad-limit", "5x", "no unit"),
    ("limits = \"in-flight:2,tll=5s\"", "bad-limit", "tll=5s", "only ttl"),
    ("limits = \"inflight:2\"", "bad-limit", "inflight", "no algorithm | did you mean `in-flight`?"),
    ("limits = \"token_buckt:2/s\"", "bad-limit", "token_buckt", "did you mean `token-bucket`?"),
    ("limits = \"gcra:2/s\"", "bad-limit", "gcra", "sliding-log, in-flight (e.g. "),
    ("limits = \"in-flight\"", "bad-limit", "in-flight", "has no number | such as in-flight:2"),
    ("limits = [\"in-flight\"]", "bad-limit", "in-flight", "has no number | such as in-flight:2"),
    ("limits = \"inflight\"", "bad-limit", "inflight", "no rate | did you mean `in-flight:N`?"),
    ("limits = \"blok\"", "bad-limit", "blok", "no rate | did you mean `block`?"),
    ("limits = [\"blok\"]", "bad-limit", "blok", "60/min, in-flight:N (e.g. "),
    ("limits = \"Unlimited\"", "bad-limit", "Unlimited", "no rate | did you mean `unlimited`?"),
    ("limits = \"all\"", "bad-limit", "all", "60/min, in-flight:N, unlimited, block (e.g. "),
    ("limits = \"0.5/s\"", "bad-limit", "0.5", "such as 100 or 1_000; a fraction needs a longer period"),
    ("limits = \"fixed-window:0.5/s\"", "bad-limit", "0.5", "1/2s instead of 0.5/s (e.g. "),
    ("key = \"clinet\"", "bad-text", "clinet", "no attribute"),
    ("key = \"header\"", "bad-text", "header", "which one: header.NAME"),
    ("key = \"status\"", "bad-text", "status", "no attribute"),
    ("key = [\"client\", \"everyone\"]", "bad-text", "everyone", "stands alone"),
    ("key = [\"client\", \"client\"]", "bad-value", "client", "twice"),
    ("key = \"path.id\"\nmatch.path = \"/x/{name}\"", "unfit", "path.id", "`{id}`"),
    ("key = \"route\"", "unfit", "route", "the rule has none"),
    ("mode = \"shadwo\"", "bad-text", "shadwo", "did you mean \"shadow\"?"),
    ("match = {}", "out-of-range", "{}", "the condition is empty"),
    ("match = []", "out-of-range", "[]", "0 values"),
    ("match.method = []", "out-of-range", "[]", "0 values"),
    ("match.label = {}", "out-of-range", "{}", "`label` is empty"),
    ("match.status = 1", "unknown-field", "status", "of a condition"),
    ("match.path = \"x\"", "bad-text", "x", "begins with `/`"),
    ("limits = \"é/s\"", "bad-limit", "é", "is no number"),
    ("match.path = \"/caf\u{e9}/x\"", "bad-value", "é", "| %C3%A9"),
    ("match.path = \"/a/../b\"", "bad-value", "..", "without dots"),
    ("match.path = \"//b\"", "bad-value", "", "each `/` once"),
    ("match.path = \"/%6Cogin\"", "bad-value", "%6C", "| l"),
    ("match.path = \"/a b\"", "bad-value", " ", "| %20"),
    ("match.path = \"/x/a**\"", "bad-text", "a**", "`*`, or `{name}`"),
    ("match.path = \"/**/x\"", "bad-text", "**", "before the end"),
    ("match.path = \"/{a}/{a}\"", "bad-value", "{a}", "twice"),
    ("match.path = \"/x?y\"", "bad-text", "?y", "no query"),
    ("match.host = \"x:80\"", "bad-text", ":80", "no port"),
    ("match.host = \"caf\u{e9}.example\"", "bad-value", "café.example", "xn--"),
    ("match.host = \"example.com.\"", "bad-value", "example.com.", "last dot"),
    ("match.client = [\"192.0.2.300\"]", "bad-value", "192.0.2.300", "no address"),
    ("match.client = \"10.0.0.1/8\"", "bad-value", "10.0.0.1/8", "| 10.0.0.0/8, or 10.0.0.1"),
    ("match.client = \"@offcie\"", "unknown-list", "@offcie", "no list `offcie`"),
    ("match.header.k = \"sha256:abc\"", "bad-text", "sha256:abc", "64 hexadecimal digits"),
    ("match.header.\"a b\" = \"x\"", "bad-text", "a b", "no name of a header"),
    ("ban = \"0s\"", "bad-value", "0s", "longer than nothing"),
    ("ban = \"ages\"", "bad-text", "ages", "no unit"),
    ("ban = \"100000d\"", "bad-value", "100000d", "days at most"),
    ("max_wait = \"1s\"", "unfit", "1s", "no limit of the rule is a queue"),
    ("on_refusal = \"wait\"", "bad-text", "wait", "park"),
    ("park.tries = 2", "unfit", "park", "`park` means nothing"),
    ("on_refusal = \"park\"\nban = \"1h\"", "unfit", "1h", "cannot ban its key"),
    ("on_refusal = \"park\"\npark.age = \"0s\"", "bad-value", "0s", "longer than nothing"),
    ("on_refusal = \"park\"\npark.bytes_per_key = 0", "out-of-range", "0", "`bytes_per_key` is"),
    ("on_refusal = \"park\"\npark.body = 67108865", "out-of-range", "67108865", "`body` is"),
    ("cost = -1", "out-of-range", "-1", "`cost` is -1"),
    ("cost = { from = \"client\" }", "bad-text", "client", "has no number"),
    ("charge_if.status = 99", "out-of-range", "99", "100 to 599"),
    (
        "refuse.headers.Content-Length = \"5\"",
        "bad-value",
        "Content-Length",
        "writes `Content-Length` itself",
    ),
    ("replaces = [\"*\", \"r\"]", "unfit", "", "stands alone"),
    ("replaces = \"r\"", "circle", "r", "`r` replaces itself"),
    ("was = \"r\"", "unfit", "r", "was not renamed"),
    ("store = \"cache\"", "unknown-store", "cache", "no store `cache`"),
    ("store = \"http://10.0.0.7\"", "bad-value", "http://10.0.0.7", "another scheme"),
    ("store = \"redis:/10.0.0.1\"", "unknown-store", "redis:/10.0.0.1", "| an address is redis:"),
    ("store = \"redis.local\"", "unknown-store", "redis.local", "stores.\"redis.local\".url = "),
    ("store = \"redis:/u:p@10.0.0.1\"", "bad-text", "redis:/u:p@10.0.0.1", "has no scheme | "),
    ("on_failure = \"deny\"\nstore = \"redis://h\"", "bad-text", "deny", "| refuse, allow"),
    ("store = \"redis://h\"\non_failure = \"alow\"", "bad-text", "alow", "mean \"allow\""),
    ("store = \"redis://\"", "bad-value", "redis://", "no host"),
    ("store = \"redis://h:70000\"", "bad-value", "redis://h:70000", "1 to 65535"),
    ("store = \"redis://h/x\"", "bad-value", "redis://h/x", "is no number"),
    ("on_failure = \"allow\"", "unfit", "allow", "the rule has no `store`"),
    ("deny_cache = 9", "unfit", "9", "the rule has no `store`"),
    ("leases = { nodes = 2 }", "unfit", "{ nodes = 2 }", "the rule has no `store`"),
    ("store = \"redis://h\"\nleases = {}", "missing-field", "", "nodes"),
    ("store = \"redis://h\"\nleases = { nodes = 0 }", "out-of-range", "0", "`nodes` is 0"),
    (
        "store = \"redis://h\"\nleases = { nodes = 2, ttl = \"2min\" }",
        "bad-value",
        "2min",
        "outside of 1ms to 1min",
    ),
    (
        "store = \"redis://h\"\nlimits = [\"5/s\", \"9/min\"]\nleases = { nodes = 2 }",
        "unfit",
        "{ nodes = 2 }",
        "several limits",
    ),
    ("store = \"redis://h\"\nban = \"1h\"", "unfit", "1h", "in one process"),
    ("store = \"redis://h\"\nwas = \"q\"", "unfit", "q", "by its name"),
    ("store = \"redis://h\"\nmax_keys = 9", "unfit", "9", "any number of keys"),
    ("store = \"redis://h\"\ninherit = \"as-is\"", "unfit", "as-is", "as they are"),
    ("store = \"redis://h\"\non_failure = { local = 0 }", "out-of-range", "0", "`local` is 0"),
    ("store = \"redis://h\"\nlimits = \"in-flight:2\"", "bad-limit", "", "in one process"),
    (
        "store = \"redis://h\"\nlimits = \"7/30d\"\non_failure = { local = 1000000 }",
        "bad-limit",
        "{ local = 1000000 }",
        "cannot keep its share of the limits: rate.period",
    ),
    (
        "store = \"redis://h\"\nlimits = \"leaky-bucket:1/s,capacity=3,queue\"",
        "bad-limit",
        "leaky-bucket:1/s,capacity=3,queue",
        "no queue",
    ),
    ("store = \"redis://h\"\nlimits = \"sliding-log:10001/d\"", "bad-limit", "", "too large"),
];

#[test]
fn each_mistake_points_at_the_wrong_part() {
    for (fields, code, part, says) in MISTAKES {
        let (found, wrong, said) = error(fields);
        assert_eq!(found, code, "{fields}: {said}");
        let unquoted = wrong.trim_matches('"');
        assert!(part.is_empty() || part == wrong || part == unquoted, "{fields}: {wrong} for {part}");
        assert!(said.contains(says), "{fields}: {said} lacks {says}");
    }
}

/// What the error says is what can be built, to the day.
#[test]
fn a_ban_lasts_as_long_as_its_error_says() {
    let said = error("ban = \"100000d\"").2;
    let days: u64 = said.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!(error(&format!("ban = \"{}d\"", days + 1)).2.contains(&format!("{days} days")));
    let text = format!("version = 1\n{}", rule("r", &format!("ban = \"{days}d\"")));
    let rules = reading(&text).into_rules().unwrap();
    assert!(LiveRules::new(rules, [0; 32], ManualClock::new()).is_ok(), "{days} days");
}

/// What the check lets pass, the store's client takes: it has the address as it was parsed here.
#[test]
fn an_address_that_no_client_takes_is_an_error() {
    for (address, says) in [
        ("redis://app:hunter2#x@127.0.0.1:6379", "write %2F, %3F, %23"),
        ("redis://app:hunter2?x@127.0.0.1:6379", "write %2F, %3F, %23"),
        ("redis://app:hunter2#x", "write %23"),
        ("redis://h:+6379", "the port"),
        ("redis://h?protocol=resp9", "neither 2 nor 3"),
        ("redis://h?password=hunter2", "has a parameter"),
        ("redis://[zz]", "neither a name nor an address"),
        ("redis://h|x", "neither a name nor an address"),
        ("redis://0.0.0.0", "name one"),
        ("redis://h/+1", "is no number"),
        ("redis://:%ff@h", "not UTF-8"),
        ("rediss://h#insecure", "always verified"),
    ] {
        for fields in [format!("store = '{address}'"), format!("store = \"{address}\"")] {
            let (code, part, said) = error(&fields);
            assert_eq!((code, part.trim_matches(['\'', '"'])), ("bad-value", address));
            assert!(said.contains(says), "{fields}: {said}");
            let drawn = reading(&format!("version = 1\n{}", rule("r", &fields))).to_string();
            assert!(!said.contains("hunt") && !drawn.contains("hunt") && !drawn.contains("ter2"), "{drawn}");
        }
        let stores = format!("version = 1\nstores.cache.url = '{address}'\n{}", rule("r", "store = 'cache'"));
        assert!(reading(&stores).rules().is_none(), "{address}");
        let stores = stores.replace(".url", ".url_env").replace(&format!("'{address}'"), "'CACHE'");
        let source = Memory::new("rules.toml", stores).variable("CACHE", address);
        let told = read("rules.toml", &source).to_string();
        assert!(told.contains("in the environment variable `CACHE`") && !told.contains("hunt"), "{told}");
    }
}

#[test]
fn circles_of_any_length_and_through_all_are_errors() {
    let circle = |names: &[(&str, &str)]| {
        let rules: Vec<_> =
            names.iter().map(|(name, to)| rule(name, &format!("replaces = [\"{to}\"]"))).collect();
        let codes: Vec<_> = problems(&rules).iter().map(|problem| problem.code).collect();
        codes.iter().filter(|code| **code == Code::Circle).count()
    };
    assert_eq!(circle(&[("a", "b"), ("b", "c"), ("c", "a")]), 1);
    assert_eq!(circle(&[("a", "b"), ("b", "*")]), 1);
    assert_eq!(circle(&[("a", "*"), ("b", "*")]), 0);
    assert_eq!(circle(&[("a", "b"), ("b", "c"), ("c", "nobody")]), 0);
    let chain: Vec<_> =
        (0..9_999).map(|n| rule(&n.to_string(), &format!("replaces = [\"{}\"]", n + 1))).collect();
    let last = problems(&[chain.concat(), rule("9999", "replaces = \"0\"")].map(|text| text));
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].code, Code::Circle);
}

#[test]
fn a_circle_is_drawn_with_every_line_of_it() {
    let rules =
        [rule("a", "replaces = [\"b\"]"), rule("b", "replaces = [\"c\"]"), rule("c", "replaces = [\"a\"]")];
    let reading = reading(&format!("version = 1\n{}", rules.concat()));
    let [problem] = reading.problems() else { panic!("{reading}") };
    let lines: Vec<_> = problem.also.iter().map(|part| part.line).chain([problem.line]).collect();
    assert_eq!(lines, [4, 9, 14], "{reading}");
    let drawn = reading.to_string();
    for line in ["4 | replaces = [\"b\"]", "9 | replaces = [\"c\"]", "14 | replaces = [\"a\"]"] {
        assert!(drawn.contains(line), "{drawn}");
    }
    let all = problems(&[rule("a", "replaces = [\"b\"]"), rule("b", "replaces = \"*\"")]);
    assert_eq!((all[0].line, all[0].also.len(), all[0].also[0].line), (4, 1, 9));
}

#[test]
fn a_syntax_error_is_told_beside_other_mistakes() {
    let text = format!("version = 1\nx = [1 2]\n{}{}", rule("r", "mode = \"shadwo\"\nban ="), rule("r", ""));
    let codes: Vec<_> = found(&text).into_iter().map(|(code, _)| code).collect();
    assert!(codes.iter().filter(|code| **code == "syntax").count() >= 2, "{codes:?}");
    for code in ["bad-text", "name-twice", "unknown-field"] {
        assert!(codes.contains(&code), "{codes:?} lacks {code}");
    }
    let twice = found(&format!("version = 1\n{}", rule("r", "mode = \"off\"\nmode = \"off\"")));
    assert_eq!(twice, [("syntax", "mode".to_owned())]);
}

#[test]
fn json_and_yaml_are_told_to_be_no_toml() {
    for text in ["{\"version\": 1}\n", "version: 1\nrule:\n  - name: r\n"] {
        let reading = reading(text);
        let hints: Vec<_> = reading.problems().iter().filter_map(|problem| problem.hint.as_deref()).collect();
        assert!(hints.iter().any(|hint| hint.contains("is TOML")), "{text}: {hints:?}");
    }
}

#[test]
fn one_bracket_too_few_is_told_as_such() {
    let text = "version = 1\n[rule]\nname = \"r\"\nkey = \"everyone\"\nlimits = \"1/s\"\n";
    let reading = reading(text);
    let problem = &reading.problems()[0];
    assert_eq!(
        (problem.line, problem.code, problem.hint.as_deref()),
        (2, Code::WrongType, Some("two brackets: [[rule]]"))
    );
    let tier = "name = \"t\"\nmatch.path = \"/t\"\nlimits = \"2/s\"\n";
    let text = format!("version = 1\n{}[rule.tier]\n{tier}", rule("r", ""));
    let problems = crate::reading(&text).problems().to_vec();
    let hints: Vec<_> = problems.iter().map(|problem| problem.hint.as_deref()).collect();
    assert_eq!(hints, [Some("two brackets: [[rule.tier]]")]);
    let steps = "version = 1\n[[test]]\nname = \"t\"\n[test.steps]\nsend = \"GET /\"\n";
    let problems = crate::reading(steps).problems().to_vec();
    assert_eq!(problems[0].hint.as_deref(), Some("two brackets: [[test.steps]]"));
}

#[test]
fn a_heading_without_its_last_bracket_is_one_error() {
    let fields = "name = \"a\"\nkey = \"client\"\nlimits = \"10/s\"\n";
    for heading in ["[[rule", "[[rule]", "  [[ rule ] # all"] {
        for before in [String::new(), rule("r", "")] {
            let text = format!("version = 1\n{before}{heading}\n{fields}{}", rule("s", "kye = 1"));
            let codes = found(&text);
            let [(first, _), second] = &codes[..] else { panic!("{}", reading(&text)) };
            assert_eq!((*first, second), ("syntax", &("unknown-field", "kye".to_owned())), "{text}");
            // The parser gives the last of a file's fields to the file.
            let at_the_end = found(&format!("version = 1\n{before}{heading}\n{fields}"));
            assert!(matches!(at_the_end[..], [("syntax", _)]), "{text}: {at_the_end:?}");
        }
    }
}

#[test]
fn too_many_keys_or_none_are_one_error() {
    for keys in ["0", "68719476737", "1_000_000_000_000_000"] {
        let (code, part, said) = error(&format!("key = \"client\"\nmax_keys = {keys}"));
        assert_eq!((code, &*part), ("out-of-range", keys), "{said}");
    }
    assert_eq!(error("key = \"client\"\nmax_keys = 68719476736").0, "too-much");
}

#[test]
fn the_machine_readable_form_has_seven_fields() {
    let text = format!("version = 1\n{}", rule("r", "mode = \"shadwo\""));
    let told = serde_json::to_value(reading(&text).problems()).unwrap();
    let right = serde_json::json!([{
        "file": "rules.toml", "line": 4, "column": 8, "len": 8, "code": "bad-text",
        "message": "`mode` cannot be \"shadwo\"", "hint": "did you mean \"shadow\"?",
    }]);
    assert_eq!(told, right);
}

/// A file that includes others, with lists.
fn several(files: &[(&str, &str)]) -> Reading {
    let source = files.iter().fold(Memory::default(), |source, (path, text)| source.file(*path, *text));
    read("etc/rules.toml", &source)
}

const MAIN: &str = "version = 1\ninclude = [\"rules.d/*.toml\"]\n";

#[test]
fn included_files_share_names_and_lists() {
    let one = format!("version = 1\nlists.vip = [\"a\"]\n{}", rule("one", "match.label.user = \"@vip\""));
    let two = format!("version = 1\n{}", rule("two", "match.label.user = \"@vip\"\nreplaces = \"one\""));
    let files = [("etc/rules.toml", MAIN), ("etc/rules.d/b.toml", &two), ("etc/rules.d/a.toml", &one)];
    let reading = several(&files);
    let names = reading.rules().expect("no mistake").rules.iter().map(|rule| &*rule.name).collect::<Vec<_>>();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(reading.paths().len(), 3);

    let wrong = format!("version = 2\nmode = \"off\"\nlists.vip = []\ninclude = \"x\"\n{}", rule("one", ""));
    let reading = several(&[files[0], files[1], files[2], ("etc/rules.d/c.toml", &wrong)]);
    let told: Vec<_> =
        reading.problems().iter().map(|problem| (&*problem.file, problem.line, problem.code)).collect();
    let file = "etc/rules.d/c.toml";
    let codes = [Code::OutOfRange, Code::UnknownField, Code::NameTwice, Code::UnknownField, Code::NameTwice];
    let right: Vec<_> =
        [1, 2, 3, 4, 6].into_iter().zip(codes).map(|(line, code)| (file, line, code)).collect();
    assert_eq!(told, right, "{reading}");
    assert_eq!(reading.problems()[0].hint.as_deref(), Some("this version of tollgate reads version 1"));
}

#[test]
fn an_unreadable_file_is_told_where_it_is_named() {
    let text = "version = 1\ninclude = [\"missing.toml\"]\n[lists]\na = { file = \"no.txt\" }\nb = { env = \"NO\" }\n";
    let reading = several(&[("etc/rules.toml", text)]);
    let told: Vec<_> = reading.problems().iter().map(|problem| (problem.line, problem.code)).collect();
    assert_eq!(told, [(2, Code::Unreadable), (4, Code::Unreadable), (5, Code::Unreadable)], "{reading}");
    let missing = several(&[]);
    assert_eq!((missing.problems()[0].line, missing.problems()[0].code), (0, Code::Unreadable));
    assert!(missing.to_string().starts_with("error: cannot read `etc/rules.toml`: "), "{missing}");
}

#[test]
fn a_wrong_entry_is_told_in_its_file_without_text() {
    let text = format!(
        "{MAIN}lists.keys = {{ file = \"keys.txt\" }}\nlists.nets = {{ file = \"nets.txt\" }}\n{}{}{}",
        rule("a", "match.header.x-api-key = \"@keys\""),
        rule("b", "match.header.x-api-key = \"@keys\""),
        rule("c", "match.client = \"@nets\""),
    );
    let keys = "\u{feff}# keys\ngood#1\n\nsha256:TOPSECRET # spoiled\n";
    let nets = "10.0.0.0/8\r\n2001:db8::/32 # ours\r\n10.0.0.0/33\r\n";
    let reading = several(&[("etc/rules.toml", &text), ("etc/keys.txt", keys), ("etc/nets.txt", nets)]);
    let told: Vec<_> =
        reading.problems().iter().map(|p| (&*p.file, p.line, p.column, p.len, p.code)).collect();
    let right = [("etc/keys.txt", 4, 1, 16, Code::BadEntry), ("etc/nets.txt", 3, 1, 11, Code::BadEntry)];
    assert_eq!(told, right, "{reading}");
    assert!(!reading.to_string().contains("TOPSECRET"), "{reading}");
}

#[test]
fn the_hash_changes_with_any_byte_that_is_read() {
    let text = format!("{MAIN}lists.keys = {{ file = \"keys.txt\" }}\n");
    let hash = |text: &str, keys: &str| several(&[("etc/rules.toml", text), ("etc/keys.txt", keys)]).hash();
    let first = hash(&text, "a");
    assert_eq!(first, hash(&text, "a"));
    assert_ne!(first, hash(&text, "b"));
    assert_ne!(first, hash(&format!("{text} "), "a"));
}

#[test]
fn rules_beyond_the_memory_budget_are_an_error() {
    let text = |mib: u64| {
        let rules =
            [rule("a", "key = \"client\""), rule("b", "key = \"client\"\nmax_keys = 100_000"), rule("c", "")];
        format!("version = 1\nmemory_budget_mib = {mib}\n{}", rules.concat())
    };
    assert!(reading(&text(7)).rules().is_some());
    let reading = reading(&text(6));
    let [problem] = reading.problems() else { panic!("{reading}") };
    assert_eq!((problem.code, problem.line), (Code::TooMuch, 10));
    let message =
        "the keys of all rules may take 7 MiB, but the budget is 6 MiB; the most, 4 MiB, are those of `b`";
    assert_eq!(&*problem.message, message);
    // As many rules as a file may have, each by client.
    let many: String = (0..10_000).map(|n| rule(&format!("r{n}"), "key = \"client\"")).collect();
    let many = crate::reading(&format!("version = 1\n{many}"));
    assert!(many.problems()[0].message.contains("20000 MiB, but the budget is 1024 MiB"), "{many}");
    let for_everyone: String = (0..10_000).map(|n| rule(&format!("r{n}"), "")).collect();
    assert!(crate::reading(&format!("version = 1\n{for_everyone}")).rules().is_some());
}
