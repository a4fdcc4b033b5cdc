//! Random configurations and calls, beside a naive model of envoyproxy/ratelimit: a list of limits,
//! a map of counts by window, and plain arithmetic.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::ManualClock;
use tollgate_rules_file::{EnvoyAnswer, EnvoyCharge, EnvoyCode, EnvoySet, EnvoyUnit};

use crate::{Call, config, domain};

const UNITS: [(&str, EnvoyUnit, u64); 7] = [
    ("second", EnvoyUnit::Second, 1),
    ("minute", EnvoyUnit::Minute, 60),
    ("hour", EnvoyUnit::Hour, 3_600),
    ("day", EnvoyUnit::Day, 86_400),
    ("week", EnvoyUnit::Week, 604_800),
    ("month", EnvoyUnit::Month, 2_592_000),
    ("year", EnvoyUnit::Year, 31_536_000),
];

/// A descriptor of the file.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    key: &'static str,
    value: Option<&'static str>,
    share: bool,
    limit: Option<Limit>,
    inner: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Limit {
    most: u32,
    /// The number of the unit; `None`: unlimited.
    unit: Option<usize>,
    shadow: bool,
    quota: bool,
    name: Option<&'static str>,
    replaces: Vec<&'static str>,
}

fn limit() -> impl Strategy<Value = Limit> {
    let most = select(vec![0, 1, 2, 3, 5, 20, u32::MAX]);
    let unit = prop_oneof![1 => Just(None), 9 => (0..UNITS.len()).prop_map(Some)];
    let name = select(vec![None, Some("m"), Some("n"), Some("o")]);
    let replaces = prop::collection::vec(select(vec!["m", "n", "o"]), 0..2);
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.3));
    (most, unit, flags, name, replaces).prop_map(|(most, unit, (shadow, quota), name, mut replaces)| {
        // Its own name is an error.
        replaces.retain(|other| Some(*other) != name);
        Limit { most, unit, shadow, quota, name, replaces }
    })
}

fn level(inner: BoxedStrategy<Vec<Node>>) -> BoxedStrategy<Vec<Node>> {
    let value = select(vec![None, None, Some("x"), Some("y"), Some("x*"), Some("*")]);
    let node = (select(vec!["a", "b"]), value, any::<bool>(), prop::option::weighted(0.8, limit()), inner)
        .prop_map(|(key, value, share, limit, inner)| {
            let share = share && value.is_some_and(|value| value.contains('*'));
            Node { key, value, share, limit, inner }
        });
    let unique = |nodes: Vec<Node>| {
        let mut kept: Vec<Node> = Vec::new();
        for node in nodes {
            if !kept.iter().any(|other| (other.key, other.value) == (node.key, node.value)) {
                kept.push(node);
            }
        }
        kept
    };
    prop::collection::vec(node, 0..5).prop_map(unique).boxed()
}

pub(crate) fn tree() -> impl Strategy<Value = Vec<Node>> {
    level(level(Just(Vec::new()).boxed()))
}

/// The descriptors as YAML.
pub(crate) fn yaml(nodes: &[Node]) -> String {
    let each = nodes.iter().map(|node| {
        let mut text = format!("{{ key: {}, share_threshold: {}", node.key, node.share);
        if let Some(value) = node.value {
            write!(text, ", value: '{value}'").unwrap();
        }
        if let Some(Limit { most, unit, shadow, quota, name, replaces }) = &node.limit {
            let unit = unit.map_or("unlimited: true".into(), |unit| {
                format!("unit: {}, requests_per_unit: {most}", UNITS[unit].0)
            });
            let name = name.map(|name| format!(", name: {name}")).unwrap_or_default();
            let replaces: String = replaces.iter().map(|name| format!("{{ name: {name} }},")).collect();
            write!(text, ", shadow_mode: {shadow}, quota_mode: {quota}").unwrap();
            write!(text, ", rate_limit: {{ {unit}{name}, replaces: [{replaces}] }}").unwrap();
        }
        text + &format!(", descriptors: [{}] }}", yaml(&node.inner))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// A step to a limit: key, value, and whether its values share.
type Step = (&'static str, Option<&'static str>, bool);

/// The key of a count: the file's limit and the values it leaves open, or a call's entries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    File(Vec<Step>, Vec<String>),
    Call(Vec<(String, String)>),
}

/// The counts by key, unit and window.
type Counts = BTreeMap<(Key, usize, u64), u128>;

/// The limit that a descriptor of a call finds, and what it counts.
fn find<'n>(nodes: &'n [Node], entries: &[(String, String)]) -> Option<(&'n Limit, Key)> {
    let (mut steps, mut open, mut level, mut limit) = (Vec::new(), Vec::new(), nodes, None);
    for (key, value) in entries {
        let of_key = || level.iter().filter(|node| node.key == key);
        let fits = |pattern: &str| pattern.strip_suffix('*').is_some_and(|start| value.starts_with(start));
        let node = of_key()
            .find(|node| node.value == Some(value))
            .or_else(|| of_key().find(|node| node.value.is_some_and(fits)))
            .or_else(|| of_key().find(|node| node.value.is_none()))?;
        steps.push((node.key, node.value, node.share));
        if node.value.is_none_or(|own| own.contains('*')) && !node.share {
            open.push(value.clone());
        }
        (level, limit) = (&node.inner, node.limit.as_ref());
    }
    Some((limit?, Key::File(steps, open)))
}

/// The unit of the limit at the end of a way, if there is one: `Some(None)` is unlimited.
fn unit_at(nodes: &[Node], steps: &[Step]) -> Option<Option<usize>> {
    let (first, rest) = steps.split_first()?;
    let node = nodes.iter().find(|node| (node.key, node.value, node.share) == *first)?;
    if rest.is_empty() { node.limit.as_ref().map(|limit| limit.unit) } else { unit_at(&node.inner, rest) }
}

/// A limit that is asked: its number and unit, whether it is a shadow, its key, the hits, and
/// whether it is of `quota_mode`.
type Asked = (u32, usize, bool, Key, u64, bool);

/// What a status says: is over, code, current limit, remaining, nanoseconds until the reset.
type Told = (bool, EnvoyCode, Option<(u32, EnvoyUnit)>, u32, u128);

/// Adds the hits, and returns the status.
fn count(counts: &mut Counts, asked: &Asked, unix: u128) -> Told {
    let (most, unit, shadow, key, hits, _) = asked;
    let length = u128::from(UNITS[*unit].2) * 1_000_000_000;
    let count = counts.entry((key.clone(), *unit, (unix / length) as u64)).or_default();
    *count += u128::from(*hits);
    // Not as theirs: a look at a limit of 0 is refused; so is one at a count that fills a word.
    let fills = *unit == 0 && *hits == 0 && *count >= u32::MAX.into();
    let is_over = *count > u128::from(*most) || *most == 0 || fills;
    let code = if is_over && !shadow { EnvoyCode::OverLimit } else { EnvoyCode::Ok };
    let remaining = if is_over { 0 } else { (u128::from(*most) - *count) as u32 };
    if *unit == 0 {
        // Nor does theirs stop here.
        *count = (*count).min(u32::MAX.into());
    }
    (is_over, code, Some((*most, UNITS[*unit].1)), remaining, length - unix % length)
}

/// Takes hits back.
fn uncount(counts: &mut Counts, (_, unit, _, key, hits, _): &Asked, unix: u128) {
    let window = unix / (u128::from(UNITS[*unit].2) * 1_000_000_000);
    *counts.get_mut(&(key.clone(), *unit, window as u64)).unwrap() -= u128::from(*hits);
}

/// Whether a call is refused, of whose limits these are over.
fn is_refused(asked: &[Option<Asked>], is_over: impl Fn(usize) -> bool) -> bool {
    let over = |quota: bool| {
        let of_mode =
            (0..asked.len()).filter(move |at| asked[*at].as_ref().is_some_and(|one| one.5 == quota));
        of_mode.map(&is_over).collect::<Vec<bool>>()
    };
    over(false).contains(&true) || !over(true).is_empty() && !over(true).contains(&false)
}

/// The statuses, and whether the call is refused.
fn decide(
    nodes: &[Node],
    call: &[Call],
    addend: u32,
    together: bool,
    counts: &mut Counts,
    unix: u128,
) -> (Vec<Told>, bool) {
    let found: Vec<_> = call.iter().map(|call| find(nodes, &call.entries)).collect();
    let of_file = |at: usize| found[at].as_ref().filter(|_| call[at].limit.is_none());
    let replaced: Vec<&str> =
        (0..call.len()).filter_map(of_file).flat_map(|(limit, _)| limit.replaces.clone()).collect();
    let asked = |at: usize| -> Option<Asked> {
        let hits = call[at].hits.unwrap_or(u64::from(addend.max(1)));
        if let Some((most, unit)) = call[at].limit {
            let unit = UNITS.iter().position(|(_, other, _)| Some(*other) == unit).unwrap();
            return Some((most, unit, false, Key::Call(call[at].entries.clone()), hits, false));
        }
        let (limit, key) = of_file(at)?;
        let is_replaced = limit.name.is_some_and(|name| replaced.contains(&name));
        let unit = limit.unit.filter(|_| !is_replaced)?;
        Some((limit.most, unit, limit.shadow, key.clone(), hits, limit.quota))
    };
    let free = |at: usize| {
        let is_unlimited = of_file(at).is_some_and(|(limit, _)| limit.unit.is_none());
        (false, EnvoyCode::Ok, None, if is_unlimited { u32::MAX } else { 0 }, 0)
    };
    let asked: Vec<_> = (0..call.len()).map(asked).collect();
    let enforced = || asked.iter().flatten().filter(|asked| !asked.2);
    // Each alone, on counts of its own.
    let before = counts.clone();
    let refused: Vec<bool> = asked
        .iter()
        .map(|asked| {
            let mut counts = before.clone();
            asked.as_ref().is_some_and(|asked| count(&mut counts, asked, unix).1 == EnvoyCode::OverLimit)
        })
        .collect();
    let is_together = together && enforced().count() > 1;
    let looks_refused = is_together && is_refused(&asked, |at| refused[at]);
    let mut told: Vec<Told> = (0..call.len())
        .map(|at| match &asked[at] {
            None => free(at),
            Some(asked) if looks_refused && !asked.2 && !refused[at] => {
                let mut told = count(&mut before.clone(), asked, unix);
                told.3 += asked.4 as u32;
                told
            }
            Some(asked) => count(counts, asked, unix),
        })
        .collect();
    // Two of one count, which each would have passed.
    let is_over = is_refused(&asked, |at| told[at].1 == EnvoyCode::OverLimit);
    if is_together && !looks_refused && is_over {
        for (told, asked) in told.iter_mut().zip(&asked) {
            if let Some(asked) = asked.as_ref().filter(|asked| !asked.2 && !told.0) {
                uncount(counts, asked, unix);
                told.3 += asked.4 as u32;
            }
        }
    }
    (told, is_over)
}

pub(crate) fn calls() -> impl Strategy<Value = Vec<Call>> {
    let entry = (select(vec!["a", "b"]), select(vec!["x", "xx", "y", "z", ""]))
        .prop_map(|(key, value)| (key.to_owned(), value.to_owned()));
    let hits = prop_oneof![
        4 => Just(None),
        4 => (0..4_u64).prop_map(Some),
        1 => select(vec![30, u32::MAX.into(), u64::MAX]).prop_map(Some),
    ];
    let limit = prop::option::weighted(
        0.1,
        (select(vec![0, 1, 2, 5, u32::MAX]), (0..UNITS.len()).prop_map(|unit| Some(UNITS[unit].1))),
    );
    let call = (prop::collection::vec(entry, 0..3), hits, limit).prop_map(|(entries, hits, limit)| Call {
        entries,
        hits,
        limit,
    });
    // Often two descriptors that have one count.
    let twice = |(mut call, hits): (Vec<Call>, Option<u64>)| {
        if hits.is_some() {
            let first = call[0].clone();
            call.push(Call { hits, ..first });
        }
        call
    };
    (prop::collection::vec(call, 1..4), prop::option::weighted(0.3, 0..4_u64)).prop_map(twice)
}

#[derive(Clone, Debug)]
enum Action {
    Ask(Vec<Call>, u32),
    Wait(u64),
    Reload(usize),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let nanos =
        select(vec![1, 400_000_000, 999_999_999, 20_000_000_000, 2_000_000_000_000, 90_000_000_000_000]);
    let action = prop_oneof![
        12 => (calls(), 0..3_u32).prop_map(|(call, addend)| Action::Ask(call, addend)),
        3 => nanos.prop_map(Action::Wait),
        1 => (0..2_usize).prop_map(Action::Reload),
    ];
    prop::collection::vec(action, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn calls_are_decided_as_the_reference_decides(
        trees in prop::collection::vec(tree(), 2),
        together: bool,
        start in 0..4_000_000_000_000_000_000_u64,
        actions in actions(),
    ) {
        let configs: Vec<_> = trees
            .iter()
            .map(|nodes| config(&domain("").replace("descriptors:\n", &format!("descriptors: [{}]\n", yaml(nodes)))))
            .collect();
        let charge = if together { EnvoyCharge::Together } else { EnvoyCharge::Each };
        let (clock, mut unix) = (ManualClock::starting_at(Duration::from_nanos(start)), u128::from(start));
        let set = EnvoySet::new(configs[0].clone(), charge, 4_096, clock.clone()).unwrap();
        let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default());
        let (mut current, mut counts) = (0, Counts::new());
        for action in actions {
            match action {
                Action::Wait(nanos) => {
                    clock.advance(Duration::from_nanos(nanos));
                    unix += u128::from(nanos);
                }
                Action::Reload(number) => {
                    set.reload(configs[number].clone()).unwrap();
                    current = number;
                    counts.retain(|(key, unit, _), _| match key {
                        Key::Call(_) => true,
                        Key::File(steps, _) => {
                            unit_at(&trees[number], steps).is_some_and(|new| new.is_none_or(|new| new == *unit))
                        }
                    });
                }
                Action::Ask(call, addend) => {
                    let (expected, is_over) = decide(&trees[current], &call, addend, together, &mut counts, unix);
                    let code = handle.decide("d", &call, addend, &mut answer).unwrap();
                    let told: Vec<Told> = answer
                        .statuses()
                        .iter()
                        .map(|told| {
                            let reset = told.until_reset.as_nanos();
                            (told.is_over, told.code, told.current_limit, told.remaining, reset)
                        })
                        .collect();
                    prop_assert_eq!(&told, &expected, "{:?}", call);
                    prop_assert_eq!(code == EnvoyCode::OverLimit, is_over);
                }
            }
        }
    }
}
