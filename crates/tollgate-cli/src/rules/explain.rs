//! `tollgate rules explain`: which rules concern a request, which not, and why.

use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::{Value, json};
use tollgate::ManualClock;
use tollgate_rules::{
    Explanation, KeyPart, Line, PlainRequest, Reason, RuleSet, Ruling, Scratch, Verdict, Why,
};

use crate::by_rules::{limits_text, load, mode_text, path, time_text};
use crate::columns::{Columns, Side, printable};
use crate::failure::Failure;
use crate::output::print_result;
use crate::report::figures::grouped;

/// A rules file and a request.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The rules file
    #[arg(value_name = "FILE", value_parser = path)]
    file: PathBuf,

    /// The method and the target: 'POST /login?next=/'
    #[arg(value_name = "REQUEST")]
    request: MethodAndTarget,

    /// The client's address
    #[arg(long, value_name = "ADDRESS")]
    client: Option<IpAddr>,

    /// The host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,

    /// A header, such as 'x-api-key: k'; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,

    /// What a trusted caller says of the request, such as user=ada
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,

    /// The domain of a call by Envoy
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,

    /// An entry of the call's descriptor
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    entry: Vec<(String, String)>,

    /// Print one JSON object instead of text
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) const AFTER: &str = "\
The reasons come from the matcher that decides requests. What is left is that of
limits which no request has used yet: after this request if it is admitted.

Example:
  tollgate rules explain rules.toml 'POST /login' --client 203.0.113.9 \\
      --header 'x-api-key: k' --label plan=pro";

/// A method and a target.
#[derive(Debug, Clone)]
struct MethodAndTarget {
    method: String,
    target: String,
}

impl std::str::FromStr for MethodAndTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(' ') {
            Some((method, target)) if !method.is_empty() && !target.is_empty() && !target.contains(' ') => {
                Ok(Self { method: method.to_owned(), target: target.to_owned() })
            }
            _ => Err("give a method and a target, such as 'POST /login'".to_owned()),
        }
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("give a name and a value, such as 'x-api-key: k'")?;
    Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give a name and a value, such as user=ada")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the subcommand.
///
/// # Errors
///
/// When the file cannot be used, or standard output cannot be written.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let unusable = |error: tollgate_rules::SetError| Failure::Usage(error.to_string());
    let set = RuleSet::new(load(&args.file)?.in_process(), ManualClock::new()).map_err(unusable)?;
    let request = args.request();
    let explanations = set.matcher().explain(&request);
    let mut scratch = Scratch::default();
    let verdict = set.peek(&request, &mut scratch);
    let explained = Explained { explanations: &explanations, verdict: &verdict };
    print_result(&if args.json { format!("{}\n", explained.json()) } else { explained.text() })
}

impl Args {
    fn request(&self) -> PlainRequest {
        let bytes = |pairs: &[(String, String)]| -> Vec<(String, Vec<u8>)> {
            pairs.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect()
        };
        PlainRequest {
            method: Some(self.request.method.clone()),
            target: Some(self.request.target.clone().into_bytes()),
            host: self.host.clone(),
            client: self.client,
            headers: bytes(&self.header),
            labels: bytes(&self.label),
            domain: self.domain.clone(),
            entries: bytes(&self.entry),
        }
    }
}

/// What the matcher and fresh limits say of a request.
struct Explained<'a> {
    explanations: &'a [Explanation],
    verdict: &'a Verdict<'a, ManualClock>,
}

impl Explained<'_> {
    /// What the limits of a rule say.
    fn line(&self, rule: usize) -> Option<&Line> {
        self.verdict.lines().iter().find(|line| line.rule == rule)
    }

    fn text(&self) -> String {
        let mut columns = Columns::new([Side::Left, Side::Left, Side::Left]);
        for explanation in self.explanations {
            let (verdict, why) = self.row(explanation);
            columns.row([explanation.name.to_string(), verdict.to_owned(), why]);
        }
        format!("{columns}\n{}\n", self.outcome())
    }

    fn row(&self, explanation: &Explanation) -> (&'static str, String) {
        match &explanation.why {
            Why::Concerns { key, tier_name, cost, .. } => {
                let rule = &self.verdict.rules()[explanation.rule];
                let mut parts = vec![key_text(key)];
                parts.extend(tier_name.as_ref().map(|tier| format!("tier {tier}")));
                parts.push(if *cost == 0 { "cost 0: looks only".to_owned() } else { format!("cost {cost}") });
                if let Some(statuses) = &rule.charge_if {
                    let statuses: Vec<String> = statuses.iter().map(u16::to_string).collect();
                    parts.push(format!("charged if the status is {}", statuses.join(" ")));
                }
                parts.extend(
                    self.line(explanation.rule).map(|line| line_text(line, &limits_of(rule, line.tier))),
                );
                if rule.mode != tollgate_rules::Mode::Enforce {
                    parts.push(mode_text(rule.mode).to_owned());
                }
                ("concerns it", parts.join(", "))
            }
            Why::Replaced { by } => ("no", format!("{by} replaces it")),
            Why::Off => ("no", "its mode is off".to_owned()),
            Why::Unmatched { reasons } => ("no", reasons_text(reasons, " and ")),
            Why::Excepted { reasons } => ("no", format!("except {}", excepted_text(reasons))),
            Why::WithoutKey { key } => ("no", format!("{}: passes without it", key_text(key))),
            _ => ("no", String::new()),
        }
    }

    /// What becomes of the request.
    fn outcome(&self) -> String {
        let verdict = self.verdict;
        if verdict.is_unmatched() {
            return "no rule concerns it: admitted".to_owned();
        }
        let Some(rule) = verdict.refused_by() else {
            return match verdict.delay() {
                delay if delay.is_zero() => {
                    "would be admitted (by limits that no request has used yet)".to_owned()
                }
                delay => format!("would be admitted after {}", time_text(delay)),
            };
        };
        let status = rule.refuse.status.unwrap_or(429);
        let why = match verdict.outcome() {
            Ruling::Unavailable => "its store is not asked",
            Ruling::Never => "it costs more than the whole limit",
            Ruling::NoKey => "a part of the key is missing",
            Ruling::Blocked => "the rule blocks",
            _ => "the limit is used up",
        };
        format!("would be refused by {} with status {status}: {why}", rule.name)
    }

    /// The same as one JSON object.
    fn json(&self) -> Value {
        let rule = |explanation: &Explanation| {
            let mut object = serde_json::to_value(explanation).unwrap_or_default();
            let rule = &self.verdict.rules()[explanation.rule];
            object["mode"] = json!(mode_text(rule.mode));
            if let Some(line) = self.line(explanation.rule) {
                object["limits"] = json!(limits_of(rule, line.tier));
                object["admits"] = json!(line.ruling == Ruling::Admitted);
                let is_limited = line.limit != u64::MAX;
                object["limit"] = json!(is_limited.then_some(line.limit));
                object["remaining"] = json!(is_limited.then_some(line.remaining));
            }
            object
        };
        json!({
            "version": 1,
            "admitted": self.verdict.is_admitted(),
            "refused_by": self.verdict.refused_by().map(|rule| &*rule.name),
            "rules": self.explanations.iter().map(rule).collect::<Vec<_>>(),
        })
    }
}

fn limits_of(rule: &tollgate_rules::Rule, tier: Option<usize>) -> String {
    let limits = tier.and_then(|tier| rule.tiers.get(tier)).map_or(&rule.limits, |tier| &tier.limits);
    limits_text(limits)
}

fn line_text(line: &Line, limits: &str) -> String {
    match line.ruling {
        Ruling::Admitted if line.limit == u64::MAX => limits.to_owned(),
        Ruling::Admitted => format!("{limits}: {} of {} left", grouped(line.remaining), grouped(line.limit)),
        Ruling::Unavailable => format!("{limits}: its store is not asked"),
        Ruling::Never => format!("{limits}: costs more than the whole limit"),
        Ruling::NoKey => "refused without a key".to_owned(),
        _ => limits.to_owned(),
    }
}

/// How much of a value is shown.
const WIDTH: usize = 60;

fn key_text(key: &[KeyPart]) -> String {
    let part = |part: &KeyPart| match &part.value {
        Some(value) => format!("{}={}", part.attribute, printable(value.as_bytes(), WIDTH)),
        None => format!("{} missing", part.attribute),
    };
    match key {
        [] => "key everyone".to_owned(),
        _ => format!("key {}", key.iter().map(part).collect::<Vec<_>>().join(", ")),
    }
}

/// The conditions of `match` that do not hold.
fn reasons_text(reasons: &[Reason], between: &str) -> String {
    reasons.iter().map(reason_text).collect::<Vec<_>>().join(between)
}

fn reason_text(reason: &Reason) -> String {
    let attribute = &reason.attribute;
    match seen(reason) {
        None => format!("{attribute} is missing, wanted {}", wanted(reason)),
        Some(seen) => format!("{attribute} {seen} is not {}", wanted(reason)),
    }
}

/// The conditions of `except` that hold.
fn excepted_text(reasons: &[Reason]) -> String {
    let reason = |reason: &Reason| match seen(reason) {
        None => format!("{} is {}", reason.attribute, wanted(reason)),
        Some(seen) => format!("{} {seen} is {}", reason.attribute, wanted(reason)),
    };
    reasons.iter().map(reason).collect::<Vec<_>>().join(" and ")
}

fn seen(reason: &Reason) -> Option<String> {
    let seen: Vec<String> = reason.seen.iter().map(|value| printable(value.as_bytes(), WIDTH)).collect();
    (!seen.is_empty()).then(|| seen.join(" or "))
}

fn wanted(reason: &Reason) -> String {
    let mut wanted: Vec<String> =
        reason.wanted.iter().map(|value| printable(value.as_bytes(), WIDTH)).collect();
    if reason.wanted_more > 0 {
        wanted.push(format!("{} more", grouped(reason.wanted_more as u64)));
    }
    wanted.join(" or ")
}
