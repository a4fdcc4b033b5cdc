//! A random program on threads: bans, limits in flight, changes of limits, shadow rules, charges by
//! response and queues in one layer, with clients that leave and handlers that fail.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::{Body, Bytes, Frame};
use tollgate::{Clock, Inherit, LeakyBucket, ManualClock, Rate, Timestamp, TokenBucket};
use tollgate_testing::random::Random;
use tollgate_tower::{HttpResponder, Limit, RequestHead, Rule, RuleOutcome, TollgateLayer, WrappedBody};
use tower::{Layer, Service, ServiceExt};

use crate::support::{by_header, layer_with, request};

const KEYS: usize = 3;
const THREADS: u64 = 4;
const STEPS: usize = 300;
/// What a handler panics with.
const PANIC: &str = "a handler that panics";
const BAN: Duration = Duration::from_secs(30);
/// No wait of the banning rule's own limit is longer.
const OWN_WAIT: Duration = Duration::from_secs(8);

/// The rules, each with its bit in the paths of the requests to which it applies, and the range of
/// the limits that it changes to.
const RULES: [(&str, u64, u64); 6] = [
    ("rate", 20, 40),
    ("at-once", 2, 4),
    ("banning", 3, 8),
    ("failures", 5, 10),
    ("paced", 3, 9),
    ("trial", 1, 3),
];
const RATE: usize = 0;
const AT_ONCE: usize = 1;
const BANNING: usize = 2;
const FAILURES: usize = 3;
const PACED: usize = 4;

type TestLayer = TollgateLayer<HttpResponder, WrappedBody>;
type Answer = Result<Response<tollgate_tower::InFlightBody<Held>>, &'static str>;
type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;

fn limit(rule: usize, number: u64) -> Limit {
    match RULES[rule].0 {
        "at-once" => Limit::InFlight(number),
        "paced" => LeakyBucket::queue(Rate::per_second(1)).capacity(number).into(),
        _ => TokenBucket::new(Rate::per_second(1)).burst(number).into(),
    }
}

fn applies(head: RequestHead<'_>, rule: usize) -> bool {
    head.path()[1..].parse::<u64>().unwrap() & 1 << rule != 0
}

fn layer(shared: &Arc<Shared>) -> TestLayer {
    let rule = |index: usize| {
        let (name, _, most) = RULES[index];
        Rule::new(name, [limit(index, most)]).key(by_header("k")).when(move |head| applies(head, index))
    };
    let (bans, seen) = (Arc::clone(shared), Arc::clone(shared));
    layer_with(rule(0))
        .rule(rule(1))
        .rule(rule(2).ban(BAN))
        .rule(rule(3).charge_if(|status, _| status == StatusCode::UNAUTHORIZED))
        .rule(rule(4))
        .rule(rule(5).ban(BAN).shadow())
        .clock(shared.clock.clone())
        .timer(|_| yield_once())
        .on_limited(move |refusal| {
            assert_ne!(refusal.rule(), "trial", "a shadow rule refuses");
            seen.refused.fetch_add(1, SeqCst);
        })
        .on_decision(move |decision| {
            if decision.rule() == "banning" && decision.outcome() == RuleOutcome::Limited {
                let end = BEGUN.get() + decision.limit().unwrap().reset;
                let mut bans = bans.bans.lock().unwrap();
                let ban = bans.entry(key_of(decision.head())).or_insert(end);
                *ban = end.max(*ban);
            }
        })
        .build_in_flight()
        .unwrap()
}

thread_local! {
    /// A time before the current decision of this thread.
    static BEGUN: Cell<Timestamp> = const { Cell::new(Timestamp::ZERO) };
}

fn key_of(head: RequestHead<'_>) -> usize {
    head.headers()["k"].to_str().unwrap().parse().unwrap()
}

/// Yields once to the task that polls.
async fn yield_once() {
    let mut has_yielded = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await
}

/// What the threads and the handlers of one program count.
#[derive(Default)]
struct Shared {
    clock: ManualClock,
    /// For each rule and key: the served units.
    served: [[AtomicU64; KEYS]; RULES.len()],
    failed: [AtomicU64; KEYS],
    running: [AtomicU64; KEYS],
    most_running: AtomicU64,
    refused: AtomicU64,
    refused_by_ban: AtomicU64,
    left: AtomicU64,
    changed: AtomicU64,
    /// For each key, when its ban ends at the earliest: later by up to [`OWN_WAIT`].
    bans: Mutex<HashMap<usize, Timestamp>>,
}

/// A request that the handler serves, until its body has ended.
struct Running(Arc<Shared>, usize);

impl Running {
    fn begin(shared: &Arc<Shared>, key: usize) -> Self {
        let running = shared.running[key].fetch_add(1, SeqCst) + 1;
        assert!(running <= RULES[AT_ONCE].2, "{running} requests at once");
        shared.most_running.fetch_max(running, SeqCst);
        Self(Arc::clone(shared), key)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running[self.1].fetch_sub(1, SeqCst);
    }
}

/// The body of a response, which ends when it is polled.
struct Held(Option<Running>);

impl From<String> for Held {
    fn from(_: String) -> Self {
        Self(None)
    }
}

impl Body for Held {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        self.0 = None;
        Poll::Ready(None)
    }
}

/// Serves as the header `x-want` says, and is not always ready.
#[derive(Clone)]
struct Handler(Arc<Shared>, u8);

impl Service<Request<String>> for Handler {
    type Response = Response<Held>;
    type Error = &'static str;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Held>, &'static str>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.1 = self.1.wrapping_sub(1);
        if self.1 < 3 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let head = RequestHead::of(&request);
        let key = key_of(head);
        for (rule, served) in self.0.served.iter().enumerate() {
            served[key].fetch_add(applies(head, rule).into(), SeqCst);
        }
        let running = applies(head, AT_ONCE).then(|| Running::begin(&self.0, key));
        let (shared, is_charged) = (Arc::clone(&self.0), applies(head, FAILURES));
        Box::pin(async move {
            yield_once().await;
            let mut response = Response::new(Held(None));
            match request.headers()["x-want"].to_str().unwrap() {
                "error" => return Err("an error"),
                "panic" => std::panic::panic_any(PANIC),
                "hang" => std::future::pending().await,
                "401" => {
                    shared.failed[key].fetch_add(is_charged.into(), SeqCst);
                    *response.status_mut() = StatusCode::UNAUTHORIZED;
                }
                _ => {}
            }
            response.body_mut().0 = running;
            Ok(response)
        })
    }
}

/// One thread's clients.
struct Clients {
    layer: TestLayer,
    shared: Arc<Shared>,
    random: Random,
    waiting: Vec<Pending>,
    bodies: Vec<tollgate_tower::InFlightBody<Held>>,
}

impl Clients {
    fn step(&mut self) {
        match self.random.u64(..20) {
            0..9 => self.send(),
            9..14 if !self.waiting.is_empty() => {
                let index = self.random.usize(..self.waiting.len());
                let client = self.waiting.swap_remove(index);
                self.poll(client);
            }
            14..16 if !self.waiting.is_empty() => {
                let index = self.random.usize(..self.waiting.len());
                drop(self.waiting.swap_remove(index));
                self.shared.left.fetch_add(1, SeqCst);
            }
            16 => self.change(),
            17 => self.shared.clock.advance(Duration::from_millis(self.random.u64(..1_500))),
            _ => self.end_body(),
        }
    }

    fn send(&mut self) {
        let key = self.random.usize(..KEYS);
        let mask = self.random.u64(..1 << RULES.len());
        let want = ["200", "200", "200", "401", "401", "error", "panic", "hang"][self.random.usize(..8)];
        let request = request(&format!("/{mask}"), &[("k", &key.to_string()), ("x-want", want)]);
        let handler = Handler(Arc::clone(&self.shared), self.random.u64(..6) as u8);
        let ban = self.shared.bans.lock().unwrap().get(&key).copied();
        BEGUN.set(self.shared.clock.now());
        let response = self.layer.layer(handler).oneshot(request);
        let was_refused = self.poll(Box::pin(response));
        let must_refuse = ban.is_some_and(|end| self.shared.clock.now() + OWN_WAIT < end);
        if must_refuse && mask & 1 << BANNING != 0 {
            assert!(was_refused, "key {key} is banned until {ban:?}");
            self.shared.refused_by_ban.fetch_add(1, SeqCst);
        }
    }

    /// Polls a response once. Returns whether it was refused.
    fn poll(&mut self, mut response: Pending) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        match catch_unwind(AssertUnwindSafe(|| response.as_mut().poll(&mut context))) {
            Ok(Poll::Pending) => self.waiting.push(response),
            Ok(Poll::Ready(Ok(response))) => {
                let is_refused = response.status() == StatusCode::TOO_MANY_REQUESTS;
                self.bodies.push(response.into_body());
                return is_refused;
            }
            Ok(Poll::Ready(Err(_))) => {}
            Err(panic) if panic.downcast_ref() == Some(&PANIC) => {}
            Err(panic) => resume_unwind(panic),
        }
        false
    }

    fn end_body(&mut self) {
        if self.bodies.is_empty() {
            return;
        }
        let index = self.random.usize(..self.bodies.len());
        let mut body = self.bodies.swap_remove(index);
        if self.random.bool() {
            let _ = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
        }
    }

    fn change(&mut self) {
        let rule = self.random.usize(..RULES.len());
        let (name, least, most) = RULES[rule];
        let number = self.random.u64(least..=most);
        // There may have been too many changes in a short time.
        let changed = self.layer.reconfigure(name, [limit(rule, number)], Inherit::Additive);
        self.shared.changed.fetch_add(changed.is_ok().into(), SeqCst);
    }
}

/// Runs one program. Returns what it counted.
fn run(seed: u64) -> Arc<Shared> {
    let shared = Arc::new(Shared::default());
    let layer = layer(&shared);
    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let random = Random::with_seed(seed << 8 | thread);
            let (layer, shared) = (layer.clone(), Arc::clone(&shared));
            let mut clients = Clients { layer, shared, random, waiting: Vec::new(), bodies: Vec::new() };
            scope.spawn(move || (0..STEPS).for_each(|_| clients.step()));
        }
    });

    let elapsed = shared.clock.now().saturating_since(Timestamp::ZERO).as_secs();
    for key in 0..KEYS {
        let served = |rule: usize| shared.served[rule][key].load(SeqCst);
        for rule in [RATE, BANNING] {
            let bound = RULES[rule].2 + elapsed;
            assert!(served(rule) <= bound, "{}: {} above {bound}", RULES[rule].0, served(rule));
        }
        assert!(served(PACED) <= 1 + elapsed, "a queue of one a second: {}", served(PACED));
        let failed = shared.failed[key].load(SeqCst);
        assert!(failed <= RULES[FAILURES].2 + elapsed, "{failed} failures are charged");
        assert_eq!(shared.running[key].load(SeqCst), 0);
        let at_once = layer.handle("at-once").unwrap();
        let state = at_once.key(key.to_string()).unwrap().peek(0);
        assert_eq!(state.remaining, state.limit, "all places are back");
    }
    assert_eq!(layer.handle("at-once").unwrap().usage().unwrap().live_keys, 0);
    assert_eq!(layer.handle("paced").unwrap().waiting(), 0);
    // In the end, no key has any debt.
    shared.clock.advance(Duration::from_secs(1_000));
    for (name, ..) in RULES {
        for key in 0..KEYS {
            let state = layer.handle(name).unwrap().key(key.to_string()).unwrap().peek(0);
            assert_eq!(state.remaining, state.limit, "{name} {key}");
        }
    }
    shared
}

#[test]
fn all_kinds_of_rules_together_keep_their_bounds() {
    let mut totals = [0; 5];
    for seed in 1..=12 {
        let shared = run(seed);
        let counts =
            [&shared.most_running, &shared.refused, &shared.refused_by_ban, &shared.left, &shared.changed];
        totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count.load(SeqCst));
    }
    // It was a real program: every kind of event has happened.
    assert!(totals.iter().all(|total| *total >= 24), "{totals:?}");
}
