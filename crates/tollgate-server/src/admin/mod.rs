//! Administration, and the live page.
//!
//! | file | what |
//! |------|------|
//! | `access` | who may administer |
//! | `rules` | the rules in force, what a reload would do, reloads |
//! | `keys`, `key_text` | the keys of a rule: the most refused, one that is looked at or helped |
//! | `parked` | requests that are kept for later |
//! | `live`, `history` | what the live page shows |
//! | `page` | the live page, and what its browser may load |

mod access;
mod history;
mod key_text;
mod keys;
mod live;
mod page;
mod parked;
mod rules;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use tokio::sync::Mutex;

use crate::core::Core;
use crate::listen::{Connection, Drain, Peer};
use crate::metrics::Listener;
use crate::settings::{Limits, Settings};
use crate::web::{self, Answer, BodyError, problem};
use access::Who;
use history::History;

/// What the administration of a server needs.
pub(crate) struct Admin {
    core: Arc<Core>,
    drain: Drain,
    limits: Limits,
    /// The rules file.
    rules: PathBuf,
    token: Option<Box<[u8]>>,
    history: History,
    started: Instant,
}

/// Why a request is not served.
struct Failure(StatusCode, String);

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

    async fn answer(self: Arc<Self>, peer: Peer, request: Request<Incoming>) -> Answer {
        let answered = match (request.method().as_str(), request.uri().path()) {
            ("GET" | "HEAD", "/healthz") => Ok(text("ok\n")),
            ("GET" | "HEAD", "/readyz") => Ok(self.ready()),
            ("GET" | "HEAD", "/metrics") => self.read_tables(Self::metrics).await,
            ("GET" | "HEAD", "/") => Ok(page::answer()),
            (_, "/healthz" | "/readyz" | "/metrics" | "/") => Err(not_allowed("GET")),
            (_, path) if path.starts_with("/admin/") => Arc::clone(&self).administer(peer, request).await,
            _ => Err(Failure(StatusCode::NOT_FOUND, "there is no such page".into())),
        };
        let mut answer = answered.unwrap_or_else(|Failure(status, detail)| problem(status, &detail));
        let headers = answer.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        if answer.status() == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }

    async fn administer(self: Arc<Self>, peer: Peer, request: Request<Incoming>) -> Result<Answer, Failure> {
        let who = access::admit(&request, peer, self.token.as_deref()).map_err(|denied| {
            tracing::warn!(?peer, path = request.uri().path(), ?denied, "administration was denied");
            self.core.metrics.protocol_error(Listener::Admin, "denied");
            Failure(denied.status(), denied.detail().into())
        })?;
        let path = request.uri().path().to_owned();
        let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_post = *request.method() == Method::POST;
        match path["/admin/".len()..].split_once('/').unwrap_or((&path["/admin/".len()..], "")) {
            ("rules", "") if is_get => Ok(self.show_rules()),
            ("live", "") if is_get => self.read_tables(Self::show_live).await,
            ("top", "") if is_get => self.show_top(request.uri().query()),
            ("plan", "") if is_post => {
                let body = self.body(request).await?;
                self.plan(body).await
            }
            ("reload", "") if is_post => self.reload(who, request.uri().query()).await,
            ("keys", rule) if is_post => self.key(who, rule, &self.body(request).await?),
            ("parked", "") if is_get => self.list_parked(request.uri().query()).await,
            ("parked", id) if !id.is_empty() => self.parked(who, request.method(), id).await,
            ("rules" | "live" | "top" | "parked", "") => Err(not_allowed("GET")),
            ("plan" | "reload", "") | ("keys", _) => Err(not_allowed("POST")),
            _ => Err(Failure(StatusCode::NOT_FOUND, "there is no such page".into())),
        }
    }

    /// Does an order for the key of a request, as an administrator of this machine would.
    #[cfg(test)]
    pub(crate) fn order(&self, rule: &str, body: &[u8]) -> Answer {
        let done = self.key(Who::Local(Peer::Unix), rule, body);
        done.unwrap_or_else(|Failure(status, detail)| problem(status, &detail))
    }

    /// Reloads, as an administrator of this machine would.
    #[cfg(test)]
    pub(crate) async fn reload_now(self: &Arc<Self>, query: Option<&str>) -> Answer {
        let done = Arc::clone(self).reload(Who::Local(Peer::Unix), query).await;
        done.unwrap_or_else(|Failure(status, detail)| problem(status, &detail))
    }

    async fn body(&self, request: Request<Incoming>) -> Result<Bytes, Failure> {
        let read = web::read_body(request.into_body(), self.limits.body_bytes, self.limits.read_timeout);
        read.await.map_err(|error| match error {
            BodyError::TooLong => Failure(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long".into()),
            BodyError::TooSlow => Failure(StatusCode::REQUEST_TIMEOUT, "the body came too slowly".into()),
            BodyError::Broken => Failure(StatusCode::BAD_REQUEST, "the body is incomplete".into()),
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
        rules::blocking(move || {
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
    let Connection { stream, peer, .. } = connection;
    let (limits, drain) = (admin.limits, admin.drain.clone());
    let counted = (Listener::Admin, Arc::clone(&admin.core.metrics));
    let answer = move |request| Arc::clone(&admin).answer(peer, request);
    web::serve(stream, &limits, &drain, counted, answer).await;
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

fn not_allowed(method: &str) -> Failure {
    Failure(StatusCode::METHOD_NOT_ALLOWED, format!("this page answers {method} only"))
}

fn bad(detail: impl Into<String>) -> Failure {
    Failure(StatusCode::BAD_REQUEST, detail.into())
}

/// The value of a parameter in a query, decoded.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query.unwrap_or_default().split('&');
    let mut values = pairs.filter_map(|pair| pair.split_once('=')).filter(|(own, _)| *own == name);
    values.next().map(|(_, value)| decoded(value))
}

/// Text with `%XX` and `+` decoded.
fn decoded(text: &str) -> String {
    let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after.split_at_checked(2).and_then(|(digits, after)| Some((hex(digits)?, after)))) {
            (b'%', Some((byte, after))) => {
                bytes.push(byte);
                rest = after;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
