//! What a client hears, without a connection.

mod parse;
mod throttle;
mod turns;

use super::probe::Probe;
use crate::settings::Settings;

fn probe() -> Probe {
    Probe::new(10_000, &Settings::new("none.toml"))
}
