//! What only the rules of a program have: limits that come with requests, and limits of a store
//! that the program asks.

use std::net::IpAddr;
use std::time::Duration;

use tollgate::{CallQuota, ManualClock, Outcome, Rate, WhenFull};
use tollgate_rules::{
    Ask, AskRule, AskRuleError, Attribute, Cause, Condition, Conditions, Cost, ExchangeError, Field, Key,
    Limit, Limits, LiveRules, Origin, Request, Rule, RuleSet, Rules, Ruling, Scratch, StoreReply, Tier,
    Values,
};

const SECOND: Duration = Duration::from_secs(1);

/// A request of a user, with a burst that is won back in an hour each.
#[derive(Clone, Copy)]
struct Call {
    user: &'static str,
    burst: Option<u64>,
    tier: &'static str,
}

impl Request for Call {
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8])) {
        match field {
            Field::Label("user") => see(self.user.as_bytes()),
            Field::Label("tier") => see(self.tier.as_bytes()),
            _ => {}
        }
    }

    fn client(&self) -> Option<IpAddr> {
        None
    }

    fn quota(&self, rule: &str) -> Option<CallQuota> {
        assert_eq!(rule, "plan");
        CallQuota::new(Rate::per_hour(1), self.burst?).ok()
    }
}

fn call(user: &'static str, burst: impl Into<Option<u64>>) -> Call {
    Call { user, burst: burst.into(), tier: "" }
}

fn by_user(name: &str, limits: Limits) -> Rule {
    Rule::new(name, Key::Attributes(vec![Attribute::Label("user".into())]), limits)
}

fn each(quota: &str) -> Limits {
    Limits::Each(vec![Limit::Quota(quota.parse().unwrap())])
}

fn plan() -> Rule {
    by_user("plan", Limits::PerRequest)
}

fn set(rules: Vec<Rule>) -> RuleSet<ManualClock> {
    RuleSet::new(Rules::of(rules), ManualClock::new()).unwrap()
}

fn admits(set: &RuleSet<ManualClock>, request: Call) -> bool {
    set.check(&request, &mut Scratch::default()).is_admitted()
}

#[test]
fn a_request_is_limited_by_the_quota_that_it_brings() {
    let set = set(vec![plan()]);
    assert!(admits(&set, call("ada", 2)) && admits(&set, call("ada", 2)));
    assert!(!admits(&set, call("ada", 2)) && admits(&set, call("bob", 2)));
    // Its debt stays under another quota, and without one the rule does not concern it.
    assert!(admits(&set, call("ada", 3)) && !admits(&set, call("ada", 3)));
    assert!(set.check(&call("ada", None), &mut Scratch::default()).is_unmatched());
}

#[test]
fn a_quota_of_the_request_is_charged_all_or_nothing() {
    for first in [true, false] {
        let all = by_user("all", each("fixed-window:3/d"));
        let set = set(if first { vec![all, plan()] } else { vec![plan(), all] });
        let mut scratch = Scratch::default();
        let mut left = || {
            let ask = Ask { cost: 0, is_peek: true, ..Ask::default() };
            let verdict = set.ask(&call("ada", 2), ask, &mut scratch);
            let mut left: Vec<u64> = verdict.lines().iter().map(|line| line.remaining).collect();
            if first {
                left.reverse()
            }
            left
        };
        assert!(admits(&set, call("ada", 2)) && admits(&set, call("ada", 2)));
        assert!(!admits(&set, call("ada", 2)), "its own is spent");
        assert_eq!(left(), [0, 1]);
        assert!(admits(&set, call("ada", 4)), "the last of all");
        assert!(!admits(&set, call("ada", 9)));
        assert!(!admits(&set, call("ada", 9)), "it was charged to none");
        // What was charged comes back.
        let other = call("bob", 2);
        let mut scratch = Scratch::default();
        let ticket = set.check(&other, &mut scratch).ticket();
        assert!(admits(&set, other) && !admits(&set, other));
        ticket.cancel();
        assert!(admits(&set, other) && !admits(&set, other));
    }
}

#[test]
fn debts_of_quotas_of_requests_stay_over_an_exchange() {
    let clock = ManualClock::new();
    let origin = || Origin { hash: [0; 32], text: Some(b"plan"[..].into()) };
    let live = LiveRules::new(Rules::of(vec![plan()]), origin(), clock.clone()).unwrap();
    let mut handle = live.handle();
    let mut asks = |burst| handle.check(&call("ada", burst), &mut Scratch::default()).is_admitted();
    assert!(asks(1) && !asks(1));
    live.exchange(Rules::of(vec![plan()]), origin()).unwrap();
    assert!(!asks(1), "the debt stays");
    // Its debts have no meaning under limits of the rule's own.
    let error = live.exchange(Rules::of(vec![by_user("plan", each("1/h"))]), origin()).unwrap_err();
    let ExchangeError::Forgets(conflicts) = error else { panic!("{error}") };
    assert!(matches!(conflicts[0].cause, Cause::Limit(_)) && conflicts[0].keys_in_debt == 1);
    let mut other = plan();
    other.when_full = WhenFull::Deny;
    let error = live.exchange(Rules::of(vec![other]), origin()).unwrap_err();
    let ExchangeError::Forgets(conflicts) = error else { panic!("{error}") };
    assert_eq!(conflicts[0].cause, Cause::WhenFull);

    let mut file = Vec::new();
    assert_eq!(live.save(&mut file).unwrap(), 0);
    let read = |_: &[u8]| Ok(Rules::of(vec![plan()]));
    let (live, forgotten) = LiveRules::restore(&file[..], clock, read).unwrap();
    assert!(forgotten.is_empty());
    assert!(live.handle().check(&call("ada", 1), &mut Scratch::default()).is_admitted());
}

#[test]
fn quotas_that_come_with_requests_are_not_asked_by_name() {
    let set = set(vec![plan()]);
    let ask = AskRule { name: "plan", key: &[b"ada"], cost: None, is_peek: false };
    assert_eq!(set.ask_rule(ask, &mut Scratch::default()).unwrap_err(), AskRuleError::PerRequest);
    assert!(set.key_at(0, None, b"ada").is_none());
}

#[test]
fn a_limit_elsewhere_decides_by_its_answer() {
    let set = set(vec![by_user("there", Limits::Elsewhere), by_user("here", each("fixed-window:2/d"))]);
    let (request, mut scratch) = (call("ada", None), Scratch::default());
    for (outcome, retry_after) in [(Outcome::Allowed, None), (Outcome::Denied, Some(SECOND))] {
        let verdict = set.check(&request, &mut scratch);
        assert_eq!(verdict.outcome(), Ruling::Unavailable, "it is charged nothing unasked");
        let mut asks = verdict.unasked();
        drop(verdict);
        assert_eq!((asks.len(), asks[0].rule(), asks[0].key()), (1, 0, &b"ada"[..]));
        let said = StoreReply::new(outcome, 9, 4, SECOND);
        let mut answers = vec![asks.remove(0).answer(said, None)];
        let verdict = set.ask_answered(&request, Ask::default(), &mut answers, &mut scratch);
        assert_eq!((verdict.is_admitted(), verdict.retry_after()), (retry_after.is_none(), retry_after));
        assert_eq!(verdict.lines().iter().map(|line| line.remaining).collect::<Vec<_>>(), [4, 1]);
    }
    let mut asks = set.check(&request, &mut scratch).unasked();
    let mut answers = vec![asks.remove(0).unavailable(None)];
    let verdict = set.ask_answered(&request, Ask::default(), &mut answers, &mut scratch);
    assert_eq!((verdict.outcome(), verdict.retry_after()), (Ruling::Unavailable, None));
}

#[test]
fn a_label_names_the_tier_before_conditions_do() {
    let label = |name: &str| Attribute::Label(name.into());
    let any = Values { any: true, ..Values::default() };
    let tier = |name: &str, applies: Vec<Conditions>, limits| Tier {
        name: name.into(),
        applies,
        limits,
        max_keys: Some(1),
    };
    let mut rule = by_user("all", each("5/h,burst=5"));
    let always = vec![Conditions(vec![Condition { attribute: label("user"), values: any }])];
    rule.tiers = vec![tier("1", always, each("2/h,burst=2")), tier("own", Vec::new(), each("7/h,burst=7"))];
    rule.tier_named_by = Some(label("tier"));
    rule.max_keys = Some(64);
    let sets = set(vec![rule.clone()]);
    let tier_of = |tier| {
        let request = Call { tier, ..call("ada", None) };
        let mut scratch = Scratch::default();
        let verdict = sets.check(&request, &mut scratch);
        (verdict.lines()[0].tier, verdict.lines()[0].remaining)
    };
    assert_eq!([tier_of("own"), tier_of("unknown")], [(Some(1), 6), (Some(0), 1)]);
    assert_eq!(sets.usage(0).map(|usage| usage.max_keys), Some(64 + 1 + 1));
    // A client must not choose its limits.
    rule.tier_named_by = Some(Attribute::Header("tier".into()));
    assert!(RuleSet::new(Rules::of(vec![rule]), ManualClock::new()).is_err());
}

#[test]
fn a_response_settles_each_rule_by_itself() {
    let costed = |name: &str| {
        let mut rule = by_user(name, each("100/h,burst=100"));
        rule.cost = Cost::From { attribute: Attribute::Label("cost".into()), default: 10 };
        rule
    };
    let set = set(vec![costed("back"), costed("more"), costed("less"), by_user("kept", each("9/h,burst=9"))]);
    let (request, mut scratch) = (call("ada", None), Scratch::default());
    let mut ticket = set.check(&request, &mut scratch).ticket();
    ticket.settle_each(|rule| [Some(0), Some(25), Some(4), None][rule]);
    assert!(ticket.is_empty());
    let ask = Ask { cost: 0, is_peek: true, ..Ask::default() };
    let verdict = set.ask(&request, ask, &mut scratch);
    assert_eq!(verdict.lines()[3].remaining, 8);
    drop(verdict);
    let left = |rule| set.key_at(rule, None, b"ada").unwrap().peek(0).remaining;
    assert_eq!([left(0), left(1), left(2), left(3)], [100, 75, 96, 8]);
    // A ticket of some rules keeps what the others have charged.
    let ticket = set.check(&request, &mut scratch).ticket_of(|rule| rule == 0);
    ticket.cancel();
    assert_eq!([left(0), left(1), left(2), left(3)], [100, 65, 86, 7]);
}
