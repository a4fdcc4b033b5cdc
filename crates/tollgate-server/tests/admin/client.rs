//! A server that administrators ask.

use std::path::Path;

use tollgate_server::Settings;
use tollgate_testing::servers::{Running, loopback};

pub(crate) const RULES: &str = "version = 1
rule = [
    { name = 'each', key = 'client', limits = 'fixed-window:10/h' },
    { name = 'user', key = 'header.x-user', limits = 'fixed-window:5/h', missing = 'pass', ban = '10min' },
    { name = 'try', key = 'everyone', limits = '1000/s', mode = 'shadow' },
]
";

pub(crate) async fn start(rules: &str, set: impl FnOnce(&mut Settings, &Path)) -> Running {
    let settings = |settings: &mut Settings, folder: &Path| {
        settings.admin.push(loopback());
        set(settings, folder);
    };
    Running::start(rules, settings).await
}
