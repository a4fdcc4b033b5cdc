//! Limits of requests in flight: when a place is taken, and that it is given back once.

mod servers;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tollgate::{Inherit, LeakyBucket, Rate, WhenFull};
use tollgate_tower::{
    BuildError, HeaderStyle, HttpResponder, Limit, OnBackendError, ReconfigureError, RequestHead, Rule,
    TollgateLayer, WrappedBody,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::shadow::Everything;
use crate::support::{TokioClock, assert_structured, by_header, header, hourly_bucket, layer_with, request};

pub(crate) type InFlightLayer = TollgateLayer<HttpResponder, WrappedBody>;
pub(crate) type Sender = UnboundedSender<Result<Frame<Bytes>, &'static str>>;

/// A body whose frames a test sends. One made of a text has ended.
pub(crate) struct Sent(Option<UnboundedReceiver<Result<Frame<Bytes>, &'static str>>>);

pub(crate) fn sent() -> (Sender, Sent) {
    let (sender, receiver) = unbounded_channel();
    (sender, Sent(Some(receiver)))
}

impl From<String> for Sent {
    fn from(_: String) -> Self {
        Self(None)
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        self.0.as_mut().map_or(Poll::Ready(None), |frames| frames.poll_recv(context))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(7)
    }
}

/// At most two requests of a key at once.
fn two() -> Rule {
    Rule::new("at-once", [Limit::InFlight(2)]).key(by_header("k"))
}

fn built(rule: Rule) -> InFlightLayer {
    layer_with(rule).build_in_flight().unwrap()
}

fn in_flight(layer: &InFlightLayer, key: &str) -> u64 {
    let state = layer.handle("at-once").unwrap().key(key).unwrap().peek(0);
    state.limit - state.remaining
}

/// Sends a request to a service that answers with this body.
pub(crate) async fn answered(
    layer: &InFlightLayer,
    headers: &[(&str, &str)],
    body: Sent,
) -> Response<tollgate_tower::InFlightBody<Sent>> {
    let body = Arc::new(Mutex::new(Some(body)));
    let inner = service_fn(move |_: Request<String>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(body.lock().unwrap().take().unwrap())))
    });
    let response = layer.layer(inner).oneshot(request("/", headers)).await.unwrap();
    assert_structured(response.headers());
    response
}

const A: [(&str, &str); 1] = [("k", "a")];

#[tokio::test]
async fn a_place_is_held_until_the_body_has_ended() {
    let layer = built(two());
    let (sender, body) = sent();
    let mut first = answered(&layer, &A, body).await.into_body();
    assert_eq!((in_flight(&layer, "a"), first.size_hint().exact()), (1, Some(7)));
    let (_other, body) = sent();
    let second = answered(&layer, &A, body).await;
    assert_eq!(in_flight(&layer, "a"), 2);
    let refused = answered(&layer, &A, sent().1).await;
    assert_eq!((refused.status().as_u16(), header(&refused, "retry-after")), (429, None));
    assert_eq!(header(&refused, "ratelimit"), Some("\"at-once\";r=0"));
    drop(refused);
    assert_eq!((in_flight(&layer, "a"), in_flight(&layer, "b")), (2, 0));

    let trailers = HeaderMap::from_iter([(http::header::ETAG, "1".parse().unwrap())]);
    sender.send(Ok(Frame::data(Bytes::from("some")))).unwrap();
    sender.send(Ok(Frame::trailers(trailers.clone()))).unwrap();
    drop(sender);
    assert_eq!(first.frame().await.unwrap().unwrap().into_data().unwrap(), "some");
    assert_eq!(first.frame().await.unwrap().unwrap().into_trailers().unwrap(), trailers);
    assert_eq!(in_flight(&layer, "a"), 2, "it may go on");
    assert!(first.frame().await.is_none());
    assert_eq!(in_flight(&layer, "a"), 1);
    drop(first);
    assert_eq!(in_flight(&layer, "a"), 1, "given back once");
    drop(second);
    assert_eq!(in_flight(&layer, "a"), 0);
}

#[tokio::test]
async fn a_body_that_fails_gives_its_place_back() {
    let layer = built(two());
    let (sender, body) = sent();
    let mut response = answered(&layer, &A, body).await;
    sender.send(Err("broken")).unwrap();
    assert_eq!(response.body_mut().frame().await.unwrap().unwrap_err(), "broken");
    assert_eq!(in_flight(&layer, "a"), 0);
    drop(response);
    // A body that has ended at once holds nothing while the response is alive.
    let _empty = answered(&layer, &A, String::new().into()).await;
    assert_eq!(in_flight(&layer, "a"), 0);
}

/// Serves nothing: it is never ready, fails, or panics, as the path says.
#[derive(Clone)]
struct Broken(&'static str);

impl Service<Request<String>> for Broken {
    type Response = Response<Sent>;
    type Error = &'static str;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Sent>, &'static str>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        match self.0 {
            "never ready" => Poll::Pending,
            "not ready" => Poll::Ready(Err("broken")),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        assert_ne!(self.0, "panics in call");
        let how = self.0;
        Box::pin(async move {
            assert_ne!(how, "panics");
            if how == "hangs" {
                std::future::pending::<()>().await;
            }
            Err("broken")
        })
    }
}

/// Every other verb beside the limit, before it and after it.
fn crowds() -> impl Iterator<Item = InFlightLayer> {
    let others = || {
        let queue = LeakyBucket::queue(Rate::per_hour(1)).capacity(9);
        [
            Rule::new("plain", hourly_bucket(99)),
            Rule::new("paid", hourly_bucket(99)).charge_if(|_, _| true).cost_from(|_, _| Some(3)),
            Rule::new("trial", [Limit::InFlight(1)]).shadow(),
            Rule::new("queue", [queue]).key(by_header("queue")),
            Rule::new("never", hourly_bucket(1))
                .key(by_header("refuse"))
                .cost(|head| if head.header("refuse").is_some() { 9 } else { 0 }),
        ]
    };
    (0..2_u8).flat_map(move |backend| {
        (0..2_u8).map(move |is_first| {
            let mut layer = TollgateLayer::builder();
            if is_first == 1 {
                layer = layer.rule(two());
            }
            layer = others().into_iter().fold(layer, |layer, rule| layer.rule(rule));
            if is_first == 0 {
                layer = layer.rule(two());
            }
            if backend == 1 {
                layer = layer.rule(Rule::backend("store", Everything, OnBackendError::Refuse));
            }
            layer.clock(TokioClock::new()).timer(tokio::time::sleep).build_in_flight().unwrap()
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_gives_its_place_back() {
    for layer in crowds() {
        let trial = || layer.handle("trial").unwrap().usage().unwrap().live_keys;
        let waits = [("k", "a"), ("queue", "q")];
        let (_sender, body) = sent();
        drop(answered(&layer, &waits, body).await);
        for how in ["never ready", "not ready", "panics in call", "panics", "hangs", "fails"] {
            for _ in 0..3 {
                let call = layer.layer(Broken(how)).oneshot(request("/", &A));
                let call = tokio::spawn(timeout(Duration::from_secs(1), call));
                drop(call.await);
                assert_eq!((in_flight(&layer, "a"), trial()), (0, 0), "{how}");
            }
        }
        // The client leaves a queue; another rule refuses.
        let call = layer.layer(Broken("hangs")).oneshot(request("/", &waits));
        let call = tokio::spawn(call);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((in_flight(&layer, "a"), trial()), (1, 1), "held while it waits");
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        assert_eq!((in_flight(&layer, "a"), trial()), (0, 0));
        let refused = answered(&layer, &[("k", "a"), ("refuse", "1")], sent().1).await;
        assert_eq!(refused.status(), 400);
        assert_eq!((in_flight(&layer, "a"), trial()), (0, 0));
        // And one that is served is held by its body, with all other charges settled.
        let (sender, body) = sent();
        let response = answered(&layer, &A, body).await;
        assert_eq!((response.status().as_u16(), in_flight(&layer, "a"), trial()), (200, 1, 1));
        drop(sender);
        assert!(response.into_body().collect().await.is_ok());
        assert_eq!((in_flight(&layer, "a"), trial()), (0, 0));
    }
}

#[tokio::test]
async fn tiers_keys_and_costs_have_places_of_their_own() {
    let rule = two()
        .tier(|head| head.header("paid").is_some(), [Limit::InFlight(5)])
        .for_key("partner", [Limit::InFlight(9)])
        .cost(|head| if head.path() == "/" { 2 } else { 1 });
    let layer = built(rule);
    let mut held = Vec::new();
    for (headers, statuses) in [
        (&A[..], [200, 429, 429]),
        (&[("k", "a"), ("paid", "1")], [200, 200, 429]),
        (&[("k", "partner")], [200, 200, 200]),
    ] {
        for status in statuses {
            let (sender, body) = sent();
            let response = answered(&layer, headers, body).await;
            assert_eq!(response.status(), status);
            held.push((sender, response));
        }
    }
    let handle = layer.handle("at-once").unwrap();
    assert_eq!(handle.usage().unwrap().live_keys, 3);
    let paid = request("/", &[("k", "a"), ("paid", "1")]);
    let paid = handle.key_of(RequestHead::of(&paid)).unwrap();
    assert_eq!((paid.peek(1).limit, paid.peek(1).remaining), (5, 1));
    assert_eq!((paid.credit(9), paid.reset()), (0, false));
    held.clear();
    assert_eq!((handle.usage().unwrap().live_keys, handle.stats().refused_full), (0, 0));
    layer.reconfigure("at-once", [Limit::InFlight(1)], Inherit::Additive).unwrap();
    let too_much = answered(&layer, &A, sent().1).await;
    assert_eq!(too_much.status(), 400, "it costs 2");
}

#[tokio::test]
async fn a_known_wait_is_told_beside_an_unknown_one() {
    for is_first in [true, false] {
        let bucket = Rule::new("hourly", hourly_bucket(1)).key(by_header("h"));
        let (first, last) = if is_first { (two(), bucket) } else { (bucket, two()) };
        let styles = [HeaderStyle::Ietf, HeaderStyle::XRateLimit];
        let layer = layer_with(first).rule(last).headers(styles).clock(tollgate::ManualClock::new());
        let layer = layer.build_in_flight().unwrap();
        let (_sender, body) = sent();
        let one = answered(&layer, &[("k", "a"), ("h", "1")], body).await;
        assert_eq!(header(&one, "x-ratelimit-limit"), Some("1"), "the one with a reset");
        let (_sender, body) = sent();
        let _two = answered(&layer, &[("k", "a"), ("h", "2")], body).await;
        let both = answered(&layer, &[("k", "a"), ("h", "1")], sent().1).await;
        assert_eq!((both.status().as_u16(), header(&both, "retry-after")), (429, Some("3600")));
        let shown = header(&both, "ratelimit").unwrap();
        assert!(shown.contains("\"at-once\";r=0") && shown.contains("\"hourly\";r=0;t=3600"), "{shown}");
        let busy = answered(&layer, &[("k", "a"), ("h", "3")], sent().1).await;
        assert_eq!((busy.status().as_u16(), header(&busy, "retry-after")), (429, None));
        assert_eq!(header(&busy, "x-ratelimit-limit"), None);
    }
}

#[tokio::test]
async fn a_shadow_limit_counts_what_is_in_flight() {
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&outcomes);
    let layer = layer_with(two().shadow())
        .on_decision(move |decision| seen.lock().unwrap().push(decision.outcome().as_str()))
        .build_in_flight()
        .unwrap();
    let mut held = Vec::new();
    for _ in 0..3 {
        let (sender, body) = sent();
        let response = answered(&layer, &A, body).await;
        assert_eq!((response.status().as_u16(), header(&response, "ratelimit")), (200, None));
        held.push((sender, response));
    }
    assert_eq!((*outcomes.lock().unwrap()).join(" "), "allowed allowed limited");
    assert_eq!(in_flight(&layer, "a"), 2);
    held.clear();
    assert_eq!(in_flight(&layer, "a"), 0);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let rule = || String::from("at-once");
    assert_eq!(layer_with(two()).build().unwrap_err(), BuildError::InFlight { rule: rule() });
    let error = |bad: Rule| layer_with(bad).build_in_flight().unwrap_err();
    for (bad, setting) in [
        (two().charge_if(|_, _| true), "charge_if"),
        (two().cost_from(|_, _| None), "cost_from"),
        (two().ban(std::time::Duration::from_secs(1)), "ban"),
        (two().when_full(WhenFull::Allow), "when_full"),
    ] {
        assert_eq!(error(bad), BuildError::InFlightSetting { rule: rule(), setting });
    }
    let mixed = [Limit::InFlight(2), hourly_bucket(1)[0].into()];
    for bad in [Rule::new("at-once", mixed), two().tier(|_| true, hourly_bucket(1))] {
        assert_eq!(error(bad), BuildError::MixedLimits { rule: rule() });
    }
    assert!(matches!(error(Rule::new("at-once", [Limit::InFlight(0)])), BuildError::Limit { .. }));
    let layer = layer_with(two()).rule(Rule::new("hourly", hourly_bucket(1))).build_in_flight().unwrap();
    for (name, limits) in [("at-once", Limit::from(hourly_bucket(1)[0])), ("hourly", Limit::InFlight(2))] {
        let error = layer.reconfigure(name, [limits], Inherit::Reset).unwrap_err();
        assert_eq!(error, ReconfigureError::OtherKind { rule: name.into() });
    }
}
