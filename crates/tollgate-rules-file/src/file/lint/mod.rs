//! Warnings of likely mistakes.
//!
//! A warning is given only where it is certain: what the conditions of two rules leave open
//! (patterns of values, digests, several values of a header) is not found. Nor is anything found
//! any more once comparing rules has taken long.
//!
//! | file | what |
//! |------|------|
//! | `compare` | comparisons of two sets of conditions |
//! | `listener` | what a way of asking cannot keep of rules |

mod compare;
mod listener;

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::{Quota, SlidingWindow};

use super::files::{FileId, Files, Place};
use super::problem::Code;
use super::read::rule::{Placed, memory};
use compare::{Seen, Work};
pub use listener::{Listener, unserved};
use tollgate_rules::{
    Attribute, Condition, Conditions, Cost, Key, Limit, Limits, MissingKey, Mode, Replaces, Rule, Tier,
};

/// The longest fixed window without a warning.
const LONG_WINDOW: Duration = Duration::from_secs(3_600);
/// The most bytes of a log without a warning.
const LARGE_LOG: usize = 1 << 30;

/// Adds the warnings to `files`.
pub(super) fn check(files: &mut Files<'_>, main: FileId, rules: &[Placed]) {
    let work = &mut Work::default();
    for placed in rules {
        if placed.rule.mode != Mode::Off {
            tiers(files, placed, work);
            each_limit(files, placed);
            cost(files, placed);
            costless(files, placed);
            excepted(files, placed, work);
        }
        if placed.rule.forget {
            let message = format!("`{}` may forget debts at each reload", placed.rule.name);
            files.add(
                &placed.field("forget"),
                Code::W8,
                message,
                Some("take it out once the change is in force"),
            );
        }
    }
    chosen_keys(files, rules, work);
    unmatched(files, main, rules);
    replaced(files, rules, work);
    freed(files, rules, work);
}

/// How a rule's conditions see a request.
fn seen(rule: &Rule) -> Seen {
    let relaxes = rule.limits == Limits::Unlimited || rule.replaces != Replaces::None;
    if relaxes { Seen::Exact } else { Seen::Folded }
}

fn tier_seen(tier: &Tier) -> Seen {
    if tier.limits == Limits::Unlimited { Seen::Exact } else { Seen::Folded }
}

/// The alternatives of a rule's conditions: one without conditions if it has none.
fn alternatives(applies: &[Conditions]) -> &[Conditions] {
    static EVERYTHING: [Conditions; 1] = [Conditions(Vec::new())];
    if applies.is_empty() { &EVERYTHING } else { applies }
}

/// Whether a rule limits every request that it concerns, for all keys and responses.
fn limits_each(rule: &Rule) -> bool {
    rule.mode == Mode::Enforce
        && rule.limits != Limits::Unlimited
        && (rule.limits == Limits::Block || rule.cost != Cost::Fixed(0))
        && rule.charge_if.is_none()
        && (rule.key == Key::Everyone || rule.missing != MissingKey::Pass)
}

/// W1: keys that a client chooses, where nothing else limits it.
fn chosen_keys(files: &mut Files<'_>, rules: &[Placed], work: &mut Work) {
    use Attribute::{Capture, Cookie, Header, Path, Query};
    let is_chosen =
        |part: &Attribute| matches!(part.plain(), Header(_) | Cookie(_) | Query(_) | Path | Capture(_));
    let limits = |rule: &Rule| limits_each(rule) && rule.limits != Limits::Block;
    let holds = |placed: &&Placed| match &placed.rule.key {
        Key::Everyone => limits(&placed.rule),
        Key::Attributes(parts) => limits(&placed.rule) && !parts.iter().any(is_chosen),
    };
    let holding: Vec<_> = rules.iter().filter(holds).collect();
    for placed in rules {
        let Key::Attributes(parts) = &placed.rule.key else { continue };
        if placed.rule.mode == Mode::Off
            || !matches!(placed.rule.limits, Limits::Each(_))
            || !parts.iter().all(is_chosen)
        {
            continue;
        }
        let mut may_cover = |other: &Placed| {
            if work.is_done() {
                return true;
            }
            let covered = |own: &Conditions| {
                let others = alternatives(&other.rule.applies);
                others.iter().any(|other| !work.is_narrower(other, own) && !work.are_apart(own, other))
            };
            alternatives(&placed.rule.applies).iter().all(covered)
        };
        if !holding.iter().any(|other| may_cover(other)) {
            let message = format!(
                "a client of `{}` chooses its key: with a new value each time it is never limited",
                placed.rule.name
            );
            let hint = "a rule by `client`, or for `everyone`, that concerns the same requests";
            files.add(&placed.field("key"), Code::W1, message, Some(hint));
        }
    }
}

/// W2: requests that no rule limits.
fn unmatched(files: &mut Files<'_>, main: FileId, rules: &[Placed]) {
    let limits_all = |placed: &Placed| limits_each(&placed.rule) && placed.rule.applies.is_empty();
    if !rules.iter().any(limits_all) {
        let place = Place { file: main, span: 0..0 };
        let message = "no enforced rule limits every request: what no rule limits is admitted";
        files.add(
            &place,
            Code::W2,
            message,
            Some("a rule without `match`, `charge_if`, `missing = \"pass\"` and `cost = 0`"),
        );
    }
}

/// W3: rules that another one always replaces.
fn replaced(files: &mut Files<'_>, rules: &[Placed], work: &mut Work) {
    let enforced: Vec<_> =
        rules.iter().map(|placed| &placed.rule).filter(|rule| rule.mode == Mode::Enforce).collect();
    let mut by_name: BTreeMap<&str, Vec<&Rule>> = BTreeMap::new();
    let mut all = Vec::new();
    for &rule in &enforced {
        match &rule.replaces {
            Replaces::Named(names) => {
                names.iter().for_each(|name| by_name.entry(name).or_default().push(rule))
            }
            Replaces::All => all.push(rule),
            Replaces::None => {}
        }
    }
    // A replaced rule replaces nothing: of one that may be replaced nothing is certain.
    let is_certain = |rule: &Rule| {
        let may_go = by_name.contains_key(&*rule.name) || (rule.replaces != Replaces::All && !all.is_empty());
        rule.except.is_empty() && !may_go && (rule.key == Key::Everyone || rule.missing != MissingKey::Pass)
    };
    for placed in rules.iter().filter(|placed| placed.rule.mode == Mode::Enforce) {
        let rule = &placed.rule;
        let none = Vec::new();
        let named = by_name.get(&*rule.name).unwrap_or(&none);
        let all = if rule.replaces == Replaces::All { &none } else { &all };
        let mut covers = |other: &Rule| {
            if work.is_done() {
                return false;
            }
            let within = |own: &Conditions| {
                let others = alternatives(&other.applies);
                others.iter().any(|other| work.implies((own, seen(rule)), (other, Seen::Exact)))
            };
            alternatives(&rule.applies).iter().all(within)
        };
        if let Some(by) = named.iter().chain(all).find(|other| is_certain(other) && covers(other)) {
            let message = format!("`{}` is never asked: `{}` always replaces it", rule.name, by.name);
            files.add(&placed.at, Code::W3, message, Some("`mode = \"off\"`, or take it out"));
        }
    }
}

/// W3: rules that except all that they match.
fn excepted(files: &mut Files<'_>, placed: &Placed, work: &mut Work) {
    let Rule { name, applies, except, .. } = &placed.rule;
    let mut is_excepted = |own: &Conditions| {
        except.iter().any(|except| work.implies((own, seen(&placed.rule)), (except, Seen::Exact)))
    };
    if !except.is_empty() && alternatives(applies).iter().all(&mut is_excepted) {
        let message = format!("`{name}` is never asked: `except` covers all that `match` names");
        files.add(&placed.field("except"), Code::W3, message, Some("a narrower `except`"));
    }
}

/// W4: tiers behind one that takes their requests.
fn tiers(files: &mut Files<'_>, placed: &Placed, work: &mut Work) {
    let tiers = &placed.rule.tiers;
    for (index, tier) in tiers.iter().enumerate() {
        let mut takes_all = |before: &&Tier| {
            tier.applies.iter().all(|own| {
                let own = (own, tier_seen(tier));
                before.applies.iter().any(|other| work.implies(own, (other, tier_seen(before))))
            })
        };
        if let Some(before) = tiers[..index].iter().find(|before| takes_all(before)) {
            let message =
                format!("no request reaches the tier `{}`: `{}` takes them first", tier.name, before.name);
            files.add(&placed.tier(index), Code::W4, message, Some("the narrower tier first"));
        }
    }
}

/// W5, W7, W10: limits that may surprise.
fn each_limit(files: &mut Files<'_>, placed: &Placed) {
    let Rule { key, max_keys, charge_if, store, .. } = &placed.rule;
    // What a store keeps takes no memory here.
    let is_small = *key == Key::Everyone || store.is_some();
    for (limit, place) in placed.each_limit() {
        let Limit::Quota(quota) = limit else { continue };
        let bytes = if is_small { 0 } else { memory(*quota, *max_keys).unwrap_or_default() };
        let instead = || sub_windows(quota).map_or("another algorithm".into(), |window| window.to_string());
        match quota {
            Quota::FixedWindow(_) if quota.rate().period() > LONG_WINDOW => {
                let message = format!("`{quota}` admits up to twice its count around the end of a window");
                files.add(&place, Code::W5, message, Some(instead()));
            }
            Quota::SlidingLog(_) if charge_if.is_some() => {
                let message = "of several requests in flight a log gives back only the newest";
                files.add(&place, Code::W10, message, Some(instead()));
            }
            Quota::SlidingLog(_) if bytes > LARGE_LOG => {
                let message = format!("the log may take {:.1} GiB", bytes as f64 / LARGE_LOG as f64);
                files.add(&place, Code::W7, message, Some(instead() + ", or smaller max_keys"));
            }
            _ => {}
        }
    }
}

/// The sliding window of the same rate, with as many sub-windows as have room for its count, up to
/// six.
fn sub_windows(quota: &Quota) -> Option<Quota> {
    let window = SlidingWindow::new(quota.rate()).count(quota.count_policy());
    let mut windows = (2..=6).rev().map(|k| Quota::from(window.subwindows(k)));
    windows.find(|window| memory(*window, Some(1)).is_ok())
}

/// W6: costs that a client names.
fn cost(files: &mut Files<'_>, placed: &Placed) {
    if let Cost::From { attribute, .. } = &placed.rule.cost
        && let Attribute::Header(_) | Attribute::Cookie(_) | Attribute::Query(_) = attribute
    {
        let message = format!("a client names its own cost in `{attribute}`");
        files.add(
            &placed.field("cost"),
            Code::W6,
            message,
            Some("a label, which only a trusted caller sets"),
        );
    }
}

/// W12: rules that refuse no request, as all of them cost nothing.
fn costless(files: &mut Files<'_>, placed: &Placed) {
    let Rule { name, key, missing, limits, tiers, cost, .. } = &placed.rule;
    let refuses_missing = *key != Key::Everyone && *missing == MissingKey::Refuse;
    let mut all = std::iter::once(limits).chain(tiers.iter().map(|tier| &tier.limits));
    let refuses = refuses_missing || all.clone().any(|limits| *limits == Limits::Block);
    // A limit of requests in flight holds no place for a cost of 0, and admits it when full.
    if *cost == Cost::Fixed(0) && !refuses && all.any(|limits| matches!(limits, Limits::Each(_))) {
        let message = format!("`{name}` never refuses: each request costs 0, and uses up no limit");
        let hint = "a cost of 1 or more, or limits = \"unlimited\"";
        files.add(&placed.field("cost"), Code::W12, message, Some(hint));
    }
}

/// W9: rules that replace a block of the same requests.
fn freed(files: &mut Files<'_>, rules: &[Placed], work: &mut Work) {
    let enforced = |placed: &&Placed| placed.rule.mode == Mode::Enforce && placed.rule.except.is_empty();
    let blocks: Vec<_> =
        rules.iter().filter(enforced).filter(|placed| placed.rule.limits == Limits::Block).collect();
    for placed in rules.iter().filter(enforced).filter(|placed| placed.rule.limits != Limits::Block) {
        if placed.rule.replaces != Replaces::All {
            continue;
        }
        let replaces = |block: &Rule| block.replaces != Replaces::All;
        let mut meets = |block: &Rule| {
            if work.is_done() {
                return false;
            }
            let meets =
                |own: &Conditions| alternatives(&block.applies).iter().any(|other| work.meet(own, other));
            alternatives(&placed.rule.applies).iter().any(meets)
        };
        for block in blocks.iter().filter(|block| replaces(&block.rule) && meets(&block.rule)) {
            let message = format!("`{}` frees requests that `{}` blocks", placed.rule.name, block.rule.name);
            let hint = format!("`replaces = [\"*\"]` in `{}`, too, or names here", block.rule.name);
            files.add(&placed.field("replaces"), Code::W9, message, Some(hint));
        }
    }
}

/// The condition on an attribute.
fn on<'c>(conditions: &'c Conditions, attribute: &Attribute) -> Option<&'c Condition> {
    conditions.0.iter().find(|condition| condition.attribute == *attribute)
}
