//! Layers whose rules are in a file.

mod allocations;
mod answers;
mod charges;
mod clients;
mod full_tables;
mod grpc;
mod in_flight;
mod queues;
mod reload;
mod requests;
#[cfg(feature = "stores")]
mod stores;
mod turns;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Body;
use tollgate::ManualClock;
use tollgate_tower::{InFlightBody, RulesBuilder, RulesLayer};
use tower::{Layer, Service, ServiceExt};

use crate::support::{Echo, TokioClock, assert_structured, request};

/// A rules file in a folder of its own, which is removed in the end.
struct File(PathBuf);

impl File {
    fn new(rules: &str) -> Self {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let name = format!("tollgate-tower-{}-{}", std::process::id(), FILES.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let file = Self(folder.join("rules.toml"));
        file.write(rules);
        file
    }

    /// Writes other rules, as an editor does.
    fn write(&self, rules: &str) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, format!("version = 1\n{rules}")).unwrap();
        std::fs::rename(new, &self.0).unwrap();
    }

    /// Starts a layer whose requests attach their peer as [`request`] does.
    fn layer(&self) -> RulesBuilder {
        RulesLayer::builder(&self.0, |peer: &SocketAddr| Some(peer.ip()))
    }

    fn build(&self) -> (RulesLayer, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new());
        (self.layer().clock(Arc::clone(&clock)).on_reload(|_| {}).build().unwrap(), clock)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

/// A layer with these rules and a clock that stands still. Its file is gone.
fn layer(rules: &str) -> RulesLayer {
    File::new(rules).build().0
}

/// A layer on tokio's time.
fn on_tokio(rules: &str) -> RulesLayer {
    let file = File::new(rules);
    let layer = file.layer().clock(TokioClock::new()).timer(tokio::time::sleep);
    layer.on_reload(|_| {}).build().unwrap()
}

/// Serves a request by this service, and reads the body of its response.
async fn serve_by<S, B>(layer: &RulesLayer, inner: S, request: Request<String>) -> Response<String>
where
    S: Service<Request<String>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data: std::fmt::Debug, Error: std::fmt::Debug> + From<String>,
{
    let response: Response<InFlightBody<B>> = layer.layer(inner).oneshot(request).await.unwrap();
    assert_structured(response.headers());
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Response::from_parts(head, String::from_utf8(body.to_vec()).unwrap())
}

/// Serves a request by [`Echo`].
async fn send(layer: &RulesLayer, path: &str, headers: &[(&str, &str)]) -> Response<String> {
    serve_by(layer, Echo, request(path, headers)).await
}

async fn status(layer: &RulesLayer, path: &str, headers: &[(&str, &str)]) -> u16 {
    send(layer, path, headers).await.status().as_u16()
}

/// Sends a request so often and returns the statuses.
async fn statuses(layer: &RulesLayer, count: usize, path: &str, headers: &[(&str, &str)]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(status(layer, path, headers).await);
    }
    statuses
}

const X: (&str, &str) = ("peer", "203.0.113.9");
const Y: (&str, &str) = ("peer", "198.51.100.7");
