//! `tollgate serve`: the limiter as a service; `tollgate proxy`: one in front of a server;
//! `tollgate health`: whether one answers.

mod args;
mod bytes;
mod health;
mod log;
mod proxy;

use tollgate_server::{Server, Settings, Signals, StartError};

use crate::failure::Failure;

pub(crate) use args::{AFTER, Args};
pub(crate) use health::{AFTER as HEALTH_AFTER, Args as HealthArgs, run as health};
pub(crate) use proxy::{AFTER as PROXY_AFTER, Args as ProxyArgs};

/// Serves until a signal ends the process.
///
/// # Errors
///
/// When it does not start.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    start(args.settings(), args)
}

/// Serves, with a proxy, until a signal ends the process.
///
/// # Errors
///
/// When it does not start.
pub(crate) fn proxy(args: &ProxyArgs) -> Result<(), Failure> {
    start(args.settings(), &args.serve)
}

fn start(settings: Result<Settings, String>, args: &Args) -> Result<(), Failure> {
    let settings = settings.map_err(Failure::Usage)?;
    log::begin(&args.log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Usage(format!("no threads can be started: {error}")))?;
    let ended = runtime.block_on(serve(settings));
    // What the drain did not wait for is not waited for now.
    runtime.shutdown_background();
    ended
}

async fn serve(settings: Settings) -> Result<(), Failure> {
    // First: a signal during the start would end the process.
    let signals =
        Signals::listen().map_err(|error| Failure::Usage(format!("signals cannot be received: {error}")))?;
    let rules = settings.rules.clone();
    let server = Server::start(settings).await.map_err(|error| {
        Failure::Usage(match error {
            StartError::Rules(error) => {
                format!("{error}\nthe server did not start: see tollgate rules check {}", rules.display())
            }
            error => error.to_string(),
        })
    })?;
    server.run(signals).await.map_err(|error| Failure::Usage(error.to_string()))
}
