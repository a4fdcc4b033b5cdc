//! The keys of a rule.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_net::web::{self, Answer};
use tollgate_rules::{PlainRequest, RuleSet, Ruling, Scratch};

use super::access::Who;
use super::failure::{Failure, bad};
use super::key_text;
use super::query::{decoded, parameter};
use super::state::Admin;
use crate::clock::ServerClock;
use crate::web::{Client, Object, read_json};

/// The most keys of a rule that are shown.
const TOP: usize = 100;

/// An order for the key of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    request: Object<Described>,
    #[serde(rename = "do")]
    action: Action,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// Nothing: it is looked at.
    Peek,
    /// Its debt and its ban are forgiven.
    Reset,
    /// It is given so many units back.
    Refund(u64),
}

/// A request, as far as the rules need it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Described {
    method: Option<String>,
    host: Option<String>,
    target: Option<String>,
    client: Option<Client>,
    headers: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    domain: Option<String>,
    entries: BTreeMap<String, String>,
}

impl From<Described> for PlainRequest {
    fn from(described: Described) -> Self {
        let pairs = |pairs: BTreeMap<String, String>| {
            pairs.into_iter().map(|(name, value)| (name, value.into_bytes())).collect()
        };
        Self {
            method: described.method,
            host: described.host,
            target: described.target.map(String::into_bytes),
            client: described.client.map(|Client(address)| address),
            headers: pairs(described.headers),
            labels: pairs(described.labels),
            domain: described.domain,
            entries: pairs(described.entries),
        }
    }
}

impl Admin {
    /// `GET /admin/top?rule=`: the keys that a rule refused most in the last 5 to 10 minutes.
    pub(super) fn show_top(&self, query: Option<&str>) -> Result<Answer, Failure> {
        let name = parameter(query, "rule").ok_or_else(|| bad("which rule? /admin/top?rule=NAME"))?;
        let generation = self.core.metrics.generation();
        let index = index_of(&generation.set, &name)?;
        let top = generation.counts[index].top(self.core.metrics.now());
        let rule = &generation.set.rules().rules[index];
        let shown = |key: &crate::metrics::Refused| {
            json!({
                "key": key_text::shown(rule, key.hash, key.key.as_deref()),
                "refused": key.at_most,
                "refused_at_least": key.at_most - key.doubt,
            })
        };
        let keys: Vec<Value> = top.keys.iter().take(TOP).map(shown).collect();
        let share = top.share_of_ten();
        Ok(web::json(
            StatusCode::OK,
            &json!({ "rule": name, "refusals": top.refusals, "top10_ratio": share, "keys": keys }),
        ))
    }

    /// `POST /admin/keys/{rule}` with a request: looks at its key, or helps it.
    pub(super) fn key(&self, who: Who, rule: &str, body: &[u8]) -> Result<Answer, Failure> {
        let Order { request: Object(described), action } = match read_json(body) {
            Ok(Object(order)) => order,
            Err(answer) => return Ok(*answer),
        };
        let (name, request) = (decoded(rule), PlainRequest::from(described));
        let mut decider = self.core.decider();
        let set = decider.handle().refresh();
        let index = index_of(set, &name)?;
        if set.rules().rules[index].store.is_some() {
            let why = "a store keeps the counts of the rule: look there";
            return Err(Failure(StatusCode::UNPROCESSABLE_ENTITY, why.into()));
        }
        let mut scratch = Scratch::default();
        let done = {
            let key = set.key(index, &request, &mut scratch).ok_or_else(|| {
                Failure(StatusCode::UNPROCESSABLE_ENTITY, "the rule has no key for this request".into())
            })?;
            let shown = self.core.metrics.shown_hash(key.as_bytes());
            let done = match action {
                Action::Peek => Value::Null,
                Action::Reset => key.reset().into(),
                Action::Refund(units) => key.credit(units).into(),
            };
            if !matches!(action, Action::Peek) {
                tracing::info!(%who, rule = name, key = shown, ?action, %done, "a key was changed");
            }
            json!({ "key": shown, "done": done })
        };
        let state = state(set, index, &request, &mut scratch);
        Ok(web::json(
            StatusCode::OK,
            &json!({ "rule": name, "key": done["key"], "done": done["done"], "state": state }),
        ))
    }
}

/// What the rule would say of the request now.
fn state(set: &RuleSet<ServerClock>, rule: usize, request: &PlainRequest, scratch: &mut Scratch) -> Value {
    let verdict =
        set.ask(request, tollgate_rules::Ask { cost: 0, is_peek: true, ..Default::default() }, scratch);
    let Some(line) = verdict.lines().iter().find(|line| line.rule == rule) else { return Value::Null };
    let is_limited = line.limit != u64::MAX;
    json!({
        "outcome": match line.ruling {
            Ruling::Admitted => "admitted",
            Ruling::Refused => "refused",
            Ruling::Unavailable => "unavailable",
            Ruling::Never => "never",
            Ruling::NoKey => "no_key",
            Ruling::Blocked => "blocked",
        },
        "limit": is_limited.then_some(line.limit),
        "remaining": is_limited.then_some(line.remaining),
        "retry_after_ns": line.retry_after.map(nanos),
        "reset_ns": nanos(line.reset_after),
    })
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn index_of(set: &RuleSet<ServerClock>, name: &str) -> Result<usize, Failure> {
    let index = set.rules().rules.iter().position(|rule| &*rule.name == name);
    index.ok_or_else(|| Failure(StatusCode::NOT_FOUND, "there is no such rule".into()))
}
