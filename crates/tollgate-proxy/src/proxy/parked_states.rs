//! The state of a kept request, which its client may ask for.
//!
//! No rule sees these requests. A rule that parks would charge them to the limit for whose room the
//! parked request itself waits, and park them in the end. So each client has a bound of its own.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode};
use serde_json::json;
use tollgate::{BuildError, Limiter, Rate, TokenBucket};
use tollgate_net::listen::Client;
use tollgate_net::web::{self, Answer, problem};

use super::shared::Shared;
use crate::ServerClock;
use crate::park::{Entry, Parks, Unchanged};

/// The path of a state, before the request's id.
pub(super) const STATES: &str = "/.well-known/tollgate/parked/";

/// How often a client may ask: so often a second, and so often at once.
const OFTEN: TokenBucket = TokenBucket::new(Rate::per_second(100)).burst(200);

/// The states of kept requests.
pub struct States {
    /// By the numbers of clients.
    asked: Limiter<u64, TokenBucket, 1, ServerClock>,
}

impl States {
    /// Those of clients whose times this clock tells.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn new(clock: &ServerClock) -> Result<Self, BuildError> {
        Ok(Self { asked: Limiter::builder(OFTEN).per::<u64>().clock(Arc::clone(clock)).build()? })
    }

    /// Answers a client that asks for the state of a request, which changes when that is sent.
    pub(super) async fn answer(&self, shared: &Shared, client: IpAddr, method: &Method, id: &str) -> Answer {
        let wait = self.asked.check(Client::from(client).number()).retry_after();
        let mut answer = match wait {
            None => state(&shared.parks, method, id).await,
            Some(wait) => {
                shared.counts.protocol_error("park_state", client);
                let mut answer = problem(StatusCode::TOO_MANY_REQUESTS, "states are asked for too often");
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
                answer
            }
        };
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer
    }
}

async fn state(parks: &Parks, method: &Method, id: &str) -> Answer {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return problem(StatusCode::METHOD_NOT_ALLOWED, "this page answers GET only");
    }
    let unknown = || problem(StatusCode::NOT_FOUND, "no such request is kept");
    let Ok(id) = id.parse() else { return unknown() };
    let entry = match parks.entry(id).await {
        Ok(entry) => entry,
        Err(Unchanged::Store(_)) => {
            return problem(StatusCode::SERVICE_UNAVAILABLE, "the store of requests does not answer");
        }
        Err(Unchanged::Unknown | Unchanged::Unfit) => return unknown(),
    };
    let Entry { id, state, status, tries, parked_at, expires_at, ended_at, .. } = entry;
    let seconds = |millis: u64| millis as f64 / 1e3;
    let shown = json!({
        "id": id, "state": state, "status": status, "tries": tries,
        "parked_at": seconds(parked_at), "expires_at": seconds(expires_at),
        "ended_at": ended_at.map(seconds),
    });
    web::json(StatusCode::OK, &shown)
}
