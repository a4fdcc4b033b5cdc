//! Rules that are exchanged while requests are decided.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{
    Ask, Cause, ExchangeError, Handle, Limit, Limits, LiveRules, PlainRequest, RuleSet, Scratch, SetError,
};

use crate::{X, Y, from, rules};

struct Live {
    live: LiveRules<ManualClock>,
    handle: Handle<ManualClock>,
    clock: ManualClock,
    scratch: Scratch,
}

impl Live {
    fn new(text: &str) -> Self {
        let clock = ManualClock::new();
        let live = LiveRules::new(rules(text), [0; 32], clock.clone()).unwrap();
        Self { handle: live.handle(), live, clock, scratch: Scratch::default() }
    }

    fn reload(&self, text: &str) -> Result<u64, ExchangeError> {
        self.live.exchange(rules(text), [1; 32])
    }

    fn spend(&mut self, client: &str, units: u64) -> bool {
        let ask = Ask { cost: units, ..Ask::default() };
        self.handle.ask(&from(client), ask, &mut self.scratch).is_admitted()
    }

    fn left(&mut self, client: &str) -> Vec<u64> {
        let ask = Ask { cost: 0, is_peek: true, ..Ask::default() };
        let verdict = self.handle.ask(&from(client), ask, &mut self.scratch);
        verdict.lines().iter().map(|line| line.remaining).collect()
    }
}

/// Rules with one that is called `r`.
fn r(fields: &str) -> String {
    format!("rule = [{{ name = 'r', key = 'client', {fields} }}]")
}

fn conflict(error: Result<u64, ExchangeError>) -> (Cause, usize) {
    let Err(ExchangeError::Forgets(conflicts)) = error else { panic!("{error:?}") };
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    (conflicts[0].cause.clone(), conflicts[0].keys_in_debt)
}

/// Two rules of the old file become one: it can keep one state only.
#[test]
fn a_rule_may_not_lose_its_state_for_another_one() {
    let one = |name: &str, more: &str| {
        format!("{{ name = '{name}', key = 'client', limits = '10/d,burst=10'{more} }}")
    };
    let mut live = Live::new(&format!("rule = [{}, {}]", one("q", ""), one("r", "")));
    assert!(live.spend(X, 4));
    assert_eq!(live.left(X), [6, 6]);
    let merged = |more: &str| format!("rule = [{}]", one("q", &format!(", was = 'r'{more}")));
    assert_eq!(conflict(live.reload(&merged(""))), (Cause::Displaced { was: "r".into() }, 1));
    assert_eq!(live.left(X), [6, 6]);
    live.reload(&merged(", forget = true")).unwrap();
    assert_eq!(live.left(X), [6]);
}

/// A key that only a ban holds is a debt, too.
#[test]
fn banned_keys_count_among_those_that_a_reload_would_forget() {
    let mut live = Live::new(&r("limits = '1/s,burst=1', ban = '1h'"));
    assert!(live.spend(X, 1) && !live.spend(X, 1));
    live.clock.advance(Duration::from_secs(60));
    let other = "rule = [{ name = 'r', key = 'host', limits = '1/s,burst=1', ban = '1h' }]";
    assert_eq!(conflict(live.reload(other)), (Cause::Key, 1));
}

#[test]
fn a_reload_keeps_what_is_owed() {
    let mut live = Live::new(&r("limits = '10/s,burst=10'"));
    assert!(live.spend(X, 8));
    assert_eq!(live.reload(&r("limits = '20/s,burst=20'")).unwrap(), 2);
    assert_eq!(live.left(X), [12]);
    let mut live = Live::new(&r("limits = '10/s,burst=10'"));
    assert!(live.spend(X, 8));
    live.reload(&r("limits = '5/s,burst=5'")).unwrap();
    assert_eq!(live.left(X), [0]);
    assert_eq!(live.left(Y), [5]);
}

#[test]
fn all_keys_of_a_rule_are_forgiven_at_once() {
    let tier = "tier = [{ name = 'gold', match.client = '203.0.113.0/24', limits = '10/s,burst=10' }]";
    let mut live = Live::new(&r(&format!("limits = '10/s,burst=10', {tier}")));
    let (own, gold) = ("198.51.100.7", "203.0.113.77");
    assert!(live.spend(own, 8) && live.spend(gold, 8));
    assert!(live.live.forgive(0, None).unwrap());
    assert_eq!([live.left(own), live.left(gold)], [[10], [2]]);
    assert!(live.live.forgive(0, Some(0)).unwrap());
    assert_eq!(live.left(gold), [10]);
    assert_eq!([live.live.forgive(0, Some(1)), live.live.forgive(1, None)], [Ok(false), Ok(false)]);
}

/// The debts last longer than all changes together, so that a limit has no room left for one more.
#[test]
fn a_reload_near_the_last_change_is_taken_back_whole() {
    let text = |first: u32, second: u32| {
        format!(
            "rule = [{{ name = 'a', key = 'client', limits = '1/d,burst={first}' }},
                     {{ name = 'b', key = 'client', limits = '1/d,burst={second}' }}]"
        )
    };
    let mut live = Live::new(&text(100, 100));
    assert!(live.spend(X, 90));
    // The second has one change more, that takes nearly as much room as a last one.
    live.reload(&text(100, 450)).unwrap();
    let mut generation = 2;
    let refused = (102..2_000).find_map(|burst| {
        let before = live.left(X);
        let error = live.reload(&text(burst, burst)).err();
        generation += u64::from(error.is_none());
        error.map(|error| (error, before, burst))
    });
    let (error, before, burst) = refused.expect("changes are not without end");
    assert!(matches!(&error, ExchangeError::Change { rule, .. } if &**rule == "b"), "{error}");
    assert!(generation > 100, "{generation}");
    assert_eq!((live.left(X), live.live.status().generation), (before.clone(), generation));
    // It is tried again and again, which takes no room from the first.
    assert!((0..9).all(|_| live.reload(&text(burst, burst)).is_err()));
    live.reload(&text(99, burst - 1)).unwrap();
    assert_eq!(live.left(X), [9, before[1]]);
    assert!(!live.spend(X, 10) && live.spend(X, 9));
}

#[test]
fn other_fields_leave_the_state_as_it_is() {
    let mut live = Live::new(&r("limits = '10/d', mode = 'shadow'"));
    assert!(live.spend(X, 8));
    for fields in [
        "limits = '10/d'",
        "limits = '10/d', except.path = '/x'",
        "limits = '10/d', charge_if.status = [401]",
        "limits = '10/d', ban = '1h'",
        "limits = 'unlimited'",
        "limits = 'block'",
        "limits = '10/d'",
    ] {
        live.reload(&r(fields)).unwrap();
    }
    assert_eq!(live.left(X), [2]);
    assert_eq!(live.live.status().generation, 8);
}

#[test]
fn an_unlimited_rule_asks_no_limit_and_no_ban() {
    let other = "{ name = 'other', key = 'client', limits = '5/d' }]";
    let text = |limits: &str| r(&format!("limits = '{limits}'")).replace(']', &format!(", {other}"));
    let mut live = Live::new(&text("3/d"));
    assert!(live.spend(X, 3) && !live.spend(X, 1));
    live.reload(&text("unlimited")).unwrap();
    assert_eq!(live.left(X), [u64::MAX, 2]);
    assert!(live.spend(X, 2) && !live.spend(X, 1));
    let verdict = live.handle.check(&from(X), &mut live.scratch);
    assert_eq!(verdict.lines()[0].remaining, u64::MAX);

    let tier = String::from("[[rule.tier]]\nname = 't'\nmatch.path = '/t'\nlimits = 'unlimited'\n");
    let mut live =
        Live::new(&format!("[[rule]]\nname = 'r'\nkey = 'client'\nlimits = '1/d'\nban = '1d'\n{tier}"));
    assert!(live.spend(X, 1) && !live.spend(X, 1));
    assert!(live.handle.check(&crate::get("/t"), &mut live.scratch).is_admitted());
}

#[test]
fn a_renamed_rule_keeps_its_state_if_it_says_so() {
    let mut live = Live::new(&r("limits = '10/d'"));
    assert!(live.spend(X, 8));
    let renamed =
        |fields: &str| format!("rule = [{{ name = 'q', key = 'client', limits = '10/d' {fields} }}]");
    assert_eq!(conflict(live.reload(&renamed(""))), (Cause::Renamed { was: "r".into() }, 1));
    live.reload(&renamed(", was = 'r'")).unwrap();
    assert_eq!(live.left(X), [2]);
    live.reload(&renamed(", was = 'r'")).unwrap();
    live.reload(&renamed("")).unwrap();
    assert_eq!(live.left(X), [2]);
    live.reload(&r("limits = '10/d', forget = true")).unwrap();
    assert_eq!(live.left(X), [10]);
}

const OTHER: &str = "rule = [{ name = 'other', key = 'client', limits = '5/d' }]";

#[test]
fn a_rule_put_back_has_forgotten_nothing() {
    let mut live = Live::new(&r("limits = '10/d', ban = '1d'"));
    assert!(live.spend(X, 8) && live.spend(Y, 10) && !live.spend(Y, 1));
    live.reload(OTHER).unwrap();
    assert_eq!(live.left(X), [5]);
    // Broken rules, and others, in between.
    live.reload(&r("limits = 'sliding-log:10/d'")).unwrap_err();
    live.reload(&OTHER.replace('5', "6")).unwrap();
    live.clock.advance(Duration::from_secs(3_599));
    assert_eq!(conflict(live.reload(&r("limits = 'sliding-log:10/d'"))).1, 2);
    assert_eq!(conflict(live.reload(&r("limits = '10/d'").replace("'client'", "'everyone'"))).0, Cause::Key);
    live.reload(&r("limits = '20/d', ban = '1d'")).unwrap();
    // In the hour less than half a unit has come back.
    assert_eq!(live.left(X), [12]);
    assert!(!live.spend(Y, 1), "it is banned");

    live.reload(OTHER).unwrap();
    live.reload("rule = [{ name = 'q', was = 'r', key = 'client', limits = '20/d' }]").unwrap();
    assert_eq!(live.left(X), [12]);
    live.reload(OTHER).unwrap();
    live.reload(&r("limits = '20/d'")).unwrap();
    assert_eq!(live.left(X), [20], "it is `q` that is gone");
}

#[test]
fn a_rule_put_back_knows_its_places_in_flight() {
    let mut live = Live::new(&r("limits = 'in-flight:1'"));
    let held = live.handle.check(&from(X), &mut live.scratch).ticket();
    live.reload(OTHER).unwrap();
    live.reload(&r("limits = 'in-flight:1'")).unwrap();
    assert_eq!(live.left(X), [0]);
    drop(held);
    assert_eq!(live.left(X), [1]);
}

#[test]
fn a_rule_is_forgotten_an_hour_after_it_went() {
    let mut live = Live::new(&r("limits = '10/d'"));
    assert!(live.spend(X, 8));
    live.reload(OTHER).unwrap();
    live.clock.advance(Duration::from_secs(3_600));
    live.reload(&r("limits = 'sliding-log:10/d'")).unwrap();
    assert_eq!(live.left(X), [10]);
}

#[test]
fn rules_that_went_first_are_forgotten_first() {
    let names = |numbers: std::ops::Range<usize>| {
        let rule = |n| format!("{{ name = 'r{n}', key = 'client', limits = 'fixed-window:{}/d' }}", n + 10);
        format!("rule = [{}]", numbers.map(rule).collect::<Vec<_>>().join(", "))
    };
    let mut live = Live::new(&names(0..66));
    assert!(live.spend(X, 1));
    // Those without debts make room before any that has some.
    let idle: Vec<String> =
        (0..70).map(|n| format!("{{ name = 'idle{n}', key = 'everyone', limits = '1/s' }}")).collect();
    live.reload(&names(1..66).replace('[', &format!("[{}, ", idle.join(", ")))).unwrap();
    live.reload(&names(2..66)).unwrap();
    live.reload(&names(0..66)).unwrap();
    assert_eq!(live.left(X)[..3], [9, 10, 11]);
    live.reload(&names(65..66)).unwrap();
    live.reload(&names(0..66)).unwrap();
    assert_eq!(live.left(X)[..3], [10, 10, 11], "65 went at once");
}

#[test]
fn rules_beyond_the_memory_budget_do_not_come_into_force() {
    let mut live = Live::new(&r("limits = '10/d'"));
    assert!(live.spend(X, 8));
    let mut large = rules(&r("limits = '10/d'"));
    let one = large.rules[0].clone();
    large.rules.extend((0..600).map(|number| {
        let mut rule = one.clone();
        rule.name = format!("r{number}").into();
        rule.max_keys = Some(if number == 7 { 100_000 } else { 65_536 });
        rule
    }));
    let over = |error: &SetError| {
        let SetError::OverBudget { needed, budget, largest, .. } = error else { panic!("{error}") };
        assert_eq!((*needed, *budget, &**largest), (602 << 21, 1 << 30, "r7"));
    };
    let Err(ExchangeError::Set(error)) = live.live.exchange(large.clone(), [1; 32]) else {
        panic!("in force")
    };
    over(&error);
    assert_eq!((live.left(X), live.live.status().generation), (vec![2], 1));
    over(&RuleSet::new(large.clone(), live.clock.clone()).unwrap_err());
    large.memory_budget = 602 << 21;
    assert_eq!(live.live.exchange(large, [1; 32]).unwrap(), 2);
    assert_eq!(live.left(X)[..2], [2, 10]);
}

#[test]
fn rules_that_are_gone_take_a_tenth_of_the_budget() {
    // 6,500 keys take all of their table, 256 KiB: a tenth of 4 MiB has room for one of them.
    let text = |names: &[&str], mib: u64| {
        let rule = |name: &&str| {
            format!("{{ name = '{name}', key = 'client', max_keys = 8000, limits = 'fixed-window:9/d' }}")
        };
        let rules = names.iter().map(rule).collect::<Vec<_>>().join(", ");
        format!("memory_budget_mib = {mib}\nrule = [{rules}]")
    };
    let all = ["a", "b", "c", "d"];
    for (mib, left) in [(100, [8, 8, 8, 8]), (4, [9, 9, 8, 8])] {
        let mut live = Live::new(&text(&all, mib));
        for client in 0..6_500_u32 {
            let [_, b, c, d] = client.to_be_bytes();
            assert!(live.spend(&format!("10.{b}.{c}.{d}"), 1));
        }
        // The longest gone is the first that is forgotten; `d` stays in force.
        for gone in 1..4 {
            live.reload(&text(&all[gone..], mib)).unwrap();
        }
        live.reload(&text(&all, mib)).unwrap();
        assert_eq!(live.left("10.0.0.1"), left, "{mib} MiB");
    }
}

#[test]
fn a_name_that_is_used_again_keeps_its_own_state() {
    let text = |rules: &str| format!("rule = [{rules}]");
    let (r, q) = ("{ name = 'r', key = 'client', limits = '10/d' }", "key = 'client', limits = '9/d' }");
    let mut live = Live::new(&text(r));
    assert!(live.spend(X, 8));
    let renamed = format!("{{ name = 'q', was = 'r', {q}");
    live.reload(&text(&renamed)).unwrap();
    assert_eq!(live.left(X), [1]);
    // Another `r`, which goes again.
    live.reload(&text(&format!("{{ name = 'q', {q}, {r}"))).unwrap();
    assert_eq!(live.left(X), [1, 10]);
    live.reload(&text(&format!("{{ name = 'q', {q}"))).unwrap();
    live.reload(&text(&renamed)).unwrap();
    assert_eq!(live.left(X), [1]);
}

#[test]
fn a_reload_that_would_forget_is_refused() {
    let text = r("limits = '10/d'");
    let mut live = Live::new(&text);
    for client in [X, Y, "192.0.2.1"] {
        assert!(live.spend(client, 8));
    }
    let limit = |fields: &str| conflict(live.reload(&r(fields)));
    assert!(matches!(limit("limits = 'sliding-log:10/d'"), (Cause::Limit(_), 3)));
    // Advice for a rules file, not for a program that builds limiters.
    let error = live.reload(&r("limits = 'sliding-log:10/d'")).unwrap_err();
    let expected = "rule `r`: its keys' debts cannot be read under another algorithm: keep the algorithm, or give \
        the rule another name; 3 keys owe, which the change would forget (forget = true beside the rule allows it)";
    assert_eq!(error.to_string(), expected);
    assert_eq!(limit("limits = ['10/d', '1/s']"), (Cause::NumberOfLimits, 3));
    assert_eq!(limit("limits = '10/d', max_keys = 5000"), (Cause::MaxKeys, 3));
    assert_eq!(conflict(live.reload(&text.replace("'client'", "'everyone'"))), (Cause::Key, 3));
    let error = live.reload(&text.replace("'client'", "'everyone'")).unwrap_err();
    let expected = "rule `r`: its key changed; 3 keys owe, which the change would forget \
        (forget = true beside the rule allows it)";
    assert_eq!(error.to_string(), expected);
    assert_eq!((live.left(X), live.live.status().generation), (vec![2], 1));

    live.reload(&r("limits = 'sliding-log:10/d', forget = true")).unwrap();
    assert_eq!(live.left(X), [10]);
    // A log's ring never grows, and its period is how long it looks back.
    for fields in ["limits = 'sliding-log:11/d'", "limits = 'sliding-log:10/h'"] {
        assert!(matches!(conflict(live.reload(&r(fields))), (Cause::Limit(_), 0)));
    }
    live.reload(&r("limits = 'sliding-log:9/d'")).unwrap();
    live.reload(&r("limits = 'sliding-log:10/d'")).unwrap();
}

#[test]
fn a_change_refused_without_debts_says_why() {
    let live = Live::new(&r("limits = '10/d'"));
    let error = live.reload(&r("limits = '10/d'").replace("'client'", "'everyone'")).unwrap_err();
    let expected = "rule `r`: its key changed; no key owes now, but a debt made until the exchange \
        would be forgotten (forget = true beside the rule allows it)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn tiers_keep_their_state_by_name() {
    let tier = |name: &str| {
        format!(
            "[[rule]]\nname = 'r'\nkey = 'client'\nlimits = '10/d'\n\
             [[rule.tier]]\nname = '{name}'\nmatch.client = '{X}'\nlimits = '100/d'\n"
        )
    };
    let mut live = Live::new(&tier("pro"));
    assert!(live.spend(X, 30));
    assert_eq!(conflict(live.reload(&r("limits = '10/d'"))), (Cause::TierRemoved, 1));
    live.reload(&tier("pro").replace("100/d", "200/d")).unwrap();
    assert_eq!(live.left(X), [170]);
}

#[test]
fn places_in_flight_and_bans_outlive_a_reload() {
    let mut live = Live::new(&r("limits = 'in-flight:1'"));
    let held = live.handle.check(&from(X), &mut live.scratch).ticket();
    live.reload(&r("limits = 'in-flight:2'")).unwrap();
    assert_eq!(live.left(X), [1]);
    drop(held);
    assert_eq!(live.left(X), [2]);

    let mut live = Live::new(&r("limits = 'fixed-window:1/s', ban = '10min'"));
    assert!(live.spend(X, 1) && !live.spend(X, 1));
    live.reload(&r("limits = 'fixed-window:2/s', ban = '20min'")).unwrap();
    live.clock.advance(Duration::from_secs(300));
    assert!(!live.spend(X, 1));
}

/// Three rules whose limits all tell the generation.
fn of_generation(number: u64, is_forgetful: bool) -> String {
    let rule = |name: &str, key: &str| {
        let algorithm = if is_forgetful { "sliding-log" } else { "token-bucket" };
        let limit = if is_forgetful { 10 } else { 1_000_000 + number };
        format!("{{ name = '{name}', key = '{key}', limits = '{algorithm}:{limit}/s' }}")
    };
    format!("rule = [{}, {}, {}]", rule("a", "everyone"), rule("b", "client"), rule("c", "method"))
}

/// The memory of this process that is in use, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let resident = pages.and_then(|pages| pages.split(' ').nth(1)?.parse::<u64>().ok());
    resident.unwrap_or(0) * 4096
}

/// Ends the threads, also by a panic.
pub(crate) struct Over<'o>(pub(crate) &'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn no_request_is_decided_by_two_generations() {
    const RELOADS: u64 = 1_000;
    if !crate::alone::is_alone("exchange::no_request_is_decided_by_two_generations") {
        return;
    }
    let clock = ManualClock::new();
    let live = LiveRules::new(rules(&of_generation(1, false)), [0; 32], clock.clone()).unwrap();
    let (is_over, decided) = (AtomicBool::new(false), AtomicU64::new(0));
    let in_force = AtomicU64::new(1);
    let mut after_warm_up = 0;
    std::thread::scope(|scope| {
        for thread in 0..2_u8 {
            let (live, is_over, decided) = (&live, &is_over, &decided);
            let in_force = &in_force;
            scope.spawn(move || {
                let (mut handle, mut scratch) = (live.handle(), Scratch::default());
                let request =
                    PlainRequest { client: Some([192, 0, 2, thread].into()), ..PlainRequest::default() };
                while !is_over.load(SeqCst) {
                    let before = in_force.load(SeqCst);
                    let verdict = handle.check(&request, &mut scratch);
                    let limits: Vec<u64> = verdict.lines().iter().map(|line| line.limit).collect();
                    drop(verdict);
                    assert!(
                        limits.len() == 3 && limits.iter().all(|limit| *limit == limits[0]),
                        "{limits:?}"
                    );
                    let number = limits[0] - 1_000_000;
                    let Limits::Each(own) = &handle.rules().rules().rules[0].limits else { unreachable!() };
                    let Limit::Quota(own) = own[0] else { unreachable!() };
                    assert_eq!(own.limit(), limits[0], "the numbers of other rules");
                    assert!(number >= before, "{number} after {before}");
                    decided.fetch_add(1, SeqCst);
                }
            });
        }
        let _over = Over(&is_over);
        let mut number = 1;
        for reload in 1..=RELOADS {
            let is_broken = reload % 10 == 0;
            let text = of_generation(number + 1, is_broken);
            let done = live.exchange(rules(&text), [0; 32]);
            assert_eq!(done.is_err(), is_broken, "{done:?}");
            number += u64::from(!is_broken);
            in_force.store(number, SeqCst);
            assert_eq!(live.status().generation, number);
            // A debt outlives a few changes.
            clock.advance(Duration::from_millis(200));
            if reload == RELOADS / 5 {
                after_warm_up = resident();
            }
        }
    });
    let grown = resident().saturating_sub(after_warm_up);
    assert!(grown < 16 << 20, "{grown} bytes more");
    assert!(decided.load(SeqCst) > RELOADS, "{decided:?} requests");
}
