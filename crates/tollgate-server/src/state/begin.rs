//! Restores the state, and puts the rules of today in force.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use tollgate_rules::{Cause, Conflict, NotRestored};
use tollgate_rules_file::{Disk, LiveFile};

use super::file::{self, Restored};
use super::{StateError, StateLock, StateReport};
use crate::clock::ServerClock;
use crate::core::{CallLimiter, Envoy, EnvoyFiles};
use crate::settings::Settings;
use crate::start_error::StartError;

/// What a server begins with.
pub(crate) struct Begun {
    pub(crate) file: LiveFile<ServerClock>,
    /// The keys of `CL.THROTTLE`; `None`: there are none yet.
    pub(crate) calls: Option<CallLimiter>,
    /// The files of envoyproxy/ratelimit, if the settings name any.
    pub(crate) envoy: Option<Envoy>,
    pub(crate) report: StateReport,
    /// Keeps other servers from the state file, as long as this one may save to it.
    pub(crate) lock: Option<StateLock>,
}

/// Reads the state file, if there is one, and the rules file.
pub(crate) fn begin(settings: &Settings, clock: &ServerClock) -> Result<Begun, StartError> {
    // First: files that are not in order must not cost the state.
    let mut envoy = open_envoy(settings, clock)?;
    let lock = locked(settings)?;
    let Some(Restored { file, forgotten, calls }) = restored(settings, clock, &mut envoy)? else {
        let file = LiveFile::open(&settings.rules, &Disk, ServerClock::clone(clock));
        let file = file.map_err(StartError::Rules)?;
        return Ok(Begun { file, calls: None, envoy, report: StateReport::default(), lock });
    };
    let resumed = file.reload_forgetting(&settings.rules, &Disk).map_err(StartError::Rules)?;
    let report = StateReport::default();
    report.forgotten_rules.store(tell(&forgotten, &resumed.forgotten), Relaxed);
    if let Err(error) = &calls {
        tracing::error!(%error, "the keys of CL.THROTTLE begin without the state that they had");
    }
    Ok(Begun { file, calls: calls.ok(), envoy, report, lock })
}

fn open_envoy(settings: &Settings, clock: &ServerClock) -> Result<Option<Envoy>, StartError> {
    let open = |files| Envoy::open(files, ServerClock::clone(clock));
    EnvoyFiles::of(settings).map(open).transpose().map_err(StartError::Envoy)
}

/// The lock of the state file, if there is a file that can be saved to.
fn locked(settings: &Settings) -> Result<Option<StateLock>, StartError> {
    let Some(path) = &settings.state else { return Ok(None) };
    let lock = file::check(path).and_then(|()| StateLock::take(path));
    lock.map_err(|error| fails(path, error))
}

fn fails(path: &Path, error: StateError) -> StartError {
    StartError::State { path: path.to_owned(), error: Box::new(error) }
}

/// The state of the file. `None`: there is none, or it is damaged and was put aside.
fn restored(
    settings: &Settings,
    clock: &ServerClock,
    envoy: &mut Option<Envoy>,
) -> Result<Option<Restored>, StartError> {
    let Some(path) = &settings.state else { return Ok(None) };
    let error = match file::restore(path, settings.resp_max_keys, envoy.as_mut(), clock) {
        Ok(restored) => {
            let is_there = restored.is_some();
            tracing::info!(file = %path.display(), is_there, "state was read");
            return Ok(restored);
        }
        Err(error) => error,
    };
    if settings.strict_state {
        return Err(fails(path, error));
    }
    let file = path.display();
    match file::put_aside(path) {
        Ok(aside) => tracing::error!(
            %file, %error, aside = %aside.display(),
            "STATE IS LOST: the file was put aside, and all limits begin anew"
        ),
        Err(why) => tracing::error!(
            %file, %error, not_put_aside = %why,
            "STATE IS LOST: the file is not taken, and all limits begin anew"
        ),
    }
    // Without the counts that may have been restored before the damage was found.
    *envoy = open_envoy(settings, clock)?;
    Ok(None)
}

/// Logs the forgotten parts. Returns how many rules it concerns.
fn tell(not_restored: &[NotRestored], conflicts: &[Conflict]) -> u64 {
    for forgotten in not_restored {
        tracing::error!("{forgotten}");
    }
    // No listener takes requests yet, so where no key is in debt there is nothing to forget.
    let loses = |conflict: &&Conflict| conflict.keys_in_debt > 0 || conflict.cause == Cause::Store;
    let (lost, empty): (Vec<_>, Vec<_>) = conflicts.iter().partition(loses);
    for conflict in &empty {
        tracing::info!(rule = %conflict.rule, "the rule changed, and no key was in debt: it begins anew");
    }
    for conflict in &lost {
        tracing::error!("the new rules cannot take over: {conflict}; it is forgotten");
    }
    let rules = not_restored.iter().map(|forgotten| &forgotten.rule);
    let mut rules: Vec<_> = rules.chain(lost.iter().map(|conflict| &conflict.rule)).collect();
    rules.sort();
    rules.dedup();
    rules.len() as u64
}
