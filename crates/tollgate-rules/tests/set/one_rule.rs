//! One rule asked by its name, without a request.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tollgate::ManualClock;
use tollgate_rules::{AskRule, AskRuleError, LiveRules, PlainRequest, Ruling, Scratch};

use super::{Desk, from, header, rules};

fn one<'r>(name: &'r str, key: &'r [u8]) -> AskRule<'r> {
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
    assert_eq!(desk.one(one("keys", b"ada")), Ok((ADMITTED, 3)));
    assert_eq!(desk.one(one("keys", b"bob")), Ok((ADMITTED, 4)));
    assert_eq!(desk.one(one("clients", b"203.0.113.9")), Ok((ADMITTED, 3)));
    assert_eq!(desk.one(one("clients", b"::ffff:203.0.113.9")), Ok((ADMITTED, 2)));
    assert_eq!(desk.one(one("all", b"any")), Ok((ADMITTED, 3)));
    assert_eq!(desk.one(one("all", b"")), Ok((ADMITTED, 2)));
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
        let error = desk.one(one("clients", key)).unwrap_err();
        assert_eq!(error, AskRuleError::NoAddress { key: shown.into() });
        assert_eq!(error.to_string(), format!("{shown:?} is no IP address, which the rule's key is"));
    }
    assert_eq!(desk.one(one("clients", b"203.0.113.9")), Ok((ADMITTED, 4)));
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
    assert_eq!((desk.one(one("off", b"k")), desk.one(one("none", b"k"))), (absent.clone(), absent));
    assert_eq!([0; 2].map(|_| desk.one(one("tried", b"k")).unwrap().0), [ADMITTED; 2]);
    assert_eq!([0; 2].map(|_| desk.one(one("banned", b"k")).unwrap().0), [ADMITTED, Ruling::Refused]);
    desk.at(3_599.0);
    assert_eq!(desk.one(one("banned", b"k")).unwrap().0, Ruling::Refused);
    {
        let held = desk.set.ask_rule(one("places", b"k"), &mut desk.scratch).unwrap();
        assert!(held.is_admitted());
    }
    assert_eq!(desk.one(one("places", b"k")).unwrap().0, ADMITTED, "the verdict gave its place back");
    let peek = AskRule { is_peek: true, ..one("costly", b"k") };
    assert_eq!(desk.one(peek), Ok((ADMITTED, 3)));
    assert_eq!(desk.one(one("costly", b"k")), Ok((ADMITTED, 3)));
    assert_eq!(desk.one(AskRule { cost: Some(1), ..one("costly", b"k") }), Ok((ADMITTED, 2)));
    assert_eq!(desk.one(AskRule { cost: Some(0), ..one("costly", b"k") }), Ok((ADMITTED, 2)));
    assert_eq!(desk.one(one("costly", b"k")), Ok((Ruling::Refused, 2)));
    assert_eq!(desk.one(AskRule { cost: Some(7), ..one("costly", b"k") }), Ok((Ruling::Never, 2)));
    assert_eq!(desk.one(one("strict", b"")).unwrap().0, Ruling::NoKey);
    assert_eq!(desk.one(one("lax", b"")), Ok((ADMITTED, u64::MAX)));
    assert_eq!(desk.one(one("narrow", b"k")), Ok((ADMITTED, 0)), "no path is asked for");
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
                let verdict = handle.ask_rule(one("all", b""), &mut scratch).unwrap();
                admitted += u32::from(verdict.is_admitted());
            }
            admitted
        });
        for round in 0..200_u32 {
            live.reload(rules(&text(1_000_000_000 + round % 2)), [round as u8; 32]).unwrap();
        }
        is_over.store(true, Relaxed);
        asking.join().unwrap()
    });
    // What an exchange overtook was given back: nothing is lost, and nothing admitted beyond.
    let (mut handle, mut scratch) = (live.handle(), Scratch::default());
    let look = handle.ask_rule(AskRule { cost: Some(0), ..one("all", b"") }, &mut scratch).unwrap();
    let left = look.lines()[0].remaining as u32;
    assert_eq!(admitted + left, 1_000_000_001);
    assert!(admitted > 0);
}
