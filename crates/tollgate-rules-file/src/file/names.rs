//! Names over all files: each once, and what refers to one finds it.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{Files, Place};
use super::nearest::nearest;
use super::problem::Code;
use super::read::rule::Placed;
use super::read::tests::Named;
use tollgate_rules::Replaces;

/// The most names of a circle in a message.
const MOST_NAMED: usize = 8;

/// Reports names that two rules have, and names that no rule has.
pub(super) fn check(files: &mut Files<'_>, rules: &[Placed], named: &Named) {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, placed) in rules.iter().enumerate() {
        let name = &*placed.rule.name;
        if let Some(first) = by_name.insert(name, index) {
            by_name.insert(name, first);
            let hint = "state is kept by name: each rule needs its own";
            files.add(
                &placed.field("name"),
                Code::NameTwice,
                format!("there are two rules `{name}`"),
                Some(hint),
            );
        }
    }
    let unknown = |files: &mut Files<'_>, name: &str, place: &Place| {
        // Beside thousands of names the nearest one takes long, and helps less.
        let near = nearest(name, by_name.keys().copied().take(200));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        files.add(place, Code::UnknownRule, format!("there is no rule `{name}`"), hint);
    };
    for placed in rules {
        for (name, place) in placed.replaced().filter(|(name, _)| !by_name.contains_key(name)) {
            unknown(files, name, &place);
        }
    }
    for (name, place) in named.iter().filter(|(name, _)| !by_name.contains_key(&**name)) {
        unknown(files, name, place);
    }
    renamed(files, rules, &by_name);
    circles(files, rules, &by_name);
}

/// A rule was renamed only if its old name is free, and one rule took its state.
fn renamed(files: &mut Files<'_>, rules: &[Placed], by_name: &BTreeMap<&str, usize>) {
    let mut olds = BTreeSet::new();
    for placed in rules {
        let Some(was) = placed.rule.was.as_deref() else { continue };
        if by_name.contains_key(was) {
            let message = format!("there is a rule `{was}`: it was not renamed");
            files.add(&placed.field("was"), Code::Unfit, message, Some("the name that no rule has any more"));
        } else if !olds.insert(was) {
            let message = format!("two rules were `{was}`");
            files.add(&placed.field("was"), Code::NameTwice, message, Some("one of them takes its state"));
        }
    }
}

/// Reports rules that replace one another: all would vanish, and what they limit be open.
fn circles(files: &mut Files<'_>, rules: &[Placed], by_name: &BTreeMap<&str, usize>) {
    let edges: Vec<Vec<(usize, Place)>> = rules
        .iter()
        .map(|placed| {
            let known = |(name, place): (&str, Place)| Some((*by_name.get(name)?, place));
            placed.replaced().filter_map(known).collect()
        })
        .collect();
    // A rule that replaces all replaces each that names it.
    for (rule, edges) in rules.iter().zip(&edges) {
        for (to, place) in edges.iter().filter(|(to, _)| rules[*to].rule.replaces == Replaces::All) {
            let message = format!("`{}` and `{}` replace one another", rule.rule.name, rules[*to].rule.name);
            let places = [rules[*to].field("replaces"), place.clone()];
            files.add_all(&places, Code::Circle, message, Some("the other one replaces all rules (`*`)"));
        }
    }
    // Depth first without recursion: a chain may have ten thousand rules. `path` holds a rule and
    // the number of its next edge.
    let mut state = vec![State::New; rules.len()];
    for start in 0..rules.len() {
        let mut path = vec![(start, 0)];
        if state[start] != State::New {
            continue;
        }
        state[start] = State::OnPath;
        while let Some((rule, next)) = path.last_mut() {
            let rule = *rule;
            let Some((to, _)) = edges[rule].get(*next) else {
                state[rule] = State::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match state[*to] {
                State::New => {
                    state[*to] = State::OnPath;
                    path.push((*to, 0));
                }
                State::OnPath => {
                    let from = path.iter().position(|(rule, _)| rule == to).unwrap_or(0);
                    let names: Vec<_> = path[from..].iter().map(|(rule, _)| *rule).chain([*to]).collect();
                    let others = path[from..].iter().filter_map(|(rule, next)| edges[*rule].get(next - 1));
                    let places: Vec<Place> = others.map(|(_, place)| place.clone()).collect();
                    let shown = &places[places.len().saturating_sub(MOST_NAMED)..];
                    files.add_all(
                        shown,
                        Code::Circle,
                        circle(rules, &names),
                        Some("all of them would vanish"),
                    );
                }
                State::Done => {}
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    OnPath,
    Done,
}

fn circle(rules: &[Placed], path: &[usize]) -> String {
    let names: Vec<_> =
        path.iter().take(MOST_NAMED).map(|rule| format!("`{}`", rules[*rule].rule.name)).collect();
    let more = if path.len() > MOST_NAMED { " replaces …" } else { "" };
    match path {
        [_, _] => format!("{} replaces itself", names[0]),
        _ => format!("{}{more}", names.join(" replaces ")),
    }
}
