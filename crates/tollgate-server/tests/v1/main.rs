//! The HTTP API, asked over sockets.

mod auth;
mod check;
mod hostile;
mod openapi;
mod proxies;
mod support;
mod tickets;
mod together;
