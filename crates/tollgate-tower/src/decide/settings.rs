//! What a layer's user says beside the rules.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, Uri};
use tollgate::{ThreadTimer, Timer};
use tollgate_http::HeaderStyles;

use super::LayerVerdict;
use super::aside::{AsideHook, BesideHook};
use super::stores::Stores;
use super::view::Labels;
use crate::ClientAddress;
use crate::hooks::Hooks;
use crate::rule::CostFrom;

/// Is called with each verdict.
pub(crate) type VerdictHook = Box<dyn Fn(&LayerVerdict<'_>) + Send + Sync>;

/// Returns a future that completes after a duration.
type Sleep = Box<dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Finds the request target before a router rewrote it, in the extensions of a request.
type OriginalUri = Box<dyn Fn(&Extensions) -> Option<&Uri> + Send + Sync>;

/// What a layer's user says beside the rules.
pub(crate) struct Settings {
    /// How the address of the connection is found.
    pub(crate) peer: ClientAddress,
    pub(crate) labels: Labels,
    /// The styles of all responses; `None`: the rules name them.
    pub(crate) styles: Option<HeaderStyles>,
    pub(crate) hooks: Hooks,
    pub(crate) on_verdict: Option<VerdictHook>,
    pub(crate) set_aside: Option<AsideHook>,
    pub(crate) beside_stores: Option<BesideHook>,
    /// Reads what a request cost from the head of its response.
    pub(crate) cost_from: Option<CostFrom>,
    pub(crate) gives_back_unserved: bool,
    pub(crate) original_uri: Option<OriginalUri>,
    pub(crate) max_wait_with_body: Duration,
    /// The connections to the stores of rules.
    pub(crate) stores: Stores,
    pub(crate) sleep: Sleep,
}

impl Settings {
    /// The defaults.
    pub(crate) fn new(peer: ClientAddress, labels: Labels) -> Self {
        Self {
            peer,
            labels,
            styles: None,
            hooks: Hooks::default(),
            on_verdict: None,
            set_aside: None,
            beside_stores: None,
            cost_from: None,
            gives_back_unserved: false,
            original_uri: None,
            max_wait_with_body: Duration::ZERO,
            stores: Stores::default(),
            sleep: sleep_by(ThreadTimer),
        }
    }

    /// Has queued requests sleep by this timer.
    pub(crate) fn set_timer(&mut self, timer: impl Timer + Send + Sync + 'static) {
        self.sleep = sleep_by(timer);
    }

    /// Reads the request target from an extension.
    pub(crate) fn set_original_uri<T: Clone + Send + Sync + 'static>(
        &mut self,
        uri: impl Fn(&T) -> &Uri + Send + Sync + 'static,
    ) {
        self.original_uri = Some(Box::new(move |extensions: &Extensions| extensions.get().map(&uri)));
    }
}

fn sleep_by(timer: impl Timer + Send + Sync + 'static) -> Sleep {
    let timer = Arc::new(timer);
    Box::new(move |duration| {
        let timer = Arc::clone(&timer);
        Box::pin(async move { timer.sleep(duration).await })
    })
}
