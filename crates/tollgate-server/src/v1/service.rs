//! The state that all connections of the HTTP API share, and the routes.

use std::future::ready;
use std::num::NonZeroUsize;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::Either;
use http::header::ORIGIN;
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode};
use tollgate_net::Limits;
use tollgate_net::listen::{Client, Peer};
use tollgate_net::web::{self, Answer, BodyError, RequestBody, problem, read_body};

use super::auth::Auth;
use super::request::Act;
use super::settle;
use super::tickets::{self, TICKET_LIFE, Tickets};
use crate::core::Core;
use crate::metrics::Listener;
use crate::rls;
use crate::settings::Settings;
use crate::web::Route as _;

/// The interface as a document.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// What all connections of the HTTP API share.
pub(crate) struct Service {
    pub(super) core: Arc<Core>,
    /// Of checks and reservations. One that finds no room displaces its client's oldest, which
    /// stays charged.
    pub(super) tickets: Tickets,
    /// Of requests in flight. One that finds no room is refused: a lost one would give back places
    /// that are taken.
    pub(super) places: Tickets,
    pub(super) auth: Auth,
    pub(super) limits: Limits,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Act(Act),
    Settle,
    Release,
    Auth,
    Json,
    OpenApi,
}

impl crate::web::Route for Route {
    const PATHS: &'static [(&'static str, Self)] = &[
        ("/v1/check", Self::Act(Act::Check)),
        ("/v1/auth", Self::Auth),
        ("/v1/peek", Self::Act(Act::Peek)),
        ("/v1/settle", Self::Settle),
        ("/v1/acquire", Self::Act(Act::Acquire)),
        ("/v1/release", Self::Release),
        ("/v1/reserve", Self::Act(Act::Reserve)),
        ("/json", Self::Json),
        ("/openapi.json", Self::OpenApi),
    ];

    fn methods(self) -> &'static [Method] {
        match self {
            Self::Auth => &[],
            Self::OpenApi => &[Method::GET, Method::HEAD],
            Self::Act(_) | Self::Settle | Self::Release | Self::Json => &[Method::POST],
        }
    }
}

impl Service {
    pub(crate) fn new(core: Arc<Core>, settings: &Settings) -> Self {
        let usual = || tickets::usual(core.live.rules().rules().memory_budget);
        let most = settings.max_tickets.map_or_else(usual, NonZeroUsize::get);
        let [tickets, places] = core.metrics.tickets.clone();
        Self {
            core,
            tickets: Tickets::new(most, true, tickets),
            places: Tickets::new(most, false, places),
            auth: Auth::new(settings),
            limits: settings.limits,
        }
    }

    /// Lets go of tickets that have ended, again and again: a burst may be the last to keep any.
    pub(crate) async fn forget_ended_tickets(self: Arc<Self>) {
        loop {
            tokio::time::sleep(TICKET_LIFE / 4).await;
            self.tickets.forget_ended(self.core.now());
            self.places.forget_ended(self.core.now());
        }
    }

    pub(super) fn tickets_of(&self, act: Act) -> &Tickets {
        if act == Act::Acquire { &self.places } else { &self.tickets }
    }

    /// Answers a request. The future keeps only what the route needs: with 1,032 bytes or fewer it
    /// costs `malloc` a fraction of what a larger one does.
    pub(super) fn answer(
        self: Arc<Self>,
        peer: Peer,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Answer> + Send + 'static {
        let (mut head, body) = request.into_parts();
        match route(&head) {
            Break(answer) => Either::Left(Either::Left(ready(answer))),
            Continue(Route::Auth) => {
                Either::Left(Either::Right(async move { self.authorize(peer, &mut head, body).await }))
            }
            Continue(route) => Either::Right(async move { self.act(peer, route, body).await }),
        }
    }

    /// Reads a body, and answers it.
    async fn act(&self, peer: Peer, route: Route, body: RequestBody) -> Answer {
        let body = match self.read(peer, body).await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        let answer = self.serve(&peer, route, &body).await;
        if answer.status() == StatusCode::BAD_REQUEST {
            self.core.metrics.counts(Listener::Http).protocol_error("body", peer.address());
        }
        answer
    }

    /// Answers a body that is complete.
    async fn serve(&self, peer: &Peer, route: Route, body: &[u8]) -> Answer {
        match route {
            Route::Act(act) => self.check(Client::from(*peer), act, body).await,
            Route::Settle => settle::settle(&self.core, &self.tickets, body),
            // Boxed, as it is rare, and other requests would have room for it.
            Route::Json => Box::pin(rls::json(&self.core, *peer, body)).await,
            Route::Release | Route::Auth | Route::OpenApi => settle::release(&self.core, &self.places, body),
        }
    }

    /// Answers a body as if it had come to this path.
    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Answer {
        crate::core::ready(self.post_waiting(path, body))
    }

    /// As [`post`](Self::post), with time for stores to answer.
    pub(super) async fn post_waiting(&self, path: &str, body: &[u8]) -> Answer {
        self.post_as(Peer::Unix, path, body).await
    }

    /// The same, of this client.
    pub(super) async fn post_as(&self, peer: Peer, path: &str, body: &[u8]) -> Answer {
        let (route, _) = Route::at(path).unwrap_or_else(|| panic!("no path {path}"));
        self.serve(&peer, route, body).await
    }

    /// Reads a body, or says why not.
    pub(super) async fn read(&self, peer: Peer, body: RequestBody) -> Result<Bytes, Answer> {
        let most = self.limits.body_bytes;
        read_body(body, most, self.limits.read_timeout).await.map_err(|error| self.refuse(peer, error))
    }

    fn refuse(&self, peer: Peer, error: BodyError) -> Answer {
        let (status, kind, detail) = match error {
            BodyError::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_long", "the body is too long"),
            BodyError::TooSlow => (StatusCode::REQUEST_TIMEOUT, "body_too_slow", "the body came too slowly"),
            BodyError::Broken => (StatusCode::BAD_REQUEST, "body_broken", "the body is broken"),
            BodyError::NoRoom => {
                (StatusCode::SERVICE_UNAVAILABLE, "unfinished", "too much of unfinished requests is held")
            }
        };
        self.core.metrics.counts(Listener::Http).protocol_error(kind, peer.address());
        let mut answer = problem(status, detail);
        // The rest of the body is not read.
        answer.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
        answer
    }
}

/// The route of a request whose body is needed, or else the answer.
fn route(head: &Parts) -> ControlFlow<Answer, Route> {
    let Some((route, _)) = Route::at(head.uri.path()) else {
        return Break(problem(
            StatusCode::NOT_FOUND,
            "nothing is served at this path: see /openapi.json; the live page is on the admin listener",
        ));
    };
    if let Some(answer) = route.refuse(&head.method) {
        return Break(answer);
    }
    match route {
        Route::Auth => Continue(route),
        Route::OpenApi => Break(web::with(StatusCode::OK, "application/json", OPENAPI)),
        Route::Act(_) | Route::Settle | Route::Release | Route::Json => {
            // A browser says where a page comes from, other callers do not.
            match head.headers.contains_key(ORIGIN) {
                true => Break(problem(StatusCode::FORBIDDEN, "web pages may not call this")),
                false => Continue(route),
            }
        }
    }
}
