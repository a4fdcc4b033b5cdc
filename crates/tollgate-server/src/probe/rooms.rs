//! All rooms over one core, on a clock that a test sets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use http_body_util::BodyExt;
use tollgate::{Clock, ManualClock};
use tollgate_net::listen::Drain;
use tollgate_net::web::Answer;
use tollgate_rules::LiveRules;

use crate::admin::Admin;
use crate::clock::ServerClock;
use crate::core::{Core, ready};
use crate::resp::Probe;
use crate::settings::Settings;
use crate::start_error::StartError;
use crate::state::{self, begin};
use crate::v1;

/// A server that has restored its state and serves no sockets.
pub struct RoomsProbe {
    core: Arc<Core>,
    settings: Settings,
    v1: v1::Service,
    admin: Arc<Admin>,
    resp: Probe,
}

impl RoomsProbe {
    /// Begins as a server with these settings does, on this clock. Leaves its state file unlocked.
    ///
    /// # Errors
    ///
    /// As the server.
    ///
    /// # Panics
    ///
    /// Without memory, and where the administrators' token cannot be read.
    pub fn begin(settings: Settings, clock: ManualClock) -> Result<Self, StartError> {
        let shown: ServerClock = Arc::new(clock.clone());
        let begun = begin(&settings, &shown)?;
        let mut core = Core::new(begun.file, shown, settings.resp_max_keys, false).expect("there is memory");
        (core.envoy, core.state) = (begun.envoy, begun.report);
        begun.calls.into_iter().for_each(|calls| core.calls.put(calls));
        let core = Arc::new(core);
        let v1 = v1::Service::new(Arc::clone(&core), &settings);
        let admin = Admin::new(&core, &settings, &Drain::default()).expect("the token is read");
        let resp = Probe::of(&core, &settings, clock);
        Ok(Self { core, settings, v1, admin, resp })
    }

    /// The rules in force.
    #[must_use]
    pub fn live(&self) -> &LiveRules<Arc<dyn Clock + Send + Sync>> {
        &self.core.live
    }

    /// How many rules began without the state that they had.
    #[must_use]
    pub fn forgotten_rules(&self) -> u64 {
        self.core.state.forgotten_rules.load(Relaxed)
    }

    /// Saves the state to its file, if the settings name one.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self) -> io::Result<()> {
        self.settings.state.as_deref().map_or(Ok(()), |path| state::save_now(path, &self.core).map(drop))
    }

    /// What a Redis client is answered.
    #[must_use]
    pub fn redis(&self, commands: &[u8]) -> Vec<u8> {
        self.resp.answers([commands]).output
    }

    /// What a body is answered that is posted to a path of the HTTP API.
    #[must_use]
    pub fn post(&self, path: &str, body: &[u8]) -> (StatusCode, Bytes) {
        read(self.v1.post(path, body))
    }

    /// What a proxy is answered that asks with this head, as if the turn of a request that waits
    /// had come.
    ///
    /// # Errors
    ///
    /// What the head lacks.
    pub fn authorize(&self, head: Parts) -> Result<StatusCode, String> {
        self.v1.authorize_now(head)
    }

    /// What an administrator is answered who does an order for the key of a request.
    #[must_use]
    pub fn order(&self, rule: &str, body: &[u8]) -> (StatusCode, Bytes) {
        read(self.admin.order(rule, body))
    }

    /// What an administrator is answered who reloads with this query.
    pub async fn reload(&self, query: Option<&str>) -> (StatusCode, Bytes) {
        read(self.admin.reload_now(query).await)
    }
}

/// The status and the body, which is complete.
fn read(answer: Answer) -> (StatusCode, Bytes) {
    let status = answer.status();
    let body = ready(answer.into_body().collect());
    (status, body.map(|body| body.to_bytes()).unwrap_or_default())
}
