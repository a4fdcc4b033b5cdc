//! Requests that the rules refuse for a time: kept, and sent later.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, LOCATION, RETRY_AFTER};
use http::{Extensions, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate_http::RequestHead;
use tollgate_rules::{Line, Park as Bounds, Rule, Ruling, Verdict};
use tollgate_tower::Aside;
use tower_service::Service;

use super::forward::{NotReached, Passing};
use super::forwarded::{Origin, is_of_proxies};
use super::service::Proxy;
use super::upload::Upload;
use crate::core::{Core, ServerClock};
use crate::listen::Drain;
use crate::metrics::{Listener, unix_time};
use crate::park::{Entry, Kept, NotKept, Park, QueueName, State};
use crate::web::{self, Answer, problem};

/// The path of a kept request's state, before its id.
pub(super) const STATES: &str = "/.well-known/tollgate/parked/";

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The time until the next try where none is known.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest time between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What a refusal carries whose request may be kept.
#[derive(Clone)]
pub(super) struct MayPark(Arc<Parking>);

struct Parking {
    rule: Box<str>,
    key: Box<[u8]>,
    bounds: Bounds,
    /// About how long the limit takes for one more request.
    gap: Duration,
    kept: Kept,
}

/// A request that is sent again: it is not kept another time.
#[derive(Clone)]
struct Resent;

/// What the refusal of such a request carries.
#[derive(Clone)]
struct Refused {
    retry_after: Option<Duration>,
    is_for_now: bool,
}

/// What becomes of the first request of a queue.
enum Next {
    /// It has left the queue.
    Gone,
    /// It is sent again after this time.
    After(Duration),
    /// No upstream was reached.
    Unreached,
}

/// Says which requests are not served now: those that are to be kept, and those that are refused
/// when they are sent again.
pub(super) fn set_aside(
    core: &Core,
    park: &Park,
    head: RequestHead<'_>,
    verdict: &Verdict<'_, ServerClock>,
) -> Option<Aside> {
    let mut aside = Aside::default();
    if head.extension::<Resent>().is_some() {
        let is_for_now = matches!(verdict.outcome(), Ruling::Refused | Ruling::Unavailable);
        aside.note.insert(Refused { retry_after: verdict.retry_after(), is_for_now });
        return (!verdict.is_admitted()).then_some(aside);
    }
    let passing = head.extension::<Passing>().filter(|passing| passing.upgrade.is_none())?;
    let rule = |line: &Line| &verdict.rules()[line.rule];
    let enforced = || verdict.lines().iter().enumerate().filter(|(_, line)| !line.is_shadow);
    let key = |index: usize| verdict.key(index).unwrap_or_default();
    let mut parking = enforced().filter(|(_, line)| rule(line).park.is_some());
    let (index, line) = if verdict.is_admitted() {
        // It stays behind those of its queue.
        parking.find(|(index, line)| park.waiting(&rule(line).name, key(*index)) > 0)?
    } else {
        let mut refusing = enforced().filter(|(_, line)| line.ruling != Ruling::Admitted);
        let waits = |line: &Line| line.ruling == Ruling::Refused && line.retry_after.is_some();
        if !refusing.all(|(_, line)| rule(line).park.is_some() && waits(line)) {
            return None;
        }
        parking.filter(|(_, line)| waits(line)).max_by_key(|(_, line)| line.retry_after)?
    };
    let Rule { name, park: Some(bounds), .. } = rule(line) else { return None };
    let gap = line.retry_after.unwrap_or(line.more_after);
    let rules = core.live.rules();
    let client_header = &rules.rules().clients.header;
    let is_kept = |name: &HeaderName| {
        let listed = |names: &Vec<Box<str>>| names.iter().any(|kept| **kept == *name.as_str());
        bounds.headers.as_ref().is_none_or(listed) || *name == HOST || is_of_proxies(name, client_header)
    };
    let target = head.uri().path_and_query().map_or("/", |target| target.as_str());
    let kept = Kept::new(
        (head.method().as_str(), target),
        head.headers(),
        is_kept,
        (passing.origin.peer, passing.origin.is_tls),
    );
    let parking = Parking { rule: name.clone(), key: key(index).into(), bounds: bounds.clone(), gap, kept };
    let mut note = Extensions::new();
    note.insert(MayPark(Arc::new(parking)));
    Some(Aside { line: index, retry_after: gap, note })
}

/// Keeps a refused request with its body. `None`: it stays refused.
pub(super) async fn keep(core: &Core, MayPark(parking): MayPark, upload: Upload) -> Option<Answer> {
    let park = core.park.as_ref()?;
    let Parking { rule, key, bounds, gap, kept } = &*parking;
    if upload.size_hint().lower() > bounds.body as u64 {
        return None;
    }
    let body = Limited::new(upload, bounds.body).collect().await.ok()?;
    if body.trailers().is_some() {
        return None;
    }
    let mut kept = kept.clone();
    kept.body = body.to_bytes();
    let entry = match park.keep(rule, key, bounds, &kept).await {
        Ok(entry) => entry,
        Err(NotKept::Full) => return None,
        Err(NotKept::Store(error)) => {
            tracing::error!(%error, "a request was not parked");
            core.metrics.protocol_error(Listener::Proxy, "park");
            return None;
        }
    };
    let waiting = u32::try_from(park.waiting(rule, key)).unwrap_or(u32::MAX).max(1);
    let estimate = gap.saturating_mul(waiting).min(bounds.age);
    let seconds = estimate.as_secs() + u64::from(estimate.subsec_nanos() > 0);
    let location = format!("{STATES}{}", entry.id);
    let body = json!({ "id": entry.id, "state": location, "retry_after": seconds });
    let mut answer = web::json(StatusCode::ACCEPTED, &body);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    if let Ok(location) = HeaderValue::try_from(location) {
        answer.headers_mut().insert(LOCATION, location);
    }
    Some(answer)
}

/// Answers a client that asks for the state of its request.
pub(super) fn state(park: &Park, method: &Method, id: &str) -> Answer {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return problem(StatusCode::METHOD_NOT_ALLOWED, "this page answers GET only");
    }
    let Some(entry) = id.parse().ok().and_then(|id| park.entry(id)) else {
        return problem(StatusCode::NOT_FOUND, "no such request is kept");
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

/// Sends what is kept, a task for each queue, until the server ends. What is not sent then, the
/// next process sends.
pub(super) fn drain(proxy: &Arc<Proxy>, drain: &Drain) {
    let Some(park) = proxy.core.park.clone() else { return };
    let Some(mut begun) = park.begun() else { return };
    let (proxy, drain) = (Arc::clone(proxy), drain.clone());
    tokio::spawn(async move {
        loop {
            let queue = tokio::select! {
                () = drain.ends.cancelled() => return,
                queue = begun.recv() => queue,
            };
            let Some(queue) = queue else { return };
            let (proxy, park, ends) = (Arc::clone(&proxy), Arc::clone(&park), drain.ends.clone());
            drain.connections.spawn(async move { drain_queue(&proxy, &park, &queue, &ends).await });
        }
    });
}

async fn drain_queue(proxy: &Proxy, park: &Park, queue: &QueueName, ends: &CancellationToken) {
    let mut unreached = 0;
    while !ends.is_cancelled() {
        let Some((number, entry)) = park.front(queue) else { return };
        let now = u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX);
        let left = Duration::from_millis(entry.expires_at.saturating_sub(now));
        if left.is_zero() {
            told(park.expired(number).await);
            continue;
        }
        let next = deliver(proxy, park, number, &entry).await;
        let pause = match next {
            Next::Gone => continue,
            Next::After(pause) => pause,
            Next::Unreached => backoff(PAUSE / 10, unreached),
        };
        unreached = if matches!(next, Next::Unreached) { unreached.saturating_add(1) } else { 0 };
        sleep(&proxy.core, pause.min(left), ends).await;
    }
}

/// Sleeps until the next try, and no longer than until a reload: the new rules may let it pass. The
/// time is bounded, because an administrator may help the key.
async fn sleep(core: &Core, pause: Duration, ends: &CancellationToken) {
    let rules = core.live.rules();
    let until = Instant::now() + pause.min(LONGEST_PAUSE);
    while Instant::now() < until && Arc::ptr_eq(&rules, &core.live.rules()) && !ends.is_cancelled() {
        tokio::select! {
            () = ends.cancelled() => {}
            () = tokio::time::sleep_until(until.min(Instant::now() + PAUSE)) => {}
        }
    }
}

/// The time before the next try, after `tries` before.
fn backoff(first: Duration, tries: u32) -> Duration {
    first.saturating_mul(1 << tries.min(20)).min(LONGEST_PAUSE)
}

fn told<T: std::fmt::Debug>(changed: Result<T, crate::park::Unchanged>) -> Option<T> {
    changed.map_err(|error| tracing::error!(?error, "a parked request may be sent once more")).ok()
}

/// Sends the first request of a queue, if the rules let it pass now.
async fn deliver(proxy: &Proxy, park: &Park, number: u64, entry: &Entry) -> Next {
    let kept = match park.begin(number).await {
        Ok(Some(kept)) => kept,
        Ok(None) => return Next::Gone,
        Err(error) => {
            tracing::error!(%error, "a parked request was not read");
            return Next::After(PAUSE);
        }
    };
    let origin = Origin { peer: kept.peer, is_tls: kept.is_tls };
    let ends = proxy.settings.total_timeout.map(|total| Instant::now() + total);
    let Ok(mut request) = kept.request() else {
        park.pause(number);
        return Next::After(PAUSE);
    };
    if let Ok(id) = HeaderValue::try_from(entry.id.to_string()) {
        request.headers_mut().entry(IDEMPOTENCY_KEY).or_insert(id);
    }
    request.extensions_mut().insert(Passing { origin, ends, upgrade: None });
    request.extensions_mut().insert(Resent);
    let mut service = proxy.service.clone();
    // The service is always ready, and learns here that the one inside it is.
    let Ok(()) = std::future::poll_fn(|context| service.poll_ready(context)).await;
    let Ok(mut answer) = service.call(request.map(Upload::whole)).await;
    let status = answer.status();
    let extensions = answer.extensions_mut();
    if extensions.remove::<NotReached>().is_some() {
        park.pause(number);
        return Next::Unreached;
    }
    let took = match extensions.remove::<Refused>() {
        Some(Refused { retry_after, is_for_now: true }) => {
            park.pause(number);
            return Next::After(retry_after.unwrap_or(PAUSE));
        }
        Some(_) => false,
        None => {
            !status.is_server_error()
                && !matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        }
    };
    // The next one of the key is sent when this one has ended.
    while let Some(Ok(_)) = answer.body_mut().frame().await {}
    if took {
        told(park.sent(number, status.as_u16()).await);
        return Next::Gone;
    }
    match told(park.failed(number, status.as_u16()).await) {
        Some(State::Parked) => Next::After(backoff(Duration::from_millis(entry.retry), entry.tries)),
        _ => Next::Gone,
    }
}
