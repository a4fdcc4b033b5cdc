//! What a server that reloads a changed rules file keeps of its state, and which numbers change.

use serde_json::{Value, json};
use tollgate::ManualClock;
use tollgate_rules::{
    Cause, Conflict, Cost, ExchangeError, Key, LiveRules, Replaces, Rule, Rules, StoreFailure,
};

use crate::by_rules::{limits_text, mode_text, time_text};
use crate::columns::{Columns, Side};
use crate::failure::Failure;

/// What happens to the debts of a rule's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Debts {
    /// They stay.
    Kept,
    /// There are none.
    New,
    /// They cannot be kept: the reload is refused.
    Refused,
    /// They cannot be kept, and `forget = true` permits that.
    Forgotten,
    /// The rule goes.
    Removed,
}

impl Debts {
    fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::New => "new",
            Self::Refused => "refused",
            Self::Forgotten => "forgotten",
            Self::Removed => "removed",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Kept => "debts are kept",
            Self::New => "begins without debts",
            Self::Refused => "cannot keep debts: the reload is refused, unless forget = true",
            Self::Forgotten => "forgets debts, as forget = true permits",
            Self::Removed => "goes with its debts",
        }
    }
}

/// What a reload changes of a rule.
#[derive(Debug)]
pub(super) struct Change {
    rule: Box<str>,
    debts: Debts,
    /// Each field that changes, with its values.
    fields: Vec<String>,
    /// Why debts cannot be kept.
    why: Vec<String>,
}

/// The rules that change, in the order of the new file, then those that go.
///
/// # Errors
///
/// When there is not enough memory for the rules' limiters.
pub(super) fn plan(old: &Rules, new: &Rules) -> Result<Vec<Change>, Failure> {
    let conflicts = conflicts(old, new)?;
    let before = |rule: &Rule| {
        let old = |name: &str| old.rules.iter().find(|old| *old.name == *name);
        // Once renamed, the file may go on to say so.
        let was = rule.was.as_deref().filter(|was| new.rules.iter().all(|rule| *rule.name != **was));
        was.and_then(old).or_else(|| old(&rule.name))
    };
    let mut changes = Vec::new();
    for rule in &new.rules {
        let why: Vec<String> = conflicts.iter().filter(|of| of.rule == rule.name).map(cause_text).collect();
        let fields = match before(rule) {
            Some(old) => changed_fields(old, rule),
            None => vec![format!("added: {}", limits_text(&rule.limits))],
        };
        if fields.is_empty() && why.is_empty() {
            continue;
        }
        let debts = match (before(rule), &why[..]) {
            (_, [_, ..]) if rule.forget => Debts::Forgotten,
            (_, [_, ..]) => Debts::Refused,
            (None, []) => Debts::New,
            (Some(_), []) => Debts::Kept,
        };
        changes.push(Change { rule: rule.name.clone(), debts, fields, why });
    }
    let kept: Vec<&str> = new.rules.iter().filter_map(before).map(|rule| &*rule.name).collect();
    for rule in old.rules.iter().filter(|rule| !kept.contains(&&*rule.name)) {
        let (fields, why) = (vec!["removed".to_owned()], Vec::new());
        changes.push(Change { rule: rule.name.clone(), debts: Debts::Removed, fields, why });
    }
    Ok(changes)
}

fn changed_fields(old: &Rule, new: &Rule) -> Vec<String> {
    let mut fields = Vec::new();
    let mut pair = |name: &str, old: String, new: String| {
        if old != new {
            fields.push(format!("{name}: {old} -> {new}"));
        }
    };
    pair("name", old.name.to_string(), new.name.to_string());
    pair("mode", mode_text(old.mode).to_owned(), mode_text(new.mode).to_owned());
    pair("key", key_text(&old.key), key_text(&new.key));
    pair("limits", limits_text(&old.limits), limits_text(&new.limits));
    for tier in &new.tiers {
        let before = old.tiers.iter().find(|old| old.name == tier.name);
        let before = before.map_or("none".to_owned(), |old| limits_text(&old.limits));
        pair(&format!("tier {}", tier.name), before, limits_text(&tier.limits));
    }
    for tier in old.tiers.iter().filter(|old| new.tiers.iter().all(|tier| tier.name != old.name)) {
        pair(&format!("tier {}", tier.name), limits_text(&tier.limits), "none".to_owned());
    }
    let store = |rule: &Rule| {
        rule.store.as_ref().map_or("this process".to_owned(), |store| {
            let local = match store.on_failure {
                StoreFailure::Local { nodes } => format!("local {nodes}"),
                StoreFailure::Allow => "allow".to_owned(),
                _ => "refuse".to_owned(),
            };
            format!("{}, on_failure {local}, deny_cache {}", store.server, store.deny_cache)
        })
    };
    pair("store", store(old), store(new));
    let time = |time: Option<std::time::Duration>| time.map_or("none".to_owned(), time_text);
    pair("ban", time(old.ban.map(|ban| ban.0)), time(new.ban.map(|ban| ban.0)));
    pair("max_wait", time(old.max_wait), time(new.max_wait));
    if let (Cost::Fixed(old), Cost::Fixed(new)) = (&old.cost, &new.cost) {
        pair("cost", old.to_string(), new.to_string());
    } else if old.cost != new.cost {
        fields.push("cost".to_owned());
    }
    let tiers = |rule: &Rule| {
        rule.tiers.iter().map(|tier| (tier.name.clone(), tier.applies.clone())).collect::<Vec<_>>()
    };
    for (name, is_changed) in [
        ("match", old.applies != new.applies),
        ("except", old.except != new.except),
        ("match of tiers", old.tiers.len() == new.tiers.len() && tiers(old) != tiers(new)),
        ("missing", old.missing != new.missing),
        ("replaces", replaced(&old.replaces) != replaced(&new.replaces)),
        ("charge_if", old.charge_if != new.charge_if),
        ("refuse", old.refuse != new.refuse),
        ("park", old.park != new.park),
        ("inherit", old.inherit != new.inherit),
        ("max_keys", old.max_keys != new.max_keys),
    ] {
        if is_changed {
            fields.push(name.to_owned());
        }
    }
    fields
}

/// The names that a rule replaces, in their order.
fn replaced(replaces: &Replaces) -> Vec<&str> {
    let mut names = match replaces {
        Replaces::Named(names) => names.iter().map(|name| &**name).collect(),
        Replaces::All => vec!["*"],
        Replaces::None => Vec::new(),
    };
    names.sort_unstable();
    names
}

fn key_text(key: &Key) -> String {
    match key {
        Key::Everyone => "everyone".to_owned(),
        Key::Attributes(attributes) => {
            attributes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
    }
}

/// What a reload of `new` says of each rule whose debts it cannot keep, whether they may be
/// forgotten or not.
fn conflicts(old: &Rules, new: &Rules) -> Result<Vec<Conflict>, Failure> {
    let unusable = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let mut strict = new.clone();
    strict.rules.iter_mut().for_each(|rule| rule.forget = false);
    let live = LiveRules::new(old.clone(), [0; 32], ManualClock::new()).map_err(|error| unusable(&error))?;
    match live.exchange(strict, [1; 32]) {
        Ok(_) => Ok(Vec::new()),
        Err(ExchangeError::Forgets(conflicts)) => Ok(conflicts),
        Err(error) => Err(unusable(&error)),
    }
}

/// Why debts cannot be kept.
fn cause_text(conflict: &Conflict) -> String {
    let tier = conflict.tier.as_ref().map_or(String::new(), |tier| format!("tier {tier}: "));
    match &conflict.cause {
        Cause::Key => "the key changes".to_owned(),
        Cause::MaxKeys => "max_keys changes".to_owned(),
        Cause::NumberOfLimits => format!("{tier}the number of limits changes"),
        Cause::Limit(error) => format!("{tier}{error}"),
        Cause::TierRemoved => format!("{tier}it goes"),
        Cause::Displaced { was } => format!("it takes the state of `{was}`, and its own is lost"),
        Cause::Renamed { was } => {
            format!("it has the key and limits of `{was}`, which goes: was = \"{was}\" keeps its debts")
        }
        _ => "its state does not fit".to_owned(),
    }
}

/// The plan as text.
pub(super) fn text(plan: &[Change], [old, new]: &[String; 2]) -> String {
    let mut text = format!("{old} -> {new}: ");
    if plan.is_empty() {
        return text + "no rule changes\n";
    }
    text.push_str(&crate::report::figures::counted(plan.len() as u64, "rule"));
    text.push_str(if plan.len() == 1 { " changes\n\n" } else { " change\n\n" });
    let mut columns = Columns::new([Side::Left, Side::Left]);
    for change in plan {
        columns.row([change.rule.to_string(), change.debts.text().to_owned()]);
        for line in change.fields.iter().chain(&change.why) {
            columns.row([String::new(), format!("  {line}")]);
        }
    }
    text + &columns.to_string()
}

/// The plan as one JSON object.
pub(super) fn json(plan: &[Change], [old, new]: &[String; 2]) -> Value {
    let change = |change: &Change| {
        json!({
            "rule": *change.rule,
            "debts": change.debts.name(),
            "changes": change.fields,
            "why": change.why,
        })
    };
    json!({
        "version": 1,
        "old": old,
        "new": new,
        "rules": plan.iter().map(change).collect::<Vec<_>>(),
    })
}
