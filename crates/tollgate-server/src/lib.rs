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
//! | `v1` | anything that speaks HTTP: `/v1/check`, `/v1/auth` |
//! | `admin` | administration, and the live page |
//! | `state` | the state file: saved, and restored at the start |
//! | `web` | JSON in requests, and the paths of listeners |
//! | `core` | the rules in force, and who asks them |
//! | `metrics` | counters and gauges |

mod admin;
mod clock;
mod core;
mod metrics;
#[doc(hidden)]
pub mod probe;
mod resp;
mod rls;
mod server;
mod settings;
mod start_error;
mod state;
mod v1;
mod web;

pub use core::EnvoyFilesError;
pub use server::Server;
pub use settings::Settings;
pub use start_error::StartError;
pub use state::StateError;
pub use tollgate_net::Limits;
pub use tollgate_net::life::Signals;
pub use tollgate_net::listen::{BadAddress, BadTlsFiles, ListenAddress, TlsFiles};
pub use tollgate_proxy::park::ParkError;
pub use tollgate_proxy::proxy::UpstreamError;
pub use tollgate_proxy::{BadUpstream, ProxySettings, Upstream};
pub use tollgate_rules::Secret;
