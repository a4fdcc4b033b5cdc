//! A matcher without an index, written again from the documentation: slow and plain.

mod paths;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use tollgate_rules::{
    Attribute, Condition, Conditions, Cost, Key, Limit, Limits, MissingKey, Mode, PlainRequest, Replaces,
    Rule, Rules,
};

use paths::{Path, paths};

/// A rule that concerns a request: its number, tier and cost, whether it refuses for want of a key,
/// and the key.
pub(super) type Line = (usize, Option<usize>, u64, bool, Vec<u8>);

struct Context<'a> {
    request: &'a PlainRequest,
    fold: bool,
    paths: Vec<Path>,
}

/// What a condition on the path found: a reading and a pattern.
type Match = Option<(usize, Option<String>)>;

pub(super) fn naive(rules: &Rules, request: &PlainRequest) -> Vec<Line> {
    let context = Context { request, fold: rules.fold_paths, paths: paths(request) };
    let judged: Vec<_> = rules.rules.iter().map(|rule| context.judge(rule)).collect();
    // A rule counts unless one that counts replaces it.
    fn counts(rules: &[Rule], judged: &[Option<(bool, Line)>], rule: usize) -> bool {
        judged[rule].is_some()
            && (0..rules.len()).all(|by| {
                let names = match &rules[by].replaces {
                    Replaces::All => rules[rule].replaces != Replaces::All,
                    Replaces::Named(names) => names.contains(&rules[rule].name),
                    Replaces::None => false,
                };
                let may = rules[by].mode == Mode::Enforce || rules[rule].mode == Mode::Shadow;
                let replaces = judged[by].as_ref().is_some_and(|(replaces, _)| *replaces);
                !(names && may && replaces && counts(rules, judged, by))
            })
    }
    let counted = (0..judged.len()).filter(|&rule| counts(&rules.rules, &judged, rule));
    counted
        .map(|rule| {
            let (_, (_, tier, cost, is_refused, key)) = judged[rule].clone().unwrap();
            (rule, tier, cost, is_refused, key)
        })
        .collect()
}

impl Context<'_> {
    fn judge(&self, rule: &Rule) -> Option<(bool, Line)> {
        if rule.mode == Mode::Off {
            return None;
        }
        let mut all_limits = rule.tiers.iter().map(|tier| &tier.limits).chain([&rule.limits]);
        let strict = all_limits.all(|limits| *limits == Limits::Unlimited);
        let applies =
            |strict| if rule.applies.is_empty() { Some(None) } else { self.any(&rule.applies, strict) };
        let matched = applies(strict)?;
        if self.any(&rule.except, !strict).is_some() {
            return None;
        }
        let key = match &rule.key {
            Key::Everyone => Some(Vec::new()),
            Key::Attributes(parts) => {
                let values: Option<Vec<_>> = parts.iter().map(|part| self.part(part, &matched)).collect();
                values.map(|values| match &values[..] {
                    [one] => one.clone(),
                    _ => values
                        .iter()
                        .flat_map(|value| [&[0, value.len() as u8], &value[..]].concat())
                        .collect(),
                })
            }
        };
        let is_absent = |part| self.part(part, &matched).is_none() && self.is_absent(part);
        if rule.missing == MissingKey::Pass
            && matches!(&rule.key, Key::Attributes(parts) if parts.iter().any(is_absent))
        {
            return None;
        }
        let refused = key.is_none() && rule.missing == MissingKey::Refuse;
        let replaces = applies(true).is_some() && self.any(&rule.except, false).is_none();
        Some((replaces, (0, self.tier(rule), self.cost(rule), refused, key.unwrap_or_default())))
    }

    /// The limits in the order of how little they admit: block, 20/min, 1/s, 5/s, 50/s, unlimited.
    fn tier(&self, rule: &Rule) -> Option<usize> {
        let rank = |limits: &Limits| match limits {
            Limits::Block => 0,
            Limits::Unlimited => 9,
            Limits::PerRequest | Limits::Elsewhere => unreachable!("no file has them"),
            Limits::Each(limits) => match &limits[..] {
                [Limit::Quota(quota)] => match (quota.rate().count(), quota.rate().period().as_secs()) {
                    (20, 60) => 1,
                    (1, 1) => 2,
                    (5, 1) => 3,
                    (50, 1) => 4,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            },
        };
        let mut candidates = Vec::new();
        for (number, tier) in rule.tiers.iter().enumerate() {
            if self.any(&tier.applies, false).is_some() {
                candidates.push((rank(&tier.limits), Some(number)));
            }
            if self.any(&tier.applies, true).is_some() {
                return candidates.into_iter().min_by_key(|(rank, _)| *rank).unwrap().1;
            }
        }
        candidates.push((rank(&rule.limits), None));
        candidates.into_iter().min_by_key(|(rank, _)| *rank).unwrap().1
    }

    fn cost(&self, rule: &Rule) -> u64 {
        match &rule.cost {
            Cost::Fixed(cost) => *cost,
            Cost::From { attribute, default } => {
                let number = |(value, _): (Vec<u8>, bool)| {
                    String::from_utf8(value).unwrap().parse().ok().unwrap_or(*default)
                };
                let numbers: BTreeSet<u64> = self.values(attribute).into_iter().map(number).collect();
                match numbers.len() {
                    0 => *default,
                    1 => *numbers.first().unwrap(),
                    _ => *default.max(numbers.last().unwrap()),
                }
            }
            Cost::Cases(cases) => {
                let mut candidates = Vec::new();
                for case in cases {
                    let holds = |strict| case.applies.is_empty() || self.any(&case.applies, strict).is_some();
                    if holds(false) {
                        candidates.push(case.is);
                    }
                    if holds(true) {
                        return candidates.into_iter().max().unwrap();
                    }
                }
                candidates.push(1);
                candidates.into_iter().max().unwrap()
            }
        }
    }

    fn any(&self, alternatives: &[Conditions], strict: bool) -> Option<Match> {
        alternatives.iter().find_map(|Conditions(conditions)| {
            let mut matched = None;
            for condition in conditions {
                matched = self.holds(condition, strict)?.or(matched);
            }
            Some(matched)
        })
    }

    fn holds(&self, Condition { attribute, values }: &Condition, strict: bool) -> Option<Match> {
        match attribute {
            Attribute::Path => self.path(values, strict).map(Some),
            Attribute::Client => {
                let client = address(self.request.client?);
                let inside = values.networks.iter().any(|network| network.contains(&client));
                (values.any || inside).then_some(None)
            }
            _ => {
                let fits = |value: &[u8]| {
                    let text = String::from_utf8_lossy(value);
                    values.any
                        || values.texts.iter().any(|wanted| match attribute {
                            Attribute::Method => glob(&wanted.to_uppercase(), &text),
                            Attribute::Host => glob(&wanted.to_lowercase(), &text),
                            _ => glob(wanted, &text),
                        })
                };
                let mut found = self.values(attribute);
                if *attribute == Attribute::Method
                    && !strict
                    && found.iter().any(|(method, _)| method == b"HEAD")
                {
                    found.push((b"GET".to_vec(), false));
                }
                if let (Attribute::Cookie(_), false) = (attribute, strict) {
                    let further = |(value, _): &(Vec<u8>, bool)| {
                        let text = String::from_utf8_lossy(value).into_owned();
                        let both = decoded(&unquoted(&text));
                        [unquoted(&text), decoded(&text), both, decoded(&text.replace('+', " "))]
                            .map(|text| (text.into_bytes(), false))
                    };
                    let further: Vec<_> = found.iter().flat_map(further).collect();
                    found.extend(further);
                }
                let is_host = *attribute == Attribute::Host;
                if is_host && !strict && found.iter().any(|(_, exact)| !exact) {
                    return (values.any || !values.texts.is_empty()).then_some(None);
                }
                let holds = if strict {
                    let good = |(value, exact): &(Vec<u8>, bool)| *exact && !value.is_empty() && fits(value);
                    !found.is_empty() && found.iter().all(good)
                } else {
                    found.iter().any(|(value, _)| fits(value))
                };
                holds.then_some(None)
            }
        }
    }

    fn path(&self, values: &tollgate_rules::Values, strict: bool) -> Option<(usize, Option<String>)> {
        let mut patterns: Vec<&str> = values.texts.iter().map(|text| &**text).collect();
        // A text before a part before the rest, from left to right.
        patterns.sort_by_key(|pattern| {
            let parts = pattern[1..].split('/').map(|part| match part {
                "**" => (2, None, ""),
                "*" => (1, None, ""),
                _ if part.starts_with('{') => (1, Some(part), ""),
                _ => (0, None, part),
            });
            let mut parts: Vec<_> =
                parts.map(|(kind, name, part)| (kind, name, part.to_lowercase(), part)).collect();
            parts.shrink_to_fit();
            parts
        });
        let by = |reading: usize| {
            let path = &self.paths[reading];
            let restricts = if self.fold { path.folded.to_lowercase() } else { path.exact.clone() };
            if values.any {
                return Some((reading, None));
            }
            let fits = |pattern: &&&str| {
                let folded = pattern.to_lowercase();
                let folded = if folded.len() > 1 { folded.trim_end_matches('/') } else { &folded };
                let own = if self.fold { folded } else { pattern };
                matches(own, restricts.trim_start_matches(if self.fold { "" } else { "\0" }))
                    && (!strict || (path.exact.starts_with('/') && matches(pattern, &path.exact)))
            };
            patterns.iter().find(fits).map(|pattern| (reading, Some((*pattern).to_owned())))
        };
        let found: Vec<_> = (0..self.paths.len()).map(by).collect();
        if strict && found.iter().any(Option::is_none) {
            return None;
        }
        found.into_iter().flatten().next()
    }

    /// Whether a part of a key that is missing is not there at all.
    fn is_absent(&self, part: &Attribute) -> bool {
        use Attribute::{Capture, Client, Path, Route};
        matches!(part, Client | Path | Route | Capture(_)) || self.values(part).is_empty()
    }

    fn part(&self, attribute: &Attribute, matched: &Match) -> Option<Vec<u8>> {
        let reading = matched.as_ref().map_or(0, |(reading, _)| *reading);
        let path = self.paths.get(reading);
        let value = match attribute {
            Attribute::Client => {
                return Some(match address(self.request.client?) {
                    IpAddr::V4(v4) => [&[4], &v4.octets()[..]].concat(),
                    IpAddr::V6(v6) => [&[6], &v6.octets()[..8]].concat(),
                });
            }
            Attribute::Path => {
                if self.fold { path?.folded.to_lowercase() } else { path?.exact.clone() }.into()
            }
            Attribute::Route => matched.as_ref()?.1.clone().unwrap_or("*".into()).into(),
            Attribute::Capture(name) => {
                let pattern = matched.as_ref()?.1.as_ref()?;
                let at = pattern.split('/').position(|part| *part == format!("{{{name}}}"))?;
                let path = if self.fold { &path?.folded } else { &path?.exact };
                let path = if path.starts_with('/') { path.clone() } else { format!("/{path}") };
                path.split('/').nth(at)?.into()
            }
            _ => {
                let values: Vec<Vec<u8>> =
                    self.values(attribute).into_iter().map(|(value, _)| value).collect();
                let may_repeat = matches!(attribute, Attribute::Method | Attribute::Host);
                match &values[..] {
                    [head] if *attribute == Attribute::Method && head == b"HEAD" => b"GET".to_vec(),
                    [one] if matches!(attribute, Attribute::Cookie(_)) => {
                        decoded(&unquoted(&String::from_utf8_lossy(one))).replace('+', " ").into()
                    }
                    [one] => one.clone(),
                    [one, others @ ..] if may_repeat && others.iter().all(|other| other == one) => {
                        one.clone()
                    }
                    _ => return None,
                }
            }
        };
        Some(value).filter(|value: &Vec<u8>| !value.is_empty())
    }

    /// The values of an attribute, and whether each is as it was sent.
    fn values(&self, attribute: &Attribute) -> Vec<(Vec<u8>, bool)> {
        let request = self.request;
        let named = |pairs: &[(String, Vec<u8>)], name: &str| {
            let own = pairs.iter().filter(|(own, _)| *own == name);
            own.map(|(_, value)| (value.clone(), true)).collect::<Vec<_>>()
        };
        let headers: Vec<_> =
            request.headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
        let target = String::from_utf8_lossy(request.target.as_deref().unwrap_or_default());
        match attribute {
            Attribute::Method => request
                .method
                .iter()
                .map(|text| (text.to_uppercase().into(), *text == text.to_uppercase()))
                .collect(),
            Attribute::Host => {
                let absolute = target
                    .strip_prefix("http://")
                    .map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned());
                let host = |host: String| {
                    let name = host.rsplit('@').next().unwrap().trim_matches(['[', ']']);
                    let (name, port) = name.split_once(':').unwrap_or((name, ""));
                    let name = name.strip_suffix('.').unwrap_or(name).to_lowercase();
                    let is_exact =
                        !host.contains(['@', '[']) && port.is_empty() != port.parse::<u16>().is_ok();
                    (name.into_bytes(), is_exact)
                };
                request.host.clone().into_iter().chain(absolute).map(host).collect()
            }
            Attribute::Header(name) => {
                let is_misspelled = |own: &str| own != &**name && own.replace('_', "-") == **name;
                let misspelled = headers.iter().filter(|(own, _)| is_misspelled(own));
                let misspelled = misspelled.map(|(_, value)| (value.clone(), false));
                misspelled.chain(named(&headers, name)).collect()
            }
            Attribute::Label(name) => named(&request.labels, name),
            Attribute::Entry(name) => named(&request.entries, name),
            Attribute::Domain => request.domain.iter().map(|text| (text.clone().into(), true)).collect(),
            Attribute::Query(name) => {
                let query = target.split_once('?').map_or("", |(_, query)| query);
                let pairs: Vec<_> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
                pairs
                    .into_iter()
                    .filter(|(own, _)| own == &&**name)
                    .map(|(_, value)| (value.into(), true))
                    .collect()
            }
            Attribute::Cookie(name) => {
                let lines = named(&headers, "cookie");
                let text: Vec<_> =
                    lines.into_iter().map(|(line, _)| String::from_utf8(line).unwrap()).collect();
                let pairs =
                    text.iter().flat_map(|line| line.split("; ")).filter_map(|pair| pair.split_once('='));
                let is_plain = |text: &str| unquoted(text) == text && decoded(text) == text;
                let own = pairs.filter(|(own, _)| own == &&**name);
                own.map(|(_, value)| (value.into(), is_plain(value))).collect()
            }
            other => panic!("{other}"),
        }
    }
}

/// Without quotes, of the few values that are drawn.
fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.map_or(text.into(), |inner| inner.replace("\\170", "x").replace("\\y", "y"))
}

fn decoded(text: &str) -> String {
    text.replace("%78", "x").replace("%79", "y")
}

fn address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => Ipv6Addr::to_ipv4_mapped(&v6).map_or(address, IpAddr::V4),
        v4 => v4,
    }
}

fn glob(wanted: &str, text: &str) -> bool {
    match wanted.split_once('*') {
        None => wanted == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).any(|at| text.get(at..).is_some_and(|text| glob(rest, text)))
        }),
    }
}

/// Whether a path matches a pattern; both in one form.
fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = path.strip_prefix('/').unwrap_or(path).split('/');
    for own in pattern[1..].split('/') {
        let fits = match own {
            "**" => return true,
            _ if own == "*" || own.starts_with('{') => parts.next().is_some_and(|part| !part.is_empty()),
            _ => parts.next() == Some(own),
        };
        if !fits {
            return false;
        }
    }
    parts.next().is_none()
}
