//! A connection after status 101: bytes both ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tollgate_net::listen::Observed;
use tollgate_tower::InFlightBody;

use super::download::Download;

/// Both ends of a connection that has switched to another protocol.
pub(super) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) upstream: OnUpgrade,
    /// What the request holds until the tunnel has ended.
    pub(super) held: InFlightBody<Download>,
}

impl Tunnel {
    /// Carries bytes until both ends have said that they end, one has broken, or for this time
    /// there were none.
    pub(super) async fn carry(self, idle: Duration) {
        let Self { client, upstream, held } = self;
        match tokio::try_join!(client, upstream) {
            Ok((client, upstream)) => {
                let moves = Arc::new(AtomicU64::new(0));
                let observe = || {
                    let moves = Arc::clone(&moves);
                    move |_: &[u8]| {
                        moves.fetch_add(1, Relaxed);
                    }
                };
                let mut client = Observed::new(TokioIo::new(client), observe());
                let mut upstream = Observed::new(TokioIo::new(upstream), observe());
                let stands_still = async {
                    let mut before = None;
                    while before != Some(moves.load(Relaxed)) {
                        before = Some(moves.load(Relaxed));
                        tokio::time::sleep(idle).await;
                    }
                };
                tokio::select! {
                    // A peer that breaks off ends the tunnel.
                    _ = copy_bidirectional(&mut client, &mut upstream) => {}
                    () = stands_still => tracing::debug!("a tunnel was closed: it carried nothing"),
                }
            }
            Err(error) => tracing::debug!(%error, "a connection did not switch to another protocol"),
        }
        drop(held);
    }
}
