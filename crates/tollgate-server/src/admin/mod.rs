//! Administration, and the live page.
//!
//! | file | what |
//! |------|------|
//! | `state` | what all pages work on |
//! | `routes` | the paths |
//! | `access` | who may administer |
//! | `rules` | the rules in force, what a reload would do, reloads |
//! | `keys`, `key_text` | the keys of a rule: the most refused, one that is looked at or helped |
//! | `parked` | requests that are kept for later |
//! | `failure` | why a request is not served |
//! | `blocking` | work for which no connection waits |
//! | `query` | the parameters of a query |
//! | `live`, `history` | what the live page shows |
//! | `page` | the live page, and what its browser may load |
//! | `openapi` | holds the document to the types |

mod access;
mod blocking;
mod failure;
mod history;
mod key_text;
mod keys;
mod live;
#[cfg(test)]
mod openapi;
mod page;
mod parked;
mod query;
mod routes;
mod rules;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Request, StatusCode};
use tokio::sync::Mutex;
use tollgate_net::listen::{Connection, Drain, Peer};
use tollgate_net::web::{self, Answer, BodyError, RequestBody, problem};

use crate::core::Core;
use crate::metrics::Listener;
use crate::settings::Settings;
use crate::web::Route as _;
use access::Who;
use failure::Failure;
use history::History;
use routes::{Guarded, OPENAPI, Open, Route};
pub(crate) use state::Admin;

impl Admin {
    /// Reads the token, and begins to keep the last minutes for the live page. Needs a tokio
    /// runtime.
    pub(crate) fn new(core: &Arc<Core>, settings: &Settings, drain: &Drain) -> io::Result<Arc<Self>> {
        let token = settings.admin_token.as_deref().map(read_token).transpose()?;
        let admin = Arc::new(Self {
            core: Arc::clone(core),
            drain: drain.clone(),
            limits: settings.limits,
            rules: settings.rules.clone(),
            token,
            history: History::default(),
            started: Instant::now(),
        });
        if !settings.admin.is_empty() {
            tokio::spawn(history::keep(Arc::clone(&admin)));
        }
        Ok(admin)
    }

    async fn answer(self: Arc<Self>, peer: Peer, request: Request<RequestBody>) -> Answer {
        let served = self.serve(peer, request).await;
        let mut answer = served.unwrap_or_else(|Failure(status, detail)| problem(status, &detail));
        let headers = answer.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        if answer.status() == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }

    async fn serve(self: Arc<Self>, peer: Peer, request: Request<RequestBody>) -> Result<Answer, Failure> {
        let path = request.uri().path().to_owned();
        let Some((route, text)) = Route::at(&path) else {
            if path.starts_with("/admin/") {
                self.admit(peer, &request)?;
            }
            return Err(Failure(StatusCode::NOT_FOUND, "there is no such page".into()));
        };
        match route {
            Route::Open(page) => match route.refuse(request.method()) {
                Some(refusal) => Ok(refusal),
                None => self.show(page).await,
            },
            Route::Guarded(act) => {
                let who = self.admit(peer, &request)?;
                match route.refuse(request.method()) {
                    Some(refusal) => Ok(refusal),
                    None => {
                        query::check(request.uri().query(), act.parameters())?;
                        self.administer(act, who, text, request).await
                    }
                }
            }
        }
    }

    /// Who sends a request that only administrators may send.
    fn admit(&self, peer: Peer, request: &Request<RequestBody>) -> Result<Who, Failure> {
        access::admit(request, peer, self.token.as_deref()).map_err(|denied| {
            if self.core.metrics.counts(Listener::Admin).protocol_error("denied", peer.address()) {
                tracing::warn!(?peer, path = request.uri().path(), ?denied, "administration was denied");
            }
            Failure(denied.status(), denied.detail())
        })
    }

    async fn show(self: Arc<Self>, page: Open) -> Result<Answer, Failure> {
        match page {
            Open::Page => Ok(page::answer()),
            Open::Health => Ok(text("ok\n")),
            Open::Ready => Ok(self.ready()),
            Open::Metrics => self.read_tables(Self::metrics).await,
        }
    }

    /// `text` is the part of the path that names a rule or a parked request.
    async fn administer(
        self: Arc<Self>,
        act: Guarded,
        who: Who,
        text: &str,
        request: Request<RequestBody>,
    ) -> Result<Answer, Failure> {
        match act {
            Guarded::OpenApi => Ok(web::with(StatusCode::OK, "application/json", OPENAPI)),
            Guarded::Rules => Ok(self.show_rules()),
            Guarded::Live => self.read_tables(live::show).await,
            Guarded::Top => self.show_top(request.uri().query()),
            Guarded::Plan => {
                let body = self.body(who, request).await?;
                self.plan(body).await
            }
            Guarded::Reload => self.reload(who, request.uri().query()).await,
            Guarded::Key => self.key(who, text, &self.body(who, request).await?),
            Guarded::ParkedList => parked::list(&self, request.uri().query()).await,
            Guarded::Parked => parked::entry(&self, who, request.method(), text).await,
        }
    }

    /// Does an order for the key of a request, as an administrator of this machine would.
    pub(crate) fn order(&self, rule: &str, body: &[u8]) -> Answer {
        let done = self.key(Who::Local(Peer::Unix), rule, body);
        done.unwrap_or_else(|Failure(status, detail)| problem(status, &detail))
    }

    /// Reloads, as an administrator of this machine would.
    pub(crate) async fn reload_now(self: &Arc<Self>, query: Option<&str>) -> Answer {
        let done = Arc::clone(self).reload(Who::Local(Peer::Unix), query).await;
        done.unwrap_or_else(|Failure(status, detail)| problem(status, &detail))
    }

    async fn body(&self, who: Who, request: Request<RequestBody>) -> Result<Bytes, Failure> {
        let read = web::read_body(request.into_body(), self.limits.body_bytes, self.limits.read_timeout);
        read.await.map_err(|error| match error {
            BodyError::TooLong => Failure(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long".into()),
            BodyError::TooSlow => Failure(StatusCode::REQUEST_TIMEOUT, "the body came too slowly".into()),
            BodyError::Broken => Failure(StatusCode::BAD_REQUEST, "the body is incomplete".into()),
            BodyError::NoRoom => {
                self.core.metrics.counts(Listener::Admin).protocol_error("unfinished", who.address());
                let detail = "too much of unfinished requests is held";
                Failure(StatusCode::SERVICE_UNAVAILABLE, detail.into())
            }
        })
    }

    /// Rules are in force from the start on, so all that is not ready is a server that ends.
    fn ready(&self) -> Answer {
        match self.core.draining.is_cancelled() || self.drain.ends.is_cancelled() {
            true => problem(StatusCode::SERVICE_UNAVAILABLE, "the server ends"),
            false => text("ready\n"),
        }
    }

    /// Draws a page that reads whole tables: one at a time, on a thread that serves no clients. A
    /// client that leaves does not let the next begin before the page is done.
    async fn read_tables(self: &Arc<Self>, page: fn(&Self) -> Answer) -> Result<Answer, Failure> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
        let (turn, admin) = (ONE_AT_A_TIME.lock().await, Arc::clone(self));
        blocking::blocking(move || {
            let _turn = turn;
            page(&admin)
        })
        .await
    }

    fn metrics(&self) -> Answer {
        let page = self.core.metrics.page(&self.core);
        web::with(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page)
    }
}

/// Serves one connection until the client or the server ends it.
pub(crate) async fn serve(admin: Arc<Admin>, connection: Connection) {
    let (peer, limits) = (connection.peer, admin.limits);
    let counts = Arc::clone(admin.core.metrics.counts(Listener::Admin));
    let answer = move |request| Arc::clone(&admin).answer(peer, request);
    web::serve(connection, &limits, counts, answer).await;
}

/// The first line of a file. An empty token would be one that every request has.
fn read_token(path: &std::path::Path) -> io::Result<Box<[u8]>> {
    let bytes = std::fs::read(path)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file has no token in its first line"));
    }
    Ok(line.into())
}

fn text(body: &'static str) -> Answer {
    web::with(StatusCode::OK, "text/plain; charset=utf-8", body)
}
