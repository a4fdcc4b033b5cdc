//! Requests that the rules refuse for a time: kept, and sent later.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{HOST, LOCATION, RETRY_AFTER};
use http::{Extensions, HeaderName, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate_http::RequestHead;
use tollgate_net::listen::Drain;
use tollgate_net::web::{self, Answer};
use tollgate_rules::{Limit, Limits, Line, Park as Bounds, Rule, Ruling, StoreFailure, StoredAsk, Verdict};
use tollgate_tower::{Aside, Beside, NotServed};
use tower_service::Service;

use super::forward::Passing;
use super::forwarded::{Origin, is_of_proxies};
use super::parked_states::STATES;
use super::service::Proxy;
use super::shared::Shared;
use super::upload::Upload;
use crate::ServerClock;
use crate::park::{Entry, First, Kept, NotKept, ParkStore, Place, QueueName, State, Unchanged, now};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The time until the next try where none is known.
const PAUSE: Duration = Duration::from_secs(1);

/// How much of an upstream's answer is read before the next request of its key is sent, and for how
/// long. An answer has no end that is needed.
const ANSWER: (usize, Duration) = (1 << 20, Duration::from_secs(5));

/// The longest time between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What a refusal carries whose request may be kept.
#[derive(Clone)]
pub(super) struct MayPark(Arc<Parking>);

struct Parking {
    store: Arc<dyn ParkStore>,
    rule: Box<str>,
    key: Box<[u8]>,
    bounds: Bounds,
    /// About when the limit has room for the first of the queue, and how long after that for each
    /// one more.
    pace: (Duration, Duration),
    kept: Kept,
}

/// A request that is sent again: it is not kept another time.
#[derive(Clone)]
struct Resent;

/// The rules and keys of a request behind whose parked requests it stays.
#[derive(Clone)]
struct Behind(Vec<(Box<str>, Box<[u8]>)>);

/// What the refusal of such a request carries.
#[derive(Clone)]
struct Refused {
    retry_after: Option<Duration>,
    is_for_now: bool,
}

/// Says which requests are not served now: those that are to be kept, and those that are refused
/// when they are sent again.
pub(super) fn set_aside(
    shared: &Shared,
    head: RequestHead<'_>,
    verdict: &Verdict<'_, ServerClock>,
) -> Option<Aside> {
    let rule = |line: &Line| &verdict.rules()[line.rule];
    let parks = |line: &Line| rule(line).park.is_some();
    if verdict.is_admitted() && !verdict.lines().iter().any(parks) {
        return None;
    }
    let mut aside = Aside::default();
    if head.extension::<Resent>().is_some() {
        let is_for_now = matches!(verdict.outcome(), Ruling::Refused | Ruling::Unavailable);
        aside.note.insert(Refused { retry_after: verdict.retry_after(), is_for_now });
        return (!verdict.is_admitted()).then_some(aside);
    }
    let passing = head.extension::<Passing>().filter(|passing| passing.upgrade.is_none())?;
    let enforced = || verdict.lines().iter().enumerate().filter(|(_, line)| !line.is_shadow);
    let key = |index: usize| verdict.key(index).unwrap_or_default();
    let place = |line: &Line| shared.parks.of(rule(line));
    let (index, line, place) = if verdict.is_admitted() {
        let stays = |(index, line): (usize, &Line)| {
            let (name, key) = (&*rule(line).name, key(index));
            match place(line)? {
                Place::File(file) => file.waiting(name, key) > 0,
                // The server was asked beside the counts.
                Place::Redis(_) => {
                    head.extension::<Behind>()?.0.iter().any(|(of, at)| **of == *name && **at == *key)
                }
            }
            .then_some(())
        };
        // It stays behind those of its queue.
        let (index, line) = enforced().find(|&found| stays(found).is_some())?;
        (index, line, place(line)?)
    } else {
        let refusing = || enforced().filter(|(_, line)| line.ruling != Ruling::Admitted);
        let waits = |line: &Line| line.ruling == Ruling::Refused && line.retry_after.is_some();
        if !refusing().all(|(_, line)| parks(line) && waits(line)) {
            return None;
        }
        let (index, line) = refusing().max_by_key(|(_, line)| line.retry_after)?;
        (index, line, place(line)?)
    };
    let Rule { name, park: Some(bounds), .. } = rule(line) else { return None };
    let first = line.retry_after.unwrap_or(line.more_after);
    let pace = (first, each_takes(rule(line), line).unwrap_or(first));
    let rules = shared.generations.live.rules();
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
    let (store, rule, key) = (place.store(), name.clone(), key(index).into());
    let parking = Parking { store, rule, key, bounds: bounds.clone(), pace, kept };
    let mut note = Extensions::new();
    note.insert(MayPark(Arc::new(parking)));
    Some(Aside { line: index, retry_after: first, note })
}

/// How long the limit that shows takes for one more request like this. `None`: it is none by time.
fn each_takes(rule: &Rule, line: &Line) -> Option<Duration> {
    let limits = line.tier.map_or(&rule.limits, |tier| &rule.tiers[tier].limits);
    let Limits::Each(limits) = limits else { return None };
    let mut quotas =
        limits.iter().filter_map(|limit| if let Limit::Quota(quota) = limit { Some(quota) } else { None });
    let rate = quotas.nth(line.number?)?.rate();
    let takes = rate.period().as_secs_f64() * line.cost as f64 / rate.count() as f64;
    Some(Duration::try_from_secs_f64(takes).unwrap_or(Duration::MAX))
}

/// Asks the servers that keep requests, beside the counts of a request's rules, whether it must
/// stay behind others of its queue.
pub(super) fn ask_servers(
    shared: &Shared,
    head: RequestHead<'_>,
    rules: &[Rule],
    asks: &[StoredAsk],
) -> Option<Beside> {
    // Those of a queue are sent in their order.
    if head.extension::<Resent>().is_some() {
        return None;
    }
    let asked = asks.iter().filter_map(|ask| {
        let rule = rules.get(ask.rule())?;
        let Place::Redis(server) = shared.parks.of(rule)? else { return None };
        // Without an answer a request that would be refused then stays behind, so that none is
        // passed: it is refused where it cannot be kept.
        let without = rule.store.as_ref().is_none_or(|store| store.on_failure == StoreFailure::Refuse);
        Some((server, rule.name.clone(), Box::<[u8]>::from(ask.key()), without))
    });
    let asked: Vec<_> = asked.collect();
    if asked.is_empty() {
        return None;
    }
    Some(Box::pin(async move {
        // All at the same time: the request waits for the slowest of them.
        let waits = asked.into_iter().map(|(server, rule, key, without)| async move {
            let stays = server.has_waiting(&rule, &key).await.unwrap_or(without);
            stays.then_some((rule, key))
        });
        let behind = join_all(waits).await.into_iter().flatten().collect();
        let mut told = Extensions::new();
        told.insert(Behind(behind));
        told
    }))
}

/// Keeps a refused request with its body. `None`: it stays refused.
pub(super) async fn keep(shared: &Shared, MayPark(parking): MayPark, upload: Upload) -> Option<Answer> {
    let Parking { store, rule, key, bounds, pace: (first, each), kept } = &*parking;
    if upload.size_hint().lower() > bounds.body as u64 {
        return None;
    }
    let body = Limited::new(upload, bounds.body).collect().await.ok()?;
    if body.trailers().is_some() {
        return None;
    }
    let (mut kept, client) = (kept.clone(), kept.peer);
    kept.body = body.to_bytes();
    let stored = kept.to_bytes();
    let kept = async {
        let entry = Entry::new(rule, key, bounds, &kept, stored.len(), now()).map_err(NotKept::Store)?;
        let id = entry.id;
        Ok((id, store.keep(entry, bounds, stored).await?))
    };
    let (id, waiting) = match kept.await {
        Ok(done) => done,
        Err(NotKept::Full) => return None,
        Err(NotKept::Store(error)) => {
            if shared.counts.protocol_error("park", client) {
                tracing::error!(%error, store = store.name(), "a request was not parked");
            }
            return None;
        }
    };
    let ahead = u32::try_from(waiting).unwrap_or(u32::MAX).saturating_sub(1);
    let estimate = first.saturating_add(each.saturating_mul(ahead)).min(bounds.age);
    let seconds = estimate.as_secs() + u64::from(estimate.subsec_nanos() > 0);
    let location = format!("{STATES}{id}");
    let body = json!({ "id": id, "state": location, "retry_after": seconds });
    let mut answer = web::json(StatusCode::ACCEPTED, &body);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    if let Ok(location) = HeaderValue::try_from(location) {
        answer.headers_mut().insert(LOCATION, location);
    }
    Some(answer)
}

/// Sends what is kept, a task for each queue, until the server ends. What is not sent then, the
/// next process sends.
pub(super) fn drain(proxy: &Arc<Proxy>, drain: &Drain) {
    let (proxy, drain) = (Arc::clone(proxy), drain.clone());
    tokio::spawn(async move {
        let mut rules = None;
        while !drain.ends.is_cancelled() {
            let newest = proxy.shared.generations.live.rules();
            if rules.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &newest)) {
                // A server that rules name for the first time may have requests already.
                newest.rules().rules.iter().for_each(|rule| drop(proxy.shared.parks.of(rule)));
                for store in proxy.shared.parks.all() {
                    if let Some(begun) = store.begun() {
                        tokio::spawn(drain_store(Arc::clone(&proxy), drain.clone(), store, begun));
                    }
                }
                rules = Some(newest);
            }
            tokio::select! {
                () = drain.ends.cancelled() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    });
}

async fn drain_store(
    proxy: Arc<Proxy>,
    drain: Drain,
    store: Arc<dyn ParkStore>,
    mut begun: UnboundedReceiver<QueueName>,
) {
    loop {
        let queue = tokio::select! {
            () = drain.ends.cancelled() => return,
            queue = begun.recv() => queue,
        };
        let Some(queue) = queue else { return };
        let (proxy, store, ends) = (Arc::clone(&proxy), Arc::clone(&store), drain.ends.clone());
        drain.spawn(async move { drain_queue(&proxy, &*store, &queue, &ends).await });
    }
}

async fn drain_queue(proxy: &Proxy, store: &dyn ParkStore, queue: &QueueName, ends: &CancellationToken) {
    let mut unreached = 0;
    while !ends.is_cancelled() {
        let first = match store.first(queue).await {
            Ok(Some(first)) => first,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, store = store.name(), "parked requests are not read");
                sleep(&proxy.shared, PAUSE, ends).await;
                continue;
            }
        };
        let mut entry = first.entry.clone();
        let left = Duration::from_millis(entry.expires_at.saturating_sub(now()));
        if left.is_zero() {
            entry.expire(now());
            told(store.finish(&first, entry, Duration::ZERO).await);
            continue;
        }
        let next = tokio::select! {
            next = deliver(proxy, &first) => next,
            () = store.lost(&first) => {
                tracing::error!(store = store.name(), "a parked request may be sent by two processes");
                continue;
            }
        };
        unreached = if matches!(next, Next::Unreached) { unreached + 1 } else { 0 };
        let pause = match next {
            Next::Answered { status, is_taken } => {
                entry.answer(status.as_u16(), is_taken, now());
                backoff(Duration::from_millis(entry.retry), first.entry.tries)
            }
            Next::After(pause) => pause,
            Next::Unreached => backoff(PAUSE / 10, unreached - 1),
        };
        // Bounded, because an administrator may help the key.
        let (pause, waits) = (pause.min(left).min(LONGEST_PAUSE), entry.state == State::Parked);
        told(store.finish(&first, entry, pause).await);
        if waits {
            sleep(&proxy.shared, pause, ends).await;
        }
    }
}

/// Sleeps until the next try, and no longer than until a reload: the new rules may let it pass.
async fn sleep(shared: &Shared, pause: Duration, ends: &CancellationToken) {
    let rules = shared.generations.live.rules();
    let until = Instant::now() + pause;
    while Instant::now() < until
        && Arc::ptr_eq(&rules, &shared.generations.live.rules())
        && !ends.is_cancelled()
    {
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

fn told(changed: Result<(), Unchanged>) {
    if let Err(error) = changed {
        tracing::error!(?error, "a parked request may be sent once more");
    }
}

/// The outcome of an attempt to send a request.
enum Next {
    Answered {
        status: StatusCode,
        is_taken: bool,
    },
    /// It is sent again after this time. This was no try.
    After(Duration),
    /// No upstream was reached.
    Unreached,
}

/// Sends the first request of a queue, if the rules let it pass now.
async fn deliver(proxy: &Proxy, first: &First) -> Next {
    let request = match &first.kept {
        Ok(kept) => kept.clone(),
        Err(error) => {
            tracing::error!(%error, "a parked request was not read");
            return Next::After(PAUSE);
        }
    };
    let origin = Origin::new(request.peer, request.is_tls);
    let ends = proxy.settings.total_timeout.map(|total| Instant::now() + total);
    let Ok(mut request) = request.request() else { return Next::After(PAUSE) };
    if let Ok(id) = HeaderValue::try_from(first.entry.id.to_string()) {
        request.headers_mut().entry(IDEMPOTENCY_KEY).or_insert(id);
    }
    request.extensions_mut().insert(Passing { origin: Arc::new(origin), ends, upgrade: None });
    request.extensions_mut().insert(Resent);
    let mut service = proxy.service.clone();
    // The service is always ready, and learns here that the one inside it is.
    let Ok(()) = std::future::poll_fn(|context| service.poll_ready(context)).await;
    let Ok(mut answer) = service.call(request.map(Upload::whole)).await;
    let status = answer.status();
    let extensions = answer.extensions_mut();
    if extensions.remove::<NotServed>().is_some() {
        return Next::Unreached;
    }
    let is_taken = match extensions.remove::<Refused>() {
        Some(Refused { retry_after, is_for_now: true }) => {
            return Next::After(retry_after.unwrap_or(PAUSE));
        }
        Some(_) => false,
        None => {
            !status.is_server_error()
                && !matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        }
    };
    // The next one of the key is sent when this one has ended, or is too long: the status is known.
    let (mut body, mut read) = (answer.into_body(), 0);
    let end = async {
        while let Some(Ok(frame)) = body.frame().await
            && read < ANSWER.0
        {
            read += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    let _ = tokio::time::timeout(ANSWER.1, end).await;
    Next::Answered { status, is_taken }
}
