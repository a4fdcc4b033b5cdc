//! The rules in force, what a reload would do, and reloads.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use tollgate_net::web::{self, Answer, problem};
use tollgate_rules::{Conflict, ExchangeError, Key, Limit, Limits, Rule};
use tollgate_rules_file::{Disk, EnvoyHits, EnvoyLimit, ReloadError, Source, read, run_tests};

use super::access::Who;
use super::blocking::blocking;
use super::failure::Failure;
use super::query::parameter;
use super::state::Admin;
use crate::core::Core;
use crate::metrics::{EnvoyFilesShown, envoy_mode, hex, mode};

/// A rule, as operators see it.
#[derive(Serialize)]
struct ShownRule {
    name: Box<str>,
    mode: &'static str,
    key: String,
    limits: String,
}

/// A limit of a file of envoyproxy/ratelimit, as operators see it.
#[derive(Serialize)]
struct ShownLimit {
    limit: Box<str>,
    mode: &'static str,
    /// Such as `100/day`; `unlimited`.
    limits: String,
    hits: u64,
    over: u64,
    near: u64,
    place: String,
}

/// The files of envoyproxy/ratelimit in force, and their limits: the `most` that were asked most,
/// in the order of the files. `None`: there are no files.
pub(super) fn envoy(core: &Core, most: usize) -> Option<Value> {
    let EnvoyFilesShown { generation, hash, mut limits, store } = core.envoy.as_ref()?.shown();
    let left_out = limits.len().saturating_sub(most);
    limits.sort_by_key(|(_, hits)| Reverse(hits.total));
    limits.truncate(most);
    limits.sort_by_key(|(limit, _)| limit.index);
    let shown = |(limit, hits): (EnvoyLimit, EnvoyHits)| ShownLimit {
        mode: envoy_mode(&limit),
        limits: limit.unit.map_or("unlimited".into(), |unit| format!("{}/{unit}", limit.requests_per_unit)),
        place: format!("{}:{}", limit.file, limit.line),
        limit: limit.composite,
        hits: hits.total,
        over: hits.over,
        near: hits.near,
    };
    let limits: Vec<ShownLimit> = limits.into_iter().map(shown).collect();
    Some(json!({
        "generation": generation,
        "sha256": hex(&hash),
        "store": store,
        "limits": limits,
        "limits_left_out": left_out,
    }))
}

impl Admin {
    /// `GET /admin/rules`
    pub(super) fn show_rules(&self) -> Answer {
        let status = self.core.live.status();
        let set = self.core.live.rules();
        let shown = |rule: &Rule| ShownRule {
            name: rule.name.clone(),
            mode: mode(rule.mode),
            key: key_text(&rule.key),
            limits: limits_text(&rule.limits),
        };
        let rules: Vec<_> = set.rules().rules.iter().map(shown).collect();
        web::json(
            StatusCode::OK,
            &json!({
                "generation": status.generation,
                "sha256": hex(&status.hash),
                "since": unix(status.since),
                "last_error": self.core.last_error(),
                "rules": rules,
                "envoy": envoy(&self.core, usize::MAX),
            }),
        )
    }

    /// `POST /admin/plan` with a rules file: what a reload with it would do. It may include the
    /// files, and use the variables, that the present one does, and no others: it must not serve to
    /// read what else is on this machine.
    pub(super) async fn plan(self: Arc<Self>, body: Bytes) -> Result<Answer, Failure> {
        blocking(move || {
            let present = Recorder::default();
            let _ = read(&self.rules, &present);
            let proposed = Proposed { path: &self.rules, bytes: &body, present };
            let reading = read(&self.rules, &proposed);
            let (hash, warnings) = (reading.hash(), reading.to_string());
            let planned = reading.into_rules().map_err(|reading| ReloadError::File(Box::new(reading)));
            let planned = planned.and_then(|rules| match run_tests(&rules) {
                failures if failures.is_empty() => Ok(self.core.live.plan(rules)?),
                failures => Err(ReloadError::Tests(failures)),
            });
            let (status, answer) = match planned {
                Ok(plan) => {
                    let change = |rule: &tollgate_rules::RulePlan| {
                        json!({ "rule": rule.rule, "change": rule.change.to_string() })
                    };
                    let rules: Vec<Value> = plan.iter().map(change).collect();
                    (StatusCode::OK, json!({ "applies": true, "rules": rules, "warnings": warnings }))
                }
                Err(error) => (StatusCode::UNPROCESSABLE_ENTITY, refused(&error)),
            };
            let is_present = hash == self.core.live.status().hash;
            web::json(status, &with(answer, "is_in_force", is_present))
        })
        .await
    }

    /// `POST /admin/reload[?forget=rule,…]`: reads the rules file and puts it in force. The rules
    /// that are named may forget their keys' debts where the change cannot keep them.
    pub(super) async fn reload(self: Arc<Self>, who: Who, query: Option<&str>) -> Result<Answer, Failure> {
        let forget = parameter(query, "forget").unwrap_or_default();
        blocking(move || {
            let forget: Vec<&str> = forget.split(',').filter(|name| !name.is_empty()).collect();
            if let Some(name) = self.unknown_rule(&forget) {
                let why = format!("`forget` names the rule `{name}`, which there is not");
                return problem(StatusCode::NOT_FOUND, &why);
            }
            self.core.reload_envoy();
            let done = if forget.is_empty() {
                self.core.file.reload(&self.rules, &Disk)
            } else {
                self.core.file.reload_forget(&self.rules, &Disk, &forget)
            };
            self.core.reloaded(done.is_ok());
            match done {
                Ok(generation) => {
                    tracing::info!(%who, generation, ?forget, "reloaded by an administrator");
                    // The rules are in order: an error is of the files of envoyproxy/ratelimit.
                    match self.core.last_error() {
                        None => web::json(StatusCode::OK, &json!({ "generation": generation })),
                        Some(error) => web::json(
                            StatusCode::UNPROCESSABLE_ENTITY,
                            &json!({ "generation": generation, "error": error }),
                        ),
                    }
                }
                Err(error) => {
                    tracing::error!(%who, %error, ?forget, "a reload by an administrator failed");
                    web::json(StatusCode::UNPROCESSABLE_ENTITY, &refused(&error))
                }
            }
        })
        .await
    }

    /// The first of these names that is a rule neither now nor in the file. `None` if the file is
    /// wrong, too: the reload says how.
    fn unknown_rule<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        let set = self.core.live.rules();
        let is_present = |name: &str| set.rules().rules.iter().any(|rule| &*rule.name == name);
        let mut missing = names.iter().copied().filter(|name| !is_present(name)).peekable();
        missing.peek()?;
        let new = read(&self.rules, &Disk).into_rules().ok()?;
        missing.find(|name| !new.rules.iter().any(|rule| &*rule.name == *name))
    }
}

fn refused(error: &ReloadError) -> Value {
    let conflict = |conflict: &Conflict| {
        json!({
            "rule": conflict.rule,
            "tier": conflict.tier,
            "keys_in_debt": conflict.keys_in_debt,
            "why": conflict.to_string(),
        })
    };
    let conflicts: Vec<Value> = match error {
        ReloadError::Exchange(ExchangeError::Forgets(conflicts)) => conflicts.iter().map(conflict).collect(),
        _ => Vec::new(),
    };
    json!({ "applies": false, "error": error.to_string(), "would_forget": conflicts })
}

fn with(mut object: Value, name: &str, value: bool) -> Value {
    object[name] = value.into();
    object
}

/// The disk, and the files that were read.
#[derive(Default)]
struct Recorder {
    files: RefCell<BTreeSet<PathBuf>>,
    directories: RefCell<BTreeSet<PathBuf>>,
    variables: RefCell<BTreeSet<String>>,
}

impl Source for Recorder {
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        self.files.borrow_mut().insert(path.into());
        Disk.read(path, most)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.directories.borrow_mut().insert(directory.into());
        Disk.names(directory)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.borrow_mut().insert(name.into());
        Disk.variable(name)
    }
}

/// Other bytes for the rules file, and of all else only what the present one reads.
struct Proposed<'p> {
    path: &'p Path,
    bytes: &'p [u8],
    present: Recorder,
}

impl Source for Proposed<'_> {
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        if path == self.path {
            return Ok(self.bytes.into());
        }
        if self.present.files.borrow().contains(path) { Disk.read(path, most) } else { Err(unread()) }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let is_present = self.present.directories.borrow().contains(directory);
        if is_present { Disk.names(directory) } else { Err(unread()) }
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.present.variables.borrow().contains(name).then(|| Disk.variable(name))?
    }

    fn withholds(&self, name: &str) -> Option<&'static str> {
        (!self.present.variables.borrow().contains(name)).then_some(UNREAD)
    }
}

/// Why a plan does not read something.
const UNREAD: &str = "a plan reads only what the present rules file reads";

fn unread() -> io::Error {
    io::Error::other(UNREAD)
}

/// A time in seconds of Unix time.
pub(super) fn unix(time: std::time::SystemTime) -> u64 {
    time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}

pub(super) fn key_text(key: &Key) -> String {
    match key {
        Key::Everyone => "everyone".into(),
        Key::Attributes(attributes) => {
            attributes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Limits as a file writes them.
pub(super) fn limits_text(limits: &Limits) -> String {
    let limit = |limit: &Limit| match limit {
        Limit::Quota(quota) => quota.to_string(),
        Limit::InFlight { most, ttl: None } => format!("in-flight:{most}"),
        Limit::InFlight { most, ttl: Some(ttl) } => format!("in-flight:{most},ttl={ttl:?}"),
    };
    match limits {
        Limits::Each(each) => each.iter().map(limit).collect::<Vec<_>>().join(" and "),
        Limits::Unlimited => "unlimited".into(),
        Limits::Block => "block".into(),
        Limits::PerRequest => "of each request".into(),
        Limits::Elsewhere => "decided elsewhere".into(),
    }
}
