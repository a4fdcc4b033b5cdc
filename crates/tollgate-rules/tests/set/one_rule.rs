//! One rule asked by its name, without a request.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tollgate::ManualClock;
use tollgate_rules::{AskRule, AskRuleError, LiveRules, PlainRequest, Ruling, Scratch};

use super::{Desk, from, header, rules};

fn one<'r>(name: &'r str, key: &'r [&'r [u8]]) -> AskRule<'r> {
    AskRule { name, key, cost: None, is_peek: false }
}

impl Desk {
    /// The rule's answer, and its remaining units.
    fn one(&mut self, ask: AskRule<'_>) -> Result<(Ruling, u64), AskRuleError> {
        let verdict = self.set.ask_rule(ask, &mut self.scratch)?;
        let left = verdict.lines().first().map_or(u64::MAX, |line| line.remaining);
        Ok((verdict.outcome(), left))
    }
}

const ADMITTED: Ruling = Ruling::Admitted;

#[test]
fn a_rule_asked_by_name_counts_with_its_requests() {
    let mut desk = Desk::new(
        "[[rule]]\nname = 'keys'\nkey = 'header.x-key'\nlimits = '5/h'\n\
         [[rule]]\nname = 'clients'\nkey = 'client'\nlimits = '5/h'\n\
         [[rule]]\nname = 'all'\nkey = 'everyone'\nlimits = '5/h'\n",
    );
    let request = PlainRequest { headers: vec![header("x-key", "ada")], ..from("203.0.113.9") };
    assert!(desk.check(&request).is_admitted());
    assert_eq!(desk.one(one("keys", &[b"ada"])), Ok((ADMITTED, 3)));
    assert_eq!(desk.one(one("keys", &[b"bob"])), Ok((ADMITTED, 4)));
    assert_eq!(desk.one(one("clients", &[b"203.0.113.9"])), Ok((ADMITTED, 3)));
    assert_eq!(desk.one(one("clients", &[b"::ffff:203.0.113.9"])), Ok((ADMITTED, 2)));
    assert_eq!(desk.one(one("all", &[b"any"])), Ok((ADMITTED, 3)));
    assert_eq!(desk.one(one("all", &[b""])), Ok((ADMITTED, 2)));
    assert_eq!(desk.left(&request), [3, 2, 2]);
}

#[test]
fn a_client_that_is_no_address_is_an_error() {
    let mut desk = Desk::new("[[rule]]\nname = 'clients'\nkey = 'client'\nlimits = '5/h'\n");
    let long = "x".repeat(100);
    for (key, shown) in [
        (&b"localhost"[..], "localhost"),
        (b"", ""),
        (b" 203.0.113.9", " 203.0.113.9"),
        (b"203.0.113.9:80", "203.0.113.9:80"),
        (b"\xff", "\u{fffd}"),
        (long.as_bytes(), &long[..64]),
    ] {
        let error = desk.one(one("clients", &[key])).unwrap_err();
        assert_eq!(error, AskRuleError::NoAddress { key: shown.into() });
        assert_eq!(error.to_string(), format!("{shown:?} is no IP address, which the rule's key is"));
    }
    assert_eq!(desk.one(one("clients", &[b"203.0.113.9"])), Ok((ADMITTED, 4)));
}

/// Every part that can be given, alone and beside others, in other spellings than the request has.
#[test]
fn a_key_of_given_parts_is_that_of_a_request() {
    let keys = [
        ("['client', 'header.X-Key']", &[&b"::ffff:203.0.113.9"[..], b"ada"][..]),
        ("['header.x-key', 'client']", &[b"ada", b"203.0.113.9"]),
        ("'host'", &[b"SHOP.test.:8080"]),
        ("['method', 'path']", &[b"head", b"/x/..//Login/"]),
        ("['label.user', 'label.plan']", &[b"eve", b"pro"]),
        ("['query.q', 'path']", &[b"a b&c", b"/%6cogin"]),
        ("['cookie.s', 'cookie.t', 'host']", &[b" 1", b"x=y", b"u@shop.test"]),
        ("['domain', 'entry.kind']", &[b"edge", b"slow"]),
    ];
    let rule =
        |number: usize| format!("[[rule]]\nname = 'r{number}'\nkey = {}\nlimits = '9/h'\n", keys[number].0);
    let text: String = (0..keys.len()).map(rule).collect();
    let mut desk = Desk::new(&text);
    let request = PlainRequest {
        method: Some("GET".into()),
        host: Some("shop.test".into()),
        target: Some(b"/login?q=a+b%26c".to_vec()),
        headers: vec![header("x-key", "ada"), header("cookie", "s=1; t=x=y")],
        labels: vec![("user".into(), b"eve".to_vec()), ("plan".into(), b"pro".to_vec())],
        domain: Some("edge".into()),
        entries: vec![("kind".into(), b"slow".to_vec())],
        ..from("203.0.113.9")
    };
    assert!(desk.check(&request).is_admitted());
    for (number, (key, values)) in keys.iter().enumerate() {
        let name = format!("r{number}");
        assert_eq!(desk.one(one(&name, values)), Ok((ADMITTED, 7)), "{key}");
        let mut other = values.to_vec();
        other[0] = if key.starts_with("['client'") { b"203.0.113.8" } else { b"/other" };
        assert_eq!(desk.one(one(&name, &other)), Ok((ADMITTED, 8)), "{key}");
        assert!(desk.one(one(&name, &values[1..])).is_err(), "{key}");
    }
    assert_eq!(desk.left(&request), [7; 8]);
}

#[test]
fn what_no_request_has_is_no_key() {
    let mut desk = Desk::new(
        "[[rule]]\nname = 'pair'\nkey = ['client', 'header.x-key']\nlimits = '5/h'\n\
         [[rule]]\nname = 'page'\nmatch.path = '/a/{page}'\nkey = 'path.page'\nlimits = '5/h'\n\
         [[rule]]\nname = 'route'\nmatch.path = '/a/{page}'\nkey = 'route'\nlimits = '5/h'\n\
         [[rule]]\nname = 'path'\nkey = 'path'\nlimits = '5/h'\n\
         [[rule]]\nname = 'cookie'\nkey = 'cookie.s'\nlimits = '5/h'\n",
    );
    let long = vec![b'x'; 4_097];
    for (name, values, said) in [
        ("pair", &[&b"203.0.113.9"[..]][..], "the rule's key needs a value for each of client, header.x-key"),
        ("pair", &[b"ada", b"203.0.113.9"], "\"ada\" is no IP address, which the rule's key is"),
        ("pair", &[b"203.0.113.9", &long], "no request has this value of client, header.x-key"),
        (
            "page",
            &[b"7"],
            "only a request tells path.page, which is in the rule's key: ask over HTTP or gRPC",
        ),
        (
            "route",
            &[b"/a/{page}"],
            "only a request tells route, which is in the rule's key: ask over HTTP or gRPC",
        ),
        ("path", &[b"/a?b"], "no request has this value of path"),
        ("cookie", &[b"1;s=2"], "no request has this value of cookie.s"),
        ("cookie", &[b"1", b"2"], "the rule's key needs a value for each of cookie.s"),
    ] {
        let error = desk.one(one(name, values)).unwrap_err();
        assert_eq!(error.to_string(), said);
    }
    assert_eq!(desk.one(one("pair", &[b"203.0.113.9", b"ada"])), Ok((ADMITTED, 4)));
}

#[test]
fn a_rule_asked_by_name_keeps_its_disciplines() {
    let mut desk = Desk::new(
        "[[rule]]\nname = 'off'\nmode = 'off'\nkey = 'label.k'\nlimits = '1/h'\n\
         [[rule]]\nname = 'tried'\nmode = 'shadow'\nkey = 'label.k'\nlimits = '1/h'\n\
         [[rule]]\nname = 'banned'\nkey = 'label.k'\nlimits = '1/s'\nban = '1h'\n\
         [[rule]]\nname = 'places'\nkey = 'label.k'\nlimits = 'in-flight:1'\n\
         [[rule]]\nname = 'costly'\nkey = 'label.k'\ncost = 3\nlimits = '6/h'\n\
         [[rule]]\nname = 'strict'\nkey = 'label.k'\nmissing = 'refuse'\nlimits = '1/h'\n\
         [[rule]]\nname = 'lax'\nkey = 'label.k'\nmissing = 'pass'\nlimits = '1/h'\n\
         [[rule]]\nname = 'narrow'\nmatch = { path = '/x' }\nkey = 'label.k'\nlimits = '1/h'\n\
         [[rule]]\nname = 'above'\nreplaces = '*'\nkey = 'label.k'\nlimits = '1/h'\n",
    );
    let absent = Err(AskRuleError::NoRule);
    assert_eq!((desk.one(one("off", &[b"k"])), desk.one(one("none", &[b"k"]))), (absent.clone(), absent));
    assert_eq!([0; 2].map(|_| desk.one(one("tried", &[b"k"])).unwrap().0), [ADMITTED; 2]);
    assert_eq!([0; 2].map(|_| desk.one(one("banned", &[b"k"])).unwrap().0), [ADMITTED, Ruling::Refused]);
    desk.at(3_599.0);
    assert_eq!(desk.one(one("banned", &[b"k"])).unwrap().0, Ruling::Refused);
    {
        let held = desk.set.ask_rule(one("places", &[b"k"]), &mut desk.scratch).unwrap();
        assert!(held.is_admitted());
    }
    assert_eq!(desk.one(one("places", &[b"k"])).unwrap().0, ADMITTED, "the verdict gave its place back");
    let peek = AskRule { is_peek: true, ..one("costly", &[b"k"]) };
    assert_eq!(desk.one(peek), Ok((ADMITTED, 3)));
    assert_eq!(desk.one(one("costly", &[b"k"])), Ok((ADMITTED, 3)));
    assert_eq!(desk.one(AskRule { cost: Some(1), ..one("costly", &[b"k"]) }), Ok((ADMITTED, 2)));
    assert_eq!(desk.one(AskRule { cost: Some(0), ..one("costly", &[b"k"]) }), Ok((ADMITTED, 2)));
    assert_eq!(desk.one(one("costly", &[b"k"])), Ok((Ruling::Refused, 2)));
    assert_eq!(desk.one(AskRule { cost: Some(7), ..one("costly", &[b"k"]) }), Ok((Ruling::Never, 2)));
    assert_eq!(desk.one(one("strict", &[b""])).unwrap().0, Ruling::NoKey);
    assert_eq!(desk.one(one("lax", &[b""])), Ok((ADMITTED, u64::MAX)));
    assert_eq!(desk.one(one("narrow", &[b"k"])), Ok((ADMITTED, 0)), "no path is asked for");
}

#[test]
fn a_rule_asked_by_name_survives_exchanges() {
    let text =
        |most: u32| format!("[[rule]]\nname = 'all'\nkey = 'everyone'\nlimits = 'fixed-window:{most}/h'");
    let live = LiveRules::new(rules(&text(1_000_000_000)), [0; 32], ManualClock::new()).unwrap();
    let is_over = AtomicBool::new(false);
    let admitted = std::thread::scope(|scope| {
        let mut handle = live.handle();
        let is_over = &is_over;
        let asking = scope.spawn(move || {
            let (mut scratch, mut admitted) = (Scratch::default(), 0);
            while !is_over.load(Relaxed) {
                let verdict = handle.ask_rule(one("all", &[b""]), &mut scratch).unwrap();
                admitted += u32::from(verdict.is_admitted());
            }
            admitted
        });
        for round in 0..200_u32 {
            live.exchange(rules(&text(1_000_000_000 + round % 2)), [round as u8; 32]).unwrap();
        }
        is_over.store(true, Relaxed);
        asking.join().unwrap()
    });
    // What an exchange overtook was given back: nothing is lost, and nothing admitted beyond.
    let (mut handle, mut scratch) = (live.handle(), Scratch::default());
    let look = handle.ask_rule(AskRule { cost: Some(0), ..one("all", &[b""]) }, &mut scratch).unwrap();
    let left = look.lines()[0].remaining as u32;
    assert_eq!(admitted + left, 1_000_000_001);
    assert!(admitted > 0);
}
