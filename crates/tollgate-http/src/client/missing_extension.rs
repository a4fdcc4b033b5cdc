//! The warning of a server that does not attach the connection's address.

use std::any::type_name;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Warns at the first request without the extension that holds the connection's address.
#[derive(Default)]
pub(super) struct MissingExtensionWarning {
    warned: AtomicBool,
}

impl MissingExtensionWarning {
    /// Warns that a request has no extension `T`.
    #[cold]
    pub(super) fn warn<T>(&self) {
        if self.warned.load(Relaxed) || self.warned.swap(true, Relaxed) {
            return;
        }
        let extension = type_name::<T>();
        let advice = "a request lacks the extension that has its client's address: until the server attaches it, \
                      all clients count as one. In axum, serve with \
                      into_make_service_with_connect_info::<SocketAddr>()";
        #[cfg(feature = "tracing")]
        if tracing::dispatcher::has_been_set() {
            tracing::error!(extension, "{advice}");
            return;
        }
        // Not `eprintln`, which panics if standard error is closed.
        let _ = writeln!(std::io::stderr(), "tollgate: {advice} (missing: {extension})");
    }
}
