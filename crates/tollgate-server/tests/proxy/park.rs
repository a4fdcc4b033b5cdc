//! Requests that are kept for later.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::sleep;
use tollgate_server::Settings;

use super::support::{Proxy, call, path, start_with};
use tollgate_testing::http::Answer;
use tollgate_testing::stores::{Server, Store};
use tollgate_testing::upstream::{Written, full, upstream, upstream_at};
use tollgate_testing::wait::{LONG, eventually};

/// What an upstream got of a request.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) path: String,
    body: String,
    headers: HeaderMap,
    at: Instant,
}

impl Got {
    /// A header's value; empty if it has none.
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// An upstream that notes what it gets, and answers with the statuses of its list, then with 200.
#[derive(Clone, Default)]
pub(crate) struct Journal {
    pub(crate) got: Arc<Mutex<Vec<Got>>>,
    statuses: Arc<Mutex<Vec<u16>>>,
}

impl Journal {
    pub(crate) fn answering(statuses: &[u16]) -> Self {
        let journal = Self::default();
        journal.statuses.lock().unwrap().extend(statuses.iter().rev());
        journal
    }

    pub(crate) async fn serve(&self, address: &str) -> String {
        let journal = self.clone();
        let handler = move |request: Request<Incoming>| {
            let journal = journal.clone();
            async move {
                let at = Instant::now();
                let (head, body) = request.into_parts();
                let body = String::from_utf8(body.collect().await.unwrap().to_bytes().into()).unwrap();
                let path = head.uri.path().to_owned();
                journal.got.lock().unwrap().push(Got { path, body, headers: head.headers, at });
                let status = journal.statuses.lock().unwrap().pop().unwrap_or(200);
                Response::builder().status(status).body(full("done")).unwrap()
            }
        };
        format!("http://{}", upstream_at(address.parse().unwrap(), handler).await)
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.got.lock().unwrap().iter().map(|got| got.path.clone()).collect()
    }
}

/// Where requests are kept.
#[derive(Clone)]
pub(crate) enum Kept {
    File,
    Redis(Arc<Server>),
}

impl Kept {
    /// Each kind of store: a test holds for all.
    pub(crate) fn each() -> Vec<Self> {
        let redis = Self::redis().map(|server| Self::Redis(Arc::new(server)));
        std::iter::once(Self::File).chain(redis).collect()
    }

    /// A server that loses nothing.
    pub(crate) fn redis() -> Option<Server> {
        Server::start_with(Store::Redis, &["--appendonly yes", "--appendfsync always"])
    }

    /// Rules with these fields of one, beside its name and what it does with refusals.
    pub(crate) fn rules(&self, fields: &str) -> String {
        match self {
            Self::File => format!("rule = [{{ name = 'later', on_refusal = 'park', {fields} }}]"),
            Self::Redis(server) => stored(&server.url(), fields),
        }
    }
}

/// The same, kept at this address.
pub(crate) fn stored(url: &str, fields: &str) -> String {
    // The machine has other work.
    format!(
        "stores.shared = {{ url = '{url}', deadline = '10s' }}
        rule = [{{ name = 'later', on_refusal = 'park', store = 'shared', {fields} }}]"
    )
}

/// A proxy that parks requests, and an administrator.
pub(crate) struct Parking {
    pub(crate) proxy: Proxy,
    pub(crate) upstream: Journal,
}

const TOKEN: &str = "let me in";

impl Parking {
    pub(crate) async fn new(kept: &Kept, rule: &str) -> Self {
        Self::over(kept, rule, Journal::default()).await
    }

    pub(crate) async fn over(kept: &Kept, rule: &str, upstream: Journal) -> Self {
        let url = upstream.serve("127.0.0.1:0").await;
        Self::before(kept, rule, &url, upstream).await
    }

    /// `rule` are the fields of the rule beside its name and what it does with refusals.
    pub(crate) async fn before(kept: &Kept, rule: &str, url: &str, upstream: Journal) -> Self {
        Self::with(kept, rule, url, upstream, |_| {}).await
    }

    /// The same, with other settings.
    pub(crate) async fn with(
        kept: &Kept,
        rule: &str,
        url: &str,
        upstream: Journal,
        set: impl FnOnce(&mut Settings),
    ) -> Self {
        let token = path("token");
        std::fs::write(&token, TOKEN).unwrap();
        let rule = if rule.contains("name = ") { rule.into() } else { kept.rules(rule) };
        let proxy = start_with(&rule, &[url.into()], |settings| {
            settings.admin.push("127.0.0.1:0".parse().unwrap());
            settings.admin_token = Some(token);
            settings.park = matches!(kept, Kept::File).then(|| path("park"));
            set(settings);
        })
        .await;
        Self { proxy, upstream }
    }

    pub(crate) async fn post(&self, path: &str, key: &str) -> Answer {
        self.proxy.call("POST", path, &[("x-key", key)], "body").await
    }

    /// Parks a request, and returns its id.
    pub(crate) async fn parked(&self, path: &str, key: &str) -> String {
        let answer = self.post(path, key).await;
        assert_eq!(answer.status, 202, "{path}: {:?}", answer.body);
        answer.header("location").strip_prefix("/.well-known/tollgate/parked/").unwrap().to_owned()
    }

    pub(crate) async fn ask(&self, method: &str, path: &str) -> Answer {
        let token = format!("Bearer {TOKEN}");
        call(self.proxy.admin(), method, path, &[("authorization", &token)], "").await
    }

    pub(crate) async fn json(&self, method: &str, path: &str) -> Value {
        let answer = self.ask(method, path).await;
        assert_eq!(answer.status, 200, "{path}: {:?}", answer.body);
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Waits until a request is in this state, as its client sees it.
    pub(crate) async fn becomes(&self, id: &str, state: &str) -> Value {
        let began = Instant::now();
        loop {
            let answer = self.proxy.get(&format!("/.well-known/tollgate/parked/{id}"), &[]).await;
            let shown: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(answer.header("cache-control"), "no-store");
            if shown["state"] == state {
                return shown;
            }
            assert!(began.elapsed() < LONG, "{shown} does not become {state}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Cancels a request as soon as the rules are not asked whether it may pass now.
    async fn cancelled(&self, id: &str) {
        let (began, path) = (Instant::now(), format!("/admin/parked/{id}"));
        while self.ask("DELETE", &path).await.status == 409 {
            assert!(began.elapsed() < LONG, "{id} is not cancelled");
        }
        self.becomes(id, "cancelled").await;
    }

    /// Waits until a metric has this value: a server's are known a second later.
    async fn counts(&self, label: &str, value: u64) {
        let began = Instant::now();
        while self.metric(label).await != value {
            assert!(began.elapsed() < LONG, "{label} does not become {value}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn metric(&self, label: &str) -> u64 {
        let page = String::from_utf8(self.ask("GET", "/metrics").await.body.into()).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix("tollgate_parked_")?.split_once(label));
        line.map_or(0, |(_, labels)| labels.rsplit(' ').next().unwrap().parse().unwrap())
    }
}

#[tokio::test]
async fn parked_requests_are_sent_in_order_at_the_rules_rate() {
    for kept in Kept::each() {
        let parking = Parking::new(&kept, "key = 'client', limits = '1/s,burst=1'").await;
        let first = parking.post("/0", "").await;
        assert_eq!(first.status, 200);
        let mut ids = Vec::new();
        for path in ["/1", "/2", "/3", "/4"] {
            let answer = parking.post(path, "").await;
            assert_eq!(answer.status, 202);
            let body: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(answer.header("location"), body["state"].as_str().unwrap());
            ids.push(body["id"].as_str().unwrap().to_owned());
        }
        for id in &ids {
            let shown = parking.becomes(id, "sent").await;
            assert_eq!((&shown["status"], &shown["tries"]), (&200.into(), &1.into()));
        }
        let got = parking.upstream.got.lock().unwrap().clone();
        let paths: Vec<_> = got.iter().map(|got| &*got.path).collect();
        assert_eq!(paths, ["/0", "/1", "/2", "/3", "/4"]);
        for (got, id) in got[1..].iter().zip(&ids) {
            let headers = (got.header("idempotency-key"), got.header("x-forwarded-for"));
            assert_eq!((&*got.body, headers), ("body", (&**id, "127.0.0.1")));
        }
        let took = got[4].at - got[0].at;
        assert!(took >= Duration::from_millis(3900), "five within {took:?} are more than 1/s");
    }
}

#[tokio::test]
async fn a_later_request_of_the_key_stays_behind() {
    for kept in Kept::each() {
        let upstream = Journal::answering(&[200, 503, 200]);
        let rule = "key = 'header.x-key', limits = '1/s,burst=1', park.retry = '4s'";
        let parking = Parking::over(&kept, rule, upstream).await;
        assert_eq!(parking.post("/0", "a").await.status, 200);
        parking.parked("/1", "a").await;
        eventually(|| parking.upstream.paths().len() == 2).await;
        sleep(Duration::from_millis(1100)).await;
        // The limit would let it pass.
        let last = parking.parked("/2", "a").await;
        assert_eq!(parking.post("/3", "b").await.status, 200, "another key does not wait");
        parking.becomes(&last, "sent").await;
        assert_eq!(parking.upstream.paths(), ["/0", "/1", "/3", "/1", "/2"]);
    }
}

#[tokio::test]
async fn what_does_not_fit_is_refused_as_ever() {
    for (bounds, key) in [
        ("requests = 1", "b"),
        ("requests_per_key = 1", "a"),
        // A request takes about 110.
        ("bytes = 150", "b"),
        ("bytes_per_key = 150", "a"),
        ("body = 3", ""),
    ] {
        for kept in Kept::each() {
            let rule = format!("key = 'header.x-key', limits = '1/h', park = {{ {bounds} }}");
            let parking = Parking::new(&kept, &rule).await;
            assert_eq!(parking.post("/", "a").await.status, 200);
            assert_eq!(parking.post("/", "b").await.status, 200);
            let first = if key.is_empty() { None } else { Some(parking.parked("/", "a").await) };
            let answer = parking.post("/", if key.is_empty() { "a" } else { key }).await;
            assert_eq!(answer.status, 429, "{bounds}");
            assert!(answer.header("retry-after").parse::<u64>().unwrap() > 3500);
            assert_eq!(parking.metric("event=\"full").await, u64::from(!key.is_empty()));
            let Some(first) = first else { continue };
            if bounds.contains("per_key") {
                parking.parked("/", "b").await;
            }
            parking.cancelled(&first).await;
            parking.parked("/", key).await;
        }
    }
}

#[tokio::test]
async fn only_what_waiting_helps_is_parked() {
    let later = "name = 'later', on_refusal = 'park', key = 'client', limits = '1/h'";
    for other in [
        "key = 'client', limits = '1/h'",
        "key = 'client', limits = 'block', match.path = '/no'",
        "key = 'header.x-none', limits = '9/h', missing = 'refuse', match.path = '/no'",
    ] {
        let rules = format!("rule = [{{ {later} }}, {{ name = 'other', {other} }}]");
        let parking = Parking::new(&Kept::File, &rules).await;
        assert_eq!(parking.post("/", "").await.status, 200);
        assert!([403, 429].contains(&parking.post("/no", "").await.status.as_u16()), "{other}");
    }
    let parking =
        Parking::new(&Kept::File, "key = 'client', limits = '2/h', cost = [{ match.path = '/big', is = 3 }]")
            .await;
    assert_eq!(parking.post("/big", "").await.status, 429, "it costs more than the limit");
}

#[tokio::test]
async fn chosen_headers_are_kept_and_the_clients_own_key() {
    for (headers, other) in [(", park.headers = ['Idempotency-Key']", ""), ("", "1")] {
        for kept in Kept::each() {
            let rule = format!("key = 'client', limits = '1/s,burst=1'{headers}");
            let parking = Parking::new(&kept, &rule).await;
            assert_eq!(parking.post("/0", "").await.status, 200);
            let headers = [("idempotency-key", "mine"), ("x-other", "1")];
            let answer = parking.proxy.call("PUT", "/1", &headers, "").await;
            assert_eq!(answer.status, 202);
            eventually(|| parking.upstream.paths().len() == 2).await;
            let got = parking.upstream.got.lock().unwrap()[1].clone();
            let came = ["idempotency-key", "x-forwarded-for", "x-other"].map(|name| got.header(name));
            assert_eq!(came, ["mine", "127.0.0.1", other], "{rule}");
        }
    }
}

#[tokio::test]
async fn an_upstream_that_is_down_costs_no_try() {
    for kept in Kept::each() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let rule = "key = 'client', limits = '1/s,burst=1', park.tries = 1";
        let parking = Parking::before(&kept, rule, &format!("http://{closed}"), Journal::default()).await;
        assert_eq!(parking.post("/0", "").await.status, 502);
        let id = parking.parked("/1", "").await;
        sleep(Duration::from_millis(1500)).await;
        parking.becomes(&id, "parked").await;
        parking.upstream.serve(&closed.to_string()).await;
        assert_eq!(parking.becomes(&id, "sent").await["tries"], 1);
    }
}

#[tokio::test]
async fn what_is_too_old_expires() {
    for kept in Kept::each() {
        let parking = Parking::new(&kept, "key = 'client', limits = '1/h', park.age = '100ms'").await;
        assert_eq!(parking.post("/0", "").await.status, 200);
        let id = parking.parked("/1", "").await;
        parking.becomes(&id, "expired").await;
        assert_eq!(parking.upstream.paths(), ["/0"]);
        assert_eq!(parking.metric("event=\"expired").await, 1);
        parking.parked("/2", "").await;
    }
}

#[tokio::test]
async fn a_dead_request_is_kept_and_sent_again() {
    for kept in Kept::each() {
        let upstream = Journal::answering(&[200, 500, 429, 201]);
        let rule = "key = 'client', limits = '1/s,burst=1', park = { tries = 2, retry = '10ms' }";
        let parking = Parking::over(&kept, rule, upstream).await;
        assert_eq!(parking.post("/0", "").await.status, 200);
        let id = parking.parked("/1", "").await;
        assert_eq!(parking.becomes(&id, "dead").await["status"], 429);
        let dead = parking.json("GET", "/admin/parked?state=dead").await;
        assert_eq!(dead["parked"][0]["id"], id);
        assert_eq!(dead["parked"][0]["request"], "POST /1");
        parking.counts("state=\"dead", 1).await;
        parking.counts("event=\"dead", 1).await;
        let revived = parking.json("POST", &format!("/admin/parked/{id}")).await;
        assert_eq!((&revived["state"], &revived["tries"]), (&"parked".into(), &0.into()));
        assert_eq!(parking.becomes(&id, "sent").await["status"], 201);
        let got = parking.upstream.got.lock().unwrap().clone();
        let keys: Vec<_> = got[1..].iter().map(|got| got.header("idempotency-key")).collect();
        assert_eq!(keys, [&*id; 3]);
        assert_eq!(parking.ask("POST", &format!("/admin/parked/{id}")).await.status, 409);
    }
}

#[tokio::test]
async fn an_administrator_lists_and_cancels() {
    for kept in Kept::each() {
        let parking = Parking::new(&kept, "key = 'header.x-key', limits = '1/h'").await;
        for key in ["a", "b"] {
            assert_eq!(parking.post("/0", key).await.status, 200);
        }
        let ids = [
            parking.parked("/1", "a").await,
            parking.parked("/2", "b").await,
            parking.parked("/3", "a").await,
        ];
        let listed = async |query: &str| {
            let page = parking.json("GET", &format!("/admin/parked?{query}")).await;
            let ids = page["parked"].as_array().unwrap().iter().map(|entry| entry["id"].clone());
            (ids.collect::<Vec<_>>(), page["after"].clone())
        };
        assert_eq!(listed("").await.0, ids);
        assert_eq!(listed("rule=later&state=parked").await.0, ids);
        assert_eq!(listed("rule=later&state=dead").await, (vec![], Value::Null));
        let (page, after) = listed("most=2").await;
        assert_eq!(page, ids[..2]);
        let after = after.as_str().unwrap();
        assert_eq!(
            listed(&format!("most=2&after={after}")).await,
            (vec![ids[2].clone().into()], Value::Null)
        );
        let key = parking.json("GET", &format!("/admin/parked/{}", ids[0])).await["key"].clone();
        assert_eq!(listed(&format!("key={}", key.as_str().unwrap())).await.0, [&*ids[0], &*ids[2]]);
        for path in ["?state=lost", "?most=x"] {
            assert_eq!(parking.ask("GET", &format!("/admin/parked{path}")).await.status, 400);
        }
        parking.cancelled(&ids[0]).await;
        let cancel = format!("/admin/parked/{}", ids[0]);
        assert_eq!(parking.ask("DELETE", &cancel).await.status, 409);
        parking.counts("event=\"cancelled", 1).await;
        let unknown = format!("/admin/parked/{:032x}", 7);
        assert_eq!(parking.ask("DELETE", &unknown).await.status, 404);
        assert_eq!(call(parking.proxy.admin(), "GET", "/admin/parked", &[], "").await.status, 401);
        assert_eq!(parking.proxy.status("/.well-known/tollgate/parked/7").await, 404);
        parking.counts("state=\"parked", 2).await;
        assert_eq!(parking.json("GET", "/admin/live").await["parked"], serde_json::json!([2, 0]));
    }
}

#[tokio::test]
async fn requests_of_a_rule_that_is_gone_are_sent() {
    for kept in Kept::each() {
        let parking = Parking::new(&kept, "key = 'client', limits = '1/h'").await;
        assert_eq!(parking.post("/0", "").await.status, 200);
        let id = parking.parked("/1", "").await;
        std::fs::write(parking.proxy.rules(), "version = 1").unwrap();
        parking.proxy.server.reload().unwrap();
        parking.becomes(&id, "sent").await;
        assert_eq!(parking.post("/2", "").await.status, 200);
    }
}

#[tokio::test]
async fn a_client_that_leaves_with_half_a_body_parks_nothing() {
    for is_http2 in [false, true] {
        for kept in Kept::each() {
            let parking = Parking::new(&kept, "key = 'client', limits = '1/h'").await;
            assert_eq!(parking.post("/0", "").await.status, 200);
            let (sender, body) = Written::new();
            let request = Request::post("http://a.test/half").header("host", "a.test").body(body).unwrap();
            let call = parking.proxy.begin(is_http2, request).await;
            sender.send(Some(Bytes::from_static(b"half"))).await.unwrap();
            sleep(Duration::from_millis(50)).await;
            call.leave();
            parking.parked("/1", "").await;
            sleep(Duration::from_millis(50)).await;
            assert_eq!(parking.metric("event=\"parked").await, 1);
            call.end();
        }
    }
}

/// An answer without an end: it stands still after its first bytes, or never does.
struct Endless {
    has_begun: bool,
    stands_still: bool,
}

impl hyper::body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        if std::mem::replace(&mut self.has_begun, true) && self.stands_still {
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(Bytes::from_static(&[0; 16 << 10])))))
    }
}

#[tokio::test]
async fn an_endless_answer_holds_up_no_queue() {
    for stands_still in [true, false] {
        let address = upstream(move |request: Request<Incoming>| async move {
            let is_endless = request.uri().path() == "/endless";
            let body = Endless { has_begun: false, stands_still };
            Response::new(if is_endless { body.boxed() } else { full("done") })
        });
        let url = format!("http://{}", address.await);
        let rule = "key = 'client', limits = '1/s,burst=1'";
        let parking = Parking::before(&Kept::File, rule, &url, Journal::default()).await;
        assert_eq!(parking.post("/0", "").await.status, 200);
        let ids = [parking.parked("/endless", "").await, parking.parked("/2", "").await];
        for id in ids {
            let sent = parking.becomes(&id, "sent").await;
            assert_eq!((&sent["status"], &sent["tries"]), (&200.into(), &1.into()));
        }
    }
}
