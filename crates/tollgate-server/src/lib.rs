#![doc = include_str!("../README.md")]
//!
//! # The rooms
//!
//! Imports go downwards only.
//!
//! | room | what |
//! |------|------|
//! | `server`, `settings` | starts everything, and ends it |
//! | `probe` | the parts without connections, for tests and fuzz targets |
//! | `resp` | Redis clients: `CL.THROTTLE`, `TG.CHECK` |
//! | `rls` | Envoy: the rate limit service over gRPC, and as JSON |
//! | `proxy` | requests that are limited on their way to an upstream |
//! | `v1` | anything that speaks HTTP: `/v1/check`, `/v1/auth` |
//! | `admin` | administration, and the live page |
//! | `state` | the state file: saved, and restored at the start |
//! | `web` | requests and answers of HTTP |
//! | `life` | signals, and what systemd is told |
//! | `listen` | sockets, TLS, connections |
//! | `core` | the rules in force, and who asks them |
//! | `park` | requests that are kept for later |
//! | `metrics` | counters and gauges |
//! | `workers` | the threads that serve connections |

mod admin;
mod clock;
mod core;
mod life;
mod listen;
mod metrics;
mod park;
#[doc(hidden)]
pub mod probe;
mod proxy;
mod resp;
mod rls;
mod server;
mod settings;
mod start_error;
mod state;
mod v1;
mod web;
mod workers;

pub use core::EnvoyFilesError;
pub use life::Signals;
pub use listen::{BadAddress, BadTlsFiles, ListenAddress, TlsFiles};
pub use park::ParkError;
pub use proxy::UpstreamError;
pub use server::Server;
pub use settings::{BadUpstream, Limits, ProxySettings, Settings, Upstream};
pub use start_error::StartError;
pub use state::StateError;
pub use tollgate_rules::Secret;
