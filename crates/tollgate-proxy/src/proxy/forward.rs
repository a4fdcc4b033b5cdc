//! One request to an upstream, and its response.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use http::header::{CONTENT_LENGTH, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Body;
use hyper::upgrade::OnUpgrade;
use tokio::time::{Instant, timeout_at};
use tollgate_net::counts::ListenerCounts;
use tollgate_net::web::{client_left, problem};
use tollgate_tower::NotServed;
use tower_service::Service;

use super::download::{Download, Passed};
use super::failed::{Failed, Failure};
use super::forwarded::Origin;
use super::head::{depart, is_coded, join_lengths, strip, switch};
use super::marks::Marks;
use super::patience::Patience;
use super::pool::AnswerBody;
use super::upload::{BadBody, Upload};
use super::upstreams::{Load, Server, Upstreams};
use crate::ProxySettings;

/// Takes admitted requests to an upstream.
#[derive(Clone)]
pub(super) struct Forward(Arc<Shared>);

struct Shared {
    counts: Arc<ListenerCounts>,
    settings: ProxySettings,
    upstreams: Arc<Upstreams>,
}

/// What is known of a request beside its head.
#[derive(Clone)]
pub(super) struct Passing {
    pub(super) origin: Arc<Origin>,
    /// When its response must have ended.
    pub(super) ends: Option<Instant>,
    /// The protocol to which the client asks to switch.
    pub(super) upgrade: Option<HeaderValue>,
}

/// The upstream's connection, which has switched to another protocol.
#[derive(Clone)]
pub(super) struct Switched(pub(super) OnUpgrade);

/// Why a request has no response of an upstream.
#[derive(Debug)]
enum Missing {
    /// No upstream is well.
    Upstream,
    Upstreams(Failed),
    /// The head of the response did not come in time.
    Late,
    /// The body of the request.
    Body(BadBody),
}

impl Missing {
    /// As labels say it.
    fn kind(&self) -> &'static str {
        match self {
            Self::Upstream => "no_upstream",
            Self::Upstreams(failed) => failed.failure.kind(),
            Self::Late => "upstream_timeout",
            Self::Body(_) => "body",
        }
    }

    fn answer(&self) -> Response<Download> {
        let (status, detail) = match self {
            Self::Upstream => (StatusCode::SERVICE_UNAVAILABLE, "no upstream is well"),
            Self::Upstreams(failed) => failed.failure.answer(),
            Self::Late => (StatusCode::GATEWAY_TIMEOUT, "the upstream did not answer in time"),
            Self::Body(bad) => bad.answer(),
        };
        let mut answer = problem(status, detail).map(Download::Text);
        let is_reached = match self {
            Self::Upstream => false,
            Self::Upstreams(failed) => failed.failure.may_have_acted(),
            Self::Late | Self::Body(_) => true,
        };
        if !is_reached {
            // No upstream has acted on it.
            answer.extensions_mut().insert(NotServed);
        }
        answer
    }
}

impl Forward {
    pub(super) fn new(
        counts: &Arc<ListenerCounts>,
        settings: &ProxySettings,
        upstreams: &Arc<Upstreams>,
    ) -> Self {
        let (counts, settings, upstreams) = (Arc::clone(counts), settings.clone(), Arc::clone(upstreams));
        Self(Arc::new(Shared { counts, settings, upstreams }))
    }
}

impl Shared {
    /// Passes a request on, and returns the answer for its client. The request is taken when it is
    /// sent: by value, each of the callers below would move it once more.
    async fn pass(&self, request: &mut Option<Request<Upload>>) -> Response<Download> {
        let Some(passed) = request else { return Missing::Upstream.answer() };
        let Some(passing) = passed.extensions_mut().remove::<Passing>() else {
            return Missing::Upstream.answer();
        };
        let body = passed.body().clone();
        depart(passed, &passing.origin);
        let sent = match body.hold().await {
            Ok(()) => self.send(request, &body, &passing).await,
            Err(bad) => Err(Missing::Body(bad)),
        };
        match sent {
            Ok((response, load)) => self.respond(response, load, &body, &passing),
            Err(missing) => self.fail(&missing, &passing),
        }
    }

    /// Sends a request to the upstream that serves the fewest, and to another one if that was not
    /// reached: it has read nothing of the request then.
    async fn send(
        &self,
        request: &mut Option<Request<Upload>>,
        body: &Upload,
        passing: &Passing,
    ) -> Result<(Response<AnswerBody>, Load), Missing> {
        body.take();
        let mut missing = Missing::Upstream;
        let mut tried = Vec::new();
        while let Some(server) = self.upstreams.choose(&tried) {
            if passing.ends.is_some_and(|ends| ends <= Instant::now()) {
                return Err(Missing::Upstreams(Failure::ConnectLate.into()));
            }
            let load = server.load();
            match self.ask(server, request, body, passing).await {
                Ok(response) => return Ok((response, load)),
                Err(of) => missing = body.failure().map_or(of, Missing::Body),
            }
            let Missing::Upstreams(failed) = &missing else { break };
            server.rest(failed);
            if failed.failure.may_have_acted() || request.is_none() {
                break;
            }
            tried.push(server);
        }
        Err(missing)
    }

    /// Waits for the head of the response, for as long as the request's body moves.
    async fn ask(
        &self,
        server: &Server,
        request: &mut Option<Request<Upload>>,
        body: &Upload,
        passing: &Passing,
    ) -> Result<Response<AnswerBody>, Missing> {
        let (mut since, is_sent) = (Instant::now(), AtomicBool::new(false));
        let late_for = || match is_sent.load(Relaxed) {
            true => Missing::Late,
            false => Missing::Upstreams(Failure::ConnectLate.into()),
        };
        let mut sent = pin!(server.send(request, self.settings.head_timeout, &is_sent));
        loop {
            let late = since + self.settings.head_timeout;
            let late = passing.ends.map_or(late, |ends| ends.min(late));
            match timeout_at(late, &mut sent).await {
                Ok(response) => return response.map_err(Missing::Upstreams),
                Err(_) if passing.ends.is_some_and(|ends| ends <= late) => return Err(late_for()),
                // The time of a client that sends slowly is bounded where its body is read.
                Err(_) if body.awaits_client() => since = Instant::now(),
                Err(_) => match body.last_move().filter(|moved| *moved > since) {
                    Some(moved) => since = moved,
                    None => return Err(late_for()),
                },
            }
        }
    }

    /// Counts a request without a response, and answers it.
    fn fail(&self, missing: &Missing, passing: &Passing) -> Response<Download> {
        if matches!(missing, Missing::Body(BadBody::Broken)) {
            client_left();
        }
        self.counts.protocol_error(missing.kind(), passing.origin.peer);
        missing.answer()
    }

    /// Makes of the upstream's response that which the client gets.
    fn respond(
        &self,
        mut response: Response<AnswerBody>,
        load: Load,
        upload: &Upload,
        passing: &Passing,
    ) -> Response<Download> {
        *response.version_mut() = Version::HTTP_11;
        let has = Marks::of(response.headers());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let asked = passing.upgrade.as_ref().map(HeaderValue::as_bytes);
            let agrees =
                |to: &&HeaderValue| asked.is_some_and(|asked| asked.eq_ignore_ascii_case(to.as_bytes()));
            let Some(agreed) = response.headers().get(UPGRADE).filter(agrees).cloned() else {
                return self.fail(&Missing::Upstreams(Failure::Broken.into()), passing);
            };
            let switched = Switched(hyper::upgrade::on(&mut response));
            strip(response.headers_mut(), has, "");
            switch(response.headers_mut(), agreed);
            response.extensions_mut().insert(switched);
            response.body_mut().detach();
            return response.map(|_| Download::Tunnel(load));
        }
        let is_chunked = has.has(Marks::TRANSFER_ENCODING);
        if is_chunked && is_coded(response.headers()) {
            return self.fail(&Missing::Upstreams(Failure::Broken.into()), passing);
        }
        if has.has(Marks::CONTENT_LENGTH) {
            // Its chunks say how long it is, or its status.
            if is_chunked || response.status() == StatusCode::NO_CONTENT {
                response.headers_mut().remove(CONTENT_LENGTH);
            } else if !join_lengths(response.headers_mut()) {
                return self.fail(&Missing::Upstreams(Failure::Broken.into()), passing);
            }
        }
        strip(response.headers_mut(), has, "");
        // The rest of the request's body must not wait for the reader of the answer.
        let upload = Some(upload).filter(|upload| !upload.is_end_stream()).cloned();
        if upload.is_some() {
            response.body_mut().detach();
        }
        let patience = Patience::new(self.settings.idle_timeout, passing.ends);
        response.map(|body| Download::Upstream(Box::new(Passed::new(body, upload, patience, load))))
    }
}

impl Service<Request<Upload>> for Forward {
    type Response = Response<Download>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Download>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Upload>) -> Self::Future {
        let (shared, mut request) = (Arc::clone(&self.0), Some(request));
        Box::pin(async move { Ok(shared.pass(&mut request).await) })
    }
}
