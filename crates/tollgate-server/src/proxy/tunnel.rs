//! A connection after status 101: bytes both ways.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
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
    /// Carries bytes until both ends have said that they end, or one has broken.
    pub(super) async fn carry(self) {
        let Self { client, upstream, held } = self;
        match tokio::try_join!(client, upstream) {
            Ok((client, upstream)) => {
                let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
                // A peer that breaks off ends the tunnel.
                let _ = copy_bidirectional(&mut client, &mut upstream).await;
            }
            Err(error) => tracing::debug!(%error, "a connection did not switch to another protocol"),
        }
        drop(held);
    }
}
