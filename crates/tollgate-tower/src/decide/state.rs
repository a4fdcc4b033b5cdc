//! The state of a layer.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use http::Request;
use tollgate_http::{RequestHead, UnixZero};
use tollgate_rules::LiveRules;

use super::LayerSet;
use super::generation::Generation;
use super::response_headers::ResponseClock;
use super::settings::Settings;
use super::view::Labels;
use crate::rule::{Closures, SharedClock};

/// What a layer shares with its services: everything but how refused requests are answered.
pub(crate) struct LayerState {
    /// The file of the rules, if they are in one. Dropped first: the thread that watches it ends
    /// before the rules are gone.
    #[cfg(feature = "rules")]
    pub(crate) file: Option<super::file::FileOfRules>,
    pub(crate) live: LiveRules<SharedClock>,
    /// Locked while the layer's user changes rules.
    pub(crate) changing: Mutex<()>,
    pub(crate) settings: Settings,
    pub(crate) clock: SharedClock,
    /// The same clock.
    pub(crate) response_clock: ResponseClock,
    pub(crate) unix_zero: UnixZero,
    /// The newest generation that a thread has met.
    pub(crate) newest: Mutex<Arc<Generation>>,
    /// By which threads know this layer.
    pub(crate) identity: Arc<()>,
}

impl LayerState {
    /// The state of a layer with these rules.
    pub(crate) fn new(
        live: LiveRules<SharedClock>,
        settings: Settings,
        response_clock: ResponseClock,
        #[cfg(feature = "rules")] file: Option<super::file::FileOfRules>,
    ) -> Self {
        let Settings { peer, stores, styles, .. } = &settings;
        let newest = Generation::new(live.rules(), peer, stores, *styles, None);
        Self {
            #[cfg(feature = "rules")]
            file,
            changing: Mutex::default(),
            settings,
            clock: Arc::clone(live.rules().clock()),
            live,
            response_clock,
            unix_zero: UnixZero::default(),
            newest: Mutex::new(Arc::new(newest)),
            identity: Arc::new(()),
        }
    }

    /// Returns the head of a request, with its original target.
    #[inline]
    pub(crate) fn head<'r, B>(&self, request: &'r Request<B>) -> RequestHead<'r> {
        self.original(RequestHead::of(request))
    }

    /// Returns a head with the original target of its request.
    #[inline]
    pub(crate) fn original<'r>(&self, head: RequestHead<'r>) -> RequestHead<'r> {
        let Some(original_uri) = &self.settings.original_uri else { return head };
        original_uri(head.extensions()).map_or(head, |uri| head.with_uri(uri))
    }

    /// Whether the rules are those of a program, with closures.
    #[inline]
    pub(crate) fn has_closures(&self) -> bool {
        matches!(self.settings.labels, Labels::OfRules(_))
    }

    /// The closures of a rule, by its index.
    #[inline]
    pub(crate) fn closures(&self, rule: usize) -> Option<&Closures> {
        if let Labels::OfRules(rules) = &self.settings.labels { rules.get(rule) } else { None }
    }

    /// Returns what the layer derives from these rules.
    pub(crate) fn generation_of(&self, set: &Arc<LayerSet>) -> Arc<Generation> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(set, newest.http.set()) {
            let next = Generation::new(
                Arc::clone(set),
                &self.settings.peer,
                &self.settings.stores,
                self.settings.styles,
                Some(&newest),
            );
            *newest = Arc::new(next);
        }
        Arc::clone(&newest)
    }

    pub(super) fn report_backend_error(&self, rule: usize, error: &(dyn Error + Send + Sync + 'static)) {
        let name = self.closures(rule).map_or("", Closures::name);
        #[cfg(feature = "tracing")]
        tracing::warn!(rule = name, %error, "a backend failed");
        if let Some(on_backend_error) = &self.settings.hooks.on_backend_error {
            on_backend_error(name, error);
        }
    }
}
