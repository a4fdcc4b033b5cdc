//! Anything that speaks HTTP.
//!
//! | file | what |
//! |------|------|
//! | `service` | the state that all connections share, and the routes |
//! | `check` | one request or a batch: check, peek, reserve, acquire |
//! | `settle` | what became of a request: settle, release |
//! | `auth` | whether a proxy may let a request pass |
//! | `request` | requests as JSON |
//! | `outcome` | the answer to a request |
//! | `tickets` | what callers may still give back |
//! | `openapi` | holds the document to the types |

mod auth;
mod check;
#[cfg(test)]
mod openapi;
mod outcome;
mod request;
mod service;
mod settle;
mod tickets;

use std::sync::Arc;

use tollgate_net::listen::Connection;
use tollgate_net::web;

use crate::metrics::Listener;
pub(crate) use service::Service;

/// Serves one connection until the client or the server ends it.
pub(crate) async fn serve(service: Arc<Service>, connection: Connection) {
    let peer = connection.peer;
    let (limits, counts) = (service.limits, Arc::clone(service.core.metrics.counts(Listener::Http)));
    let handler = move |request| Arc::clone(&service).answer(peer, request);
    web::serve(connection, &limits, counts, handler).await;
}
