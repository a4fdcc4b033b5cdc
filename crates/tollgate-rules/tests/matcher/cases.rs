//! What each part of a rule means, case by case.

use super::*;

#[test]
fn spellings_of_a_path_are_one_to_what_restricts() {
    let names =
        Names::new("rule = [{ name = 'r', match.path = '/login', key = 'everyone', limits = '1/s' }]");
    for same in ["/login", "/Login/", "//login", "/%6Cogin", "/a/../login", "/login?x", "/login;x=1"] {
        assert_eq!(names.of(&get(same)), ["r"], "{same}");
    }
    for other in ["/login%2Fx", "/login%3Ax", "/loginx"] {
        assert!(names.of(&get(other)).is_empty(), "{other}");
    }
}

#[test]
fn except_is_read_as_the_path_was_sent() {
    let names =
        Names::new("rule = [{ name = 'r', except.path = '/health', key = 'everyone', limits = '1/s' }]");
    assert!(names.of(&get("/health")).is_empty());
    assert!(names.of(&get("/health?x")).is_empty());
    for other in ["/Health", "/health/", "//health", "/x/..//health", "/health/..%2Fhealth"] {
        assert_eq!(names.of(&get(other)), ["r"], "{other}");
    }
    assert_eq!(names.of(&PlainRequest::default()), ["r"], "an absent path exempts no request");
}

#[test]
fn a_capture_is_one_part_of_the_path() {
    let names =
        Names::new("rule = [{ name = 'r', match.path = '/users/{id}', key = 'path.id', limits = '1/s' }]");
    assert_eq!(names.key(&get("/users/42")), b"42");
    assert_eq!(names.key(&get("/users/4%2f2")), b"4%2F2");
    assert_eq!(names.key(&get("/Users/Ada/")), b"Ada", "the case is kept");
    assert_eq!(names.key(&get("/users/%41da")), b"Ada");
    for other in ["/users/", "/users", "/users/4/2", "/users//"] {
        assert!(names.of(&get(other)).is_empty(), "{other}");
    }
}

#[test]
fn a_header_twice_is_missing_in_a_key() {
    let rule = |missing| {
        format!("rule = [{{ name = 'r', key = 'header.K', missing = '{missing}', limits = '1/min' }}]")
    };
    let absent = [
        headers(&[]),
        headers(&[("k", "a"), ("K", "b")]),
        headers(&[("k", "a"), ("k", "a")]),
        headers(&[("k", "")]),
        headers(&[("k", &"x".repeat(4097))]),
    ];
    let [share, refuse, pass] = ["share", "refuse", "pass"].map(|missing| Names::new(&rule(missing)));
    for names in [&share, &refuse, &pass] {
        let (concerned, key) = names.one(&headers(&[("k", "a")]));
        assert_eq!((key, concerned.is_refused_without_key), (b"a".to_vec(), false));
        assert_eq!(names.key(&headers(&[("k", &"x".repeat(4096))])).len(), 4096);
    }
    for request in &absent {
        let (shared, refused) = (share.one(request), refuse.one(request));
        assert_eq!((shared.1.len(), shared.0.is_refused_without_key), (0, false));
        assert_eq!((refused.1.len(), refused.0.is_refused_without_key), (0, true));
    }
    assert!(pass.of(&absent[0]).is_empty());
    for present in &absent[1..] {
        let (concerned, key) = pass.one(present);
        assert_eq!((key.len(), concerned.is_refused_without_key), (0, false), "{present:?}");
    }
}

#[test]
fn only_an_absent_part_of_a_key_passes() {
    let names = Names::new(
        "rule = [{ name = 'r', match.path = '/a/{id}', key = ['path.id', 'query.k', 'cookie.c'], missing = 'pass', limits = '1/s' }]",
    );
    let of = |target: &str, cookie: &str| {
        names.of(&PlainRequest { headers: pairs(&[("cookie", cookie)]), ..get(target) })
    };
    assert_eq!(of("/a/b?k=1&k=2", "c="), ["r"]);
    assert_eq!(of(&format!("/a/{}?k=1", "x".repeat(5_000)), "c=1"), ["r"]);
    assert!(of("/a/b?k=1&k=2", "").is_empty(), "a part is absent");
}

#[test]
fn addresses_of_one_client_are_one_key() {
    let names = Names::new("rule = [{ name = 'r', key = 'client', limits = '1/min' }]");
    let key = |client| names.key(&from(client));
    assert_eq!(key("2001:db8::1"), key("2001:db8::ffff"));
    assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
    assert_eq!(key("::ffff:203.0.113.9"), key("203.0.113.9"));
    assert_eq!(key("64:ff9b::203.0.113.9"), key("203.0.113.9"));
    assert_ne!(key("203.0.113.8"), key("203.0.113.9"));
    assert_eq!(names.key(&get("/")), b"", "a request without a client");
}

#[test]
fn an_attributes_cost_is_a_number_or_the_default() {
    let rule = "rule = [{ name = 'r', key = 'everyone', limits = '10/min', cost = { from = 'label.n', default = 3 } }]";
    let names = Names::new(rule);
    let too_many = "9".repeat(40);
    for (label, cost) in [
        ("4", 4),
        ("x", 3),
        ("1", 1),
        ("0", 0),
        ("", 3),
        ("-1", 3),
        ("+5", 3),
        ("5.0", 3),
        (" 5", 3),
        ("007", 7),
        ("18446744073709551615", u64::MAX),
        ("18446744073709551616", u64::MAX),
        (&too_many, u64::MAX),
    ] {
        assert_eq!(names.cost(&labels(&[("n", label)])), cost, "{label:?}");
    }
    assert_eq!(names.cost(&labels(&[])), 3);
    assert_eq!(names.cost(&labels(&[("n", "1"), ("n", "9")])), 9, "the highest of several");
    assert_eq!(names.cost(&labels(&[("n", "1"), ("n", "2")])), 3, "no less than the default");
    assert_eq!(names.cost(&labels(&[("n", "1"), ("n", "1")])), 1, "both agree");
}

#[test]
fn an_ambiguous_cost_is_the_highest() {
    let names = Names::new(
        "rule = [{ name = 'r', key = 'everyone', limits = '10/min', cost = [
            { match.path = '/cheap/**', is = 0 }, { match.header.x = 'dear', is = 9 }, { is = 4 }] }]",
    );
    let cost = |target: &str, x: &[(&str, &str)]| {
        names.cost(&PlainRequest { target: Some(target.into()), ..headers(x) })
    };
    assert_eq!(cost("/cheap/x", &[]), 0);
    assert_eq!(cost("/other", &[]), 4);
    assert_eq!(cost("/other", &[("x", "dear")]), 9);
    assert_eq!(cost("/other", &[("x", "dear"), ("x", "cheap")]), 9, "either header counts");
    for hidden in ["/Cheap/x", "/other/..%2Fcheap/x", "/other/..;/cheap/x", "/other//../cheap/x"] {
        assert_eq!(cost(hidden, &[]), 4, "{hidden}");
    }
}

#[test]
fn a_cost_without_a_case_is_one() {
    let names = Names::new(
        "rule = [{ name = 'r', key = 'everyone', limits = '10/min', cost = [{ match.method = 'POST', is = 0 }] }]",
    );
    assert_eq!(names.cost(&get("/")), 1);
    assert_eq!(names.cost(&PlainRequest { method: Some("POST".into()), ..get("/") }), 0);
    assert_eq!(names.cost(&PlainRequest { method: Some("post".into()), ..get("/") }), 1, "who knows");
}

#[test]
fn the_first_tier_that_fits_counts() {
    let names = Names::new(
        "[[rule]]\nname = 'r'\nkey = 'client'\nlimits = '10/s'
         tier = [{ name = 'pro', match.label.plan = ['pro', 'max'], limits = '100/s' },
                 { name = 'max', match.label.plan = 'max', limits = '1000/s' }]",
    );
    let tier = |plan: &[(&str, &str)]| names.one(&labels(plan)).0.tier;
    assert_eq!(tier(&[]), None);
    assert_eq!(tier(&[("plan", "free")]), None);
    assert_eq!(tier(&[("plan", "pro")]), Some(0));
    assert_eq!(tier(&[("plan", "max")]), Some(0));
}

#[test]
fn an_ambiguous_tier_is_the_least_generous() {
    let names = Names::new(
        "[[rule]]\nname = 'r'\nkey = 'client'\nlimits = '10/s'
         tier = [{ name = 'static', match.path = '/static/**', limits = '1000/s' },
                 { name = 'export', match.path = '/export', limits = '1/s' },
                 { name = 'free', match.header.x = 'free', limits = 'unlimited' },
                 { name = 'never', match.path = '/never', limits = 'block' }]",
    );
    let tier = |target: &str| names.one(&get(target)).0.tier;
    assert_eq!(tier("/static/x"), Some(0));
    assert_eq!(tier("/export"), Some(1));
    assert_eq!(tier("/Export/"), Some(1), "what restricts is read folded");
    assert_eq!(tier("/Never"), Some(3));
    assert_eq!(tier("/Static/x"), None, "what relaxes is read as it was sent");
    assert_eq!(tier("/export/..%2Fstatic/x"), None);
    assert_eq!(tier("/static/..%2Fexport"), Some(1));
    let tier = |x: &[(&str, &str)]| names.one(&headers(x)).0.tier;
    assert_eq!((tier(&[("x", "free")]), tier(&[("x", "free"), ("x", "y")])), (Some(2), None));
}

#[test]
fn keys_of_several_parts_never_run_together() {
    let names = Names::new("rule = [{ name = 'r', key = ['header.a', 'header.b'], limits = '1/s' }]");
    let key = |a: &str, b: &str| names.key(&headers(&[("a", a), ("b", b)]));
    assert_eq!(key("x", "yz"), b"\0\x01x\0\x02yz");
    assert_ne!(key("x", "yz"), key("xy", "z"));
    assert_eq!(names.key(&headers(&[("a", "x")])), b"", "a part is missing");
}

#[test]
fn every_attribute_can_be_a_key() {
    let key = |attribute: &str| {
        let pattern = "/Files/{id}";
        let names = Names::new(&format!(
            "rule = [{{ name = 'r', match.path = ['{pattern}', '*'], key = '{attribute}', limits = '1/s' }}]"
        ));
        let request = PlainRequest {
            method: Some("post".into()),
            host: Some("API.Example.com.:8080".into()),
            headers: pairs(&[("Cookie", "a=1; sid=\"s\""), ("X-Key", "k"), ("cookie", "b=2")]),
            labels: pairs(&[("user", "ada")]),
            domain: Some("d".into()),
            entries: pairs(&[("to", "1")]),
            ..get("/files/A%2fb/?q=%41+b&r=1&r=2&=x")
        };
        String::from_utf8(names.key(&request)).unwrap()
    };
    for (attribute, value) in [
        ("method", "POST"),
        ("host", "api.example.com"),
        ("path", "/files/a/b"),
        ("header.x-key", "k"),
        ("cookie.sid", "s"),
        ("cookie.b", "2"),
        ("query.q", "A b"),
        ("query.r", ""),
        ("label.user", "ada"),
        ("domain", "d"),
        ("entry.to", "1"),
    ] {
        assert_eq!(key(attribute), value, "{attribute}");
    }
    let text =
        "rule = [{ name = 'r', match.path = '/Files/{id}', key = ['route', 'path.id'], limits = '1/s' }]";
    assert_eq!(Names::new(text).key(&get("/files/A%2fb/")), b"\0\x0b/Files/{id}\0\x05A%2Fb");
}

#[test]
fn hosts_are_compared_without_port_and_case() {
    let names = Names::new(
        "rule = [{ name = 'r', match.host = ['*.Example.com', 'a.test'], key = 'everyone', limits = '1/s' }]",
    );
    let host = |host: &str| PlainRequest { host: Some(host.into()), ..get("/") };
    for inside in ["x.example.com", "X.Y.EXAMPLE.com:8080", "a.test.", "A.test.:443", "user@a.test"] {
        assert_eq!(names.of(&host(inside)), ["r"], "{inside}");
    }
    for outside in ["example.com", "xexample.com", "a.test.evil", "[::1]:80", ""] {
        assert!(names.of(&host(outside)).is_empty(), "{outside}");
    }
    assert_eq!(names.of(&get("http://a.test/x")), ["r"], "the target names the host");
}

#[test]
fn several_values_restrict_by_any_and_relax_by_all() {
    let names = Names::new(
        "rule = [{ name = 'bots', match.header.agent = ['*bot*', 'x'], key = 'everyone', limits = '1/s' },
                 { name = 'others', except.header.agent = 'x', key = 'everyone', limits = '1/s' }]",
    );
    let of = |values: &[(&str, &str)]| names.of(&headers(values)).join(" ");
    assert_eq!(of(&[]), "others");
    assert_eq!(of(&[("agent", "x")]), "bots");
    assert_eq!(of(&[("agent", "x"), ("agent", "y")]), "bots others");
    assert_eq!(of(&[("agent", "y"), ("agent", "x")]), "bots others");
    assert_eq!(of(&[("agent", "x"), ("agent", "x")]), "bots");
    assert_eq!(of(&[("agent", "a bot")]), "bots others");
    assert_eq!(of(&[("agent", "X")]), "others");
}

#[test]
fn an_empty_or_long_value_is_there_only_to_restrict() {
    let names = Names::new(
        "rule = [{ name = 'with', match.header.k = '*', key = 'everyone', limits = '1/s' },
                 { name = 'without', except.header.k = '*', key = 'everyone', limits = '1/s' }]",
    );
    assert_eq!(names.of(&headers(&[])), ["without"]);
    assert_eq!(names.of(&headers(&[("k", "v")])), ["with"]);
    for value in [String::new(), "x".repeat(4097)] {
        assert_eq!(names.of(&headers(&[("k", &value)])), ["with", "without"]);
    }
}

#[test]
fn a_digest_stands_for_its_text() {
    // echo -n secret | sha256sum
    let names = Names::new(
        "rule = [{ name = 'r', key = 'everyone', limits = '1/s', match.header.k =
            'sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b' }]",
    );
    assert_eq!(names.of(&headers(&[("k", "secret")])), ["r"]);
    assert!(names.of(&headers(&[("k", "Secret")])).is_empty());
}

#[test]
fn a_condition_on_nothing_holds_of_nothing() {
    let names = Names::new(
        "lists = { none = [] }
         rule = [{ name = 'a', match.client = '@none', key = 'everyone', limits = '1/s' },
                 { name = 'b', match.path = '@none', key = 'everyone', limits = '1/s' },
                 { name = 'c', match.label.x = '@none', key = 'everyone', limits = '1/s' }]",
    );
    assert!(names.of(&PlainRequest { labels: pairs(&[("x", "")]), ..from("192.0.2.7") }).is_empty());
}

#[test]
fn clients_are_found_by_network() {
    let names = Names::new(
        "rule = [{ name = 'v4', match.client = '192.0.2.0/24', key = 'everyone', limits = '1/s' },
                 { name = 'v6', match.client = '2001:db8::/32', key = 'everyone', limits = '1/s' },
                 { name = 'any', match.client = '*', key = 'everyone', limits = '1/s' }]",
    );
    assert_eq!(names.of(&from("192.0.2.7")), ["v4", "any"]);
    assert_eq!(names.of(&from("::ffff:192.0.2.7")), ["v4", "any"]);
    assert_eq!(names.of(&from("2001:db8::7")), ["v6", "any"]);
    assert!(names.of(&get("/")).is_empty());
}

#[test]
fn paths_that_are_not_folded_are_exact() {
    let names = Names::new(
        "paths.fold = false
         rule = [{ name = 'r', match.path = '/a/{id}', key = ['path', 'path.id'], limits = '1/s' }]",
    );
    assert_eq!(names.key(&get("/a/B")), b"\0\x04/a/B\0\x01B");
    for other in ["/A/b", "/a/b/", "/a//b"] {
        assert!(names.of(&get(other)).is_empty(), "{other}");
    }
    assert_eq!(names.key(&get("/x/../%61/b")), b"\0\x04/a/b\0\x01b");
    assert_eq!(names.of(&get("/x/..%2Fa/b")), ["r"], "dot segments are found all the same");
}

#[test]
fn an_unlimited_rule_is_read_as_the_request_was_sent() {
    let names = Names::new(
        "rule = [{ name = 'free', match.path = '/free', key = 'everyone', limits = 'unlimited' },
                 { name = 'mixed', match.path = '/free', key = 'everyone', limits = 'unlimited',
                   tier = [{ name = 't', match.label.x = 'y', limits = '1/s' }] },
                 { name = 'block', match.path = '/free', key = 'everyone', limits = 'block' }]",
    );
    assert_eq!(names.of(&get("/free")), ["free", "mixed", "block"]);
    assert_eq!(names.of(&get("/Free")), ["mixed", "block"]);
}

#[test]
fn rules_that_are_off_concern_nothing() {
    let names = Names::new(
        "rule = [{ name = 'off', key = 'everyone', limits = '1/s', mode = 'off', replaces = ['on'] },
                 { name = 'on', key = 'everyone', limits = '1/s' }]",
    );
    assert_eq!(names.of(&get("/")), ["on"]);
}

#[test]
fn the_most_specific_pattern_is_the_route() {
    let names = Names::new(
        "rule = [{ name = 'r', match.path = ['/**', '/a/*', '/a/b', '/a/{id}/c'], key = 'route', limits = '1/s' }]",
    );
    for (target, route) in [("/A/B", "/a/b"), ("/a/x", "/a/*"), ("/a/x/c", "/a/{id}/c"), ("/z", "/**")] {
        assert_eq!(names.key(&get(target)), route.as_bytes());
    }
}
