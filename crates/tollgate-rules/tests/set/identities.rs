//! One identity has one limit, however it is spelled.

use tollgate_rules::AskRule;

use super::*;

/// A request with these headers.
fn with(headers: &[(&str, &str)]) -> PlainRequest {
    PlainRequest { headers: headers.iter().map(|(name, value)| header(name, value)).collect(), ..get("/") }
}

/// How many of these requests a limit of one an hour by this key admits.
fn admitted(key: &str, requests: impl IntoIterator<Item = PlainRequest>) -> usize {
    let mut desk = Desk::new(&format!("rule = [{{ name = 'each', key = '{key}', limits = '1/h' }}]"));
    requests.into_iter().filter(|request| desk.check(request).is_admitted()).count()
}

/// The rules that refuse a request, of two that block: one all that it matches, one all others.
fn refused(condition: &str, request: &PlainRequest) -> (bool, bool) {
    let refuses = |name: &str| {
        let rule = format!("{{ name = 'r', key = 'everyone', limits = 'block', {name}.{condition} }}");
        !Desk::new(&format!("rule = [{rule}]")).check(request).is_admitted()
    };
    (refuses("match"), refuses("except"))
}

/// The 64 ways to write a scheme of six letters, and blanks behind it.
fn bearers() -> Vec<String> {
    let cased = |bits: u32| {
        let letter = |(at, letter): (u32, char)| match bits >> at & 1 {
            1 => letter.to_ascii_uppercase(),
            _ => letter,
        };
        (0..).zip("bearer".chars()).map(letter).collect::<String>()
    };
    let blanks = (1..=21).map(|count| format!("Bearer{}secret", " ".repeat(count)));
    let others = ["Bearer\tsecret", "  bearer secret ", "BEARER \t secret\t"].map(String::from);
    (0..64).map(|bits| cased(bits) + " secret").chain(blanks).chain(others).collect()
}

#[test]
fn credentials_have_one_limit_however_their_scheme_is_spelled() {
    let with = |value: &String| with(&[("Authorization", value.as_str())]);
    assert_eq!(admitted("header.authorization", bearers().iter().map(with)), 1);
    // Other credentials have limits of their own, those without a scheme, too.
    let others = ["Bearer secret", "Bearer Secret", "Basic secret", "secret", "Secret"].map(String::from);
    assert_eq!(admitted("header.Authorization", others.iter().map(with)), 5);
    let long = format!("Bearer{}secret", " ".repeat(4_100));
    assert_eq!(admitted("header.authorization", [&long, &others[0]].map(with)), 1, "cut, then measured");
}

#[test]
fn credentials_that_are_blocked_are_so_in_every_spelling() {
    // echo -n 'Bearer secret' | sha256sum, and with `bearer`
    let digests = [
        "sha256:bffde20413347b7a00e1363de3f97ca69e419dc0aea55f4a4a75018fab3a0e8e",
        "sha256:aa05c62bbf3bb7c5ece3e34d91bf175733a22cca7a2ea584184a7257016ea39c",
    ];
    for wanted in ["Bearer secret", "bearer  secret", "BEAR* secret", "*secret"].iter().chain(&digests) {
        for value in bearers() {
            let (matched, _) = refused(
                &format!("header.authorization = '{wanted}'"),
                &with(&[("authorization", value.as_str())]),
            );
            assert!(matched, "{wanted} {value}");
        }
    }
    for other in ["Bearer Secret", "Bearer secret2", "secret"] {
        let request = with(&[("authorization", other)]);
        assert_eq!(refused("header.authorization = 'Bearer secret'", &request), (false, true), "{other}");
    }
}

#[test]
fn a_key_named_by_a_caller_has_one_spelling() {
    let mut desk = Desk::new("rule = [{ name = 'each', key = 'header.authorization', limits = '1/h' }]");
    let ask = AskRule { name: "each", key: &[b"bearer  t"], cost: None, is_peek: false };
    assert!(desk.set.ask_rule(ask, &mut desk.scratch).unwrap().is_admitted());
    assert!(!desk.check(&with(&[("authorization", "BEARER t")])).is_admitted());
}

#[test]
fn a_header_has_one_limit_however_its_dashes_are_spelled() {
    let names = ["X-Api-Key", "X_Api_Key", "X-Api_Key", "x_api-key", "X.Api.Key", "X!Api*Key"];
    assert_eq!(admitted("header.x-api-key", names.map(|name| with(&[(name, "secret")]))), 1);
    // Both are a header that comes twice, which no client can make its way out.
    let twice = (0..9).map(|number| with(&[("x-api-key", "secret"), ("x_api_key", &number.to_string())]));
    assert_eq!(admitted("header.x-api-key", twice), 1);
    let rule = "rule = [{ name = 'r', key = 'header.x-api-key', missing = 'pass', limits = 'block' }]";
    for name in names {
        let request = with(&[(name, "secret")]);
        assert!(!Desk::new(rule).check(&request).is_admitted(), "{name} is a key");
        let (matched, excepted) = refused("header.x-api-key = 'secret'", &request);
        assert_eq!((matched, excepted), (true, name != "X-Api-Key"), "{name}");
    }
    assert_eq!(refused("header.x-api-key = '*'", &with(&[("x_api_keys", "secret")])), (false, true));
}

/// Spellings of the cookie `abcdef`: any of its letters escaped, as in a URL or in quotes.
fn sessions() -> Vec<String> {
    let escaped = |bits: u32, escape: fn(u8) -> String| {
        let letter = |(at, letter): (u32, u8)| match bits >> at & 1 {
            1 => escape(letter),
            _ => char::from(letter).to_string(),
        };
        (0..).zip(*b"abcdef").map(letter).collect::<String>()
    };
    let percent = |letter| format!("%{letter:02x}");
    let octal = |letter| format!("\\{letter:03o}");
    let each = (0..64).flat_map(|bits| {
        let (url, quoted) = (escaped(bits, percent), escaped(bits, octal));
        [format!("\"{url}\""), format!("\"{quoted}\""), url]
    });
    each.chain([r#""\a\b\c\d\e\f""#, r#""\045\066\061bcdef""#, " abcdef "].map(String::from)).collect()
}

#[test]
fn a_cookie_has_one_limit_however_it_is_escaped() {
    let cookie = |value: &str| with(&[("Cookie", format!("a=1; s={value}; b=2").as_str())]);
    assert_eq!(admitted("cookie.s", sessions().iter().map(|value| cookie(value))), 1);
    // Servers disagree on what a `+` is.
    assert_eq!(admitted("cookie.s", ["a+b", "a%2Bb", "a%20b", "\"a b\""].map(cookie)), 1);
    let long = "%61".repeat(2_000);
    assert_eq!(admitted("cookie.s", [&*"a".repeat(2_000), &long].map(cookie)), 1, "decoded, then measured");
    assert_eq!(admitted("cookie.s", ["abc", "ABC", "abd", "ab", "\"abc", "%2561bc"].map(cookie)), 6);
}

#[test]
fn a_cookie_restricts_in_every_spelling_and_relaxes_in_one() {
    for value in sessions() {
        let request = with(&[("cookie", format!("s={value}").as_str())]);
        let is_plain = value.trim() == "abcdef";
        assert_eq!(refused("cookie.s = 'abcdef'", &request), (true, !is_plain), "{value}");
    }
    let escaped = with(&[("cookie", "s=%61bc")]);
    assert_eq!(refused("cookie.s = '%61bc'", &escaped), (true, true), "some read it decoded");
    let token = |value: &str| refused("cookie.s = 'a+b='", &with(&[("cookie", &format!("s={value}"))]));
    assert_eq!((token("a+b="), token("a%2Bb=")), ((true, false), (true, true)));
    assert_eq!(refused("cookie.s = 'a b'", &with(&[("cookie", "s=a+b")])), (true, true), "as Rack reads it");
}

#[test]
fn a_key_has_the_spelling_that_its_rule_says() {
    for (key, sent) in [
        ("lower(header.x-user)", ["Ada", "ADA", "ada"]),
        ("trim(label.user)", ["ada", " ada", "ada \t"]),
        ("credentials(header.x-user)", ["Token t", "token  t", " TOKEN t"]),
        ("decoded(header.x-user)", ["ada", "%61da", "%61%64%61"]),
        ("lower(decoded(header.x-user))", ["ada", "%41da", "%41DA"]),
        ("trim(decoded(header.x-user))", ["ada", "%20ada", "ada%09"]),
        ("lower(cookie.user)", ["ada", "Ada", "\"%41da\""]),
        ("lower(query.user)", ["ada", "Ada", "%41da"]),
    ] {
        let request = |value: &str| PlainRequest {
            target: Some(format!("/?user={value}").into_bytes()),
            labels: vec![header("user", value)],
            ..with(&[("x-user", value), ("cookie", format!("user={value}").as_str())])
        };
        assert_eq!(admitted(key, sent.map(request)), 1, "{key}");
        assert_eq!(admitted(key, [sent[0], "bob"].map(request)), 2, "{key}");
    }
    let missing = "rule = [{ name = 'r', key = 'trim(header.x)', missing = 'refuse', limits = '9/s' }]";
    assert!(!Desk::new(missing).check(&with(&[("x", " ")])).is_admitted(), "nothing is left");
}

/// Python, PHP and Node skip letters that are no base64.
#[test]
fn a_user_has_one_limit_however_the_base64_is_spelled() {
    let junk = (0..64).map(|number| format!("basic dTpw!MQ==junk{number}"));
    let others =
        ["Basic dTpwMQ==", "Basic dTpwMQ", "Basic dTpwMR==", "BASIC  d.T.p.w.M.Q.=="].map(String::from);
    let with = |value: String| with(&[("authorization", value.as_str())]);
    assert_eq!(admitted("header.authorization", junk.chain(others).map(with)), 1);
    let users = ["Basic dTpwMQ==", "Basic dTpwMg==", "Basic DTpwMQ=="].map(String::from);
    assert_eq!(admitted("header.authorization", users.map(with)), 3);
}
