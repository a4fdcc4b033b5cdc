//! A server of its own for a test.

pub(crate) use tollgate_testing::servers::Running;

use tollgate_server::Settings;
use tollgate_testing::servers::loopback;

pub(crate) async fn start(rules: &str) -> Running {
    start_with(rules, |_| {}).await
}

/// Starts a server with these rules, each as `[[rule]]` writes them inline.
pub(crate) async fn start_with(rules: &str, set: impl FnOnce(&mut Settings)) -> Running {
    let settings = |settings: &mut Settings, _: &_| {
        settings.http.push(loopback());
        set(settings);
    };
    Running::start(rules, settings).await
}
