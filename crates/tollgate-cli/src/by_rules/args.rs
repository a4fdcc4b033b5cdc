//! The options that say how a log is read as requests of rules.

use std::time::Duration;

use tollgate_logs::TimeIs;

use super::map::Map;
use crate::failure::Failure;
use crate::spec::period;

/// How a log is read as requests.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LogArgs {
    /// The field of the log that holds what rules see: label.user=user_id
    ///
    /// Attributes: client, method, host, path, status, header.NAME, label.NAME, domain,
    /// entry.NAME; duration=FIELD:UNIT is how long a request lasts (s, ms, us, ns), and settles
    /// what it really cost, which is told at its end. Fields: as for --key-field; of an access log
    /// client, ident, user, request, method, path, protocol, status, bytes, referer, agent, and of
    /// what follows them extra.1 (the first) or extra.rt (the value of rt=0.005). May be given
    /// several times.
    #[arg(long = "map", value_name = "ATTRIBUTE=FIELD", help_heading = "Rules")]
    pub(super) maps: Vec<Map>,

    /// How long a request lasts of which the log does not say it, such as 200ms
    ///
    /// Until its end a request holds what it was charged: what charge_if gives back comes back
    /// then, and its places in flight. Without it such requests are taken to end at once.
    #[arg(long, value_name = "TIME", value_parser = period, help_heading = "Rules", allow_hyphen_values = true)]
    pub(super) lasts: Option<Duration>,

    /// Which end of a request the time of its line is [default: as the format has it]
    ///
    /// nginx, Caddy and most programs write when a request has ended; Apache, Envoy and Traefik
    /// when it has begun, and so do fields with "start" or "begin" in their names. A request is
    /// decided at its arrival.
    #[arg(long, value_enum, value_name = "END", help_heading = "Rules")]
    pub(super) time_is: Option<TimeIs>,
}

impl LogArgs {
    /// Checks that a command without a rules file has none of them.
    ///
    /// # Errors
    ///
    /// The option that was given.
    pub(crate) fn need_rules(&self) -> Result<(), Failure> {
        match self.given() {
            Some(option) => Err(Failure::Usage(format!("{option} is for --rules: name a rules file"))),
            None => Ok(()),
        }
    }

    /// The first option that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        match self {
            Self { maps, .. } if !maps.is_empty() => Some("--map"),
            Self { lasts: Some(_), .. } => Some("--lasts"),
            Self { time_is: Some(_), .. } => Some("--time-is"),
            _ => None,
        }
    }
}
