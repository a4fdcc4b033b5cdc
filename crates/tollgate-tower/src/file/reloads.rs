//! Reports of reloads.

use tollgate_rules_file::ReloadError;

/// Is called with the generation that a reload put in force, or with its error.
pub(super) type ReloadHook = Box<dyn FnMut(Result<u64, &ReloadError>) + Send>;

/// Counts a reload.
#[cfg_attr(not(feature = "metrics"), expect(unused_variables))]
pub(super) fn count(reloaded: Result<u64, &ReloadError>) {
    #[cfg(feature = "metrics")]
    {
        let result = if reloaded.is_ok() { "success" } else { "failure" };
        metrics::counter!("tollgate_rules_reloads_total", "result" => result).increment(1);
        metrics::gauge!("tollgate_rules_last_reload_successful").set(if reloaded.is_ok() {
            1.0
        } else {
            0.0
        });
        if let Ok(generation) = reloaded {
            metrics::gauge!("tollgate_rules_generation").set(generation as f64);
        }
    }
}

/// Counts a reload and tells of it; if there is no hook, as an event or on standard error.
pub(super) fn tell(reloaded: Result<u64, &ReloadError>, hook: Option<&mut ReloadHook>) {
    count(reloaded);
    if let Some(hook) = hook {
        return hook(reloaded);
    }
    #[cfg(feature = "tracing")]
    if tracing::dispatcher::has_been_set() {
        match reloaded {
            Ok(generation) => tracing::info!(generation, "new rules are in force"),
            Err(error) => {
                tracing::error!(%error, "the rules were not read again: the old ones stay in force")
            }
        }
        return;
    }
    if let Err(error) = reloaded {
        use std::io::Write;
        // Not `eprintln`, which panics if standard error is closed.
        let _ = writeln!(
            std::io::stderr(),
            "tollgate: the rules were not read again, and the old ones stay in force\n\n{error}"
        );
    }
}
