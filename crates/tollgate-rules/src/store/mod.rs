//! Limits that are decided outside of this process: by Redis, a service, a sidecar.
//!
//! | file | what |
//! |------|------|
//! | `reply`, `backend` | what a store says; the trait of a store of a program's own |
//! | `any_backend`, `fault` | a store of any type, whose panics and missed deadlines are errors |
//! | `address`, `secret` | where Redis or Valkey is, and its password |
//! | `share` | a process's share of a limit, while the store does not answer |

mod address;
mod any_backend;
mod backend;
mod fault;
mod reply;
mod secret;
mod share;

pub use address::{AddressError, StoreAddress, StorePlace};
pub use any_backend::{AnyBackend, AnyReceipt};
pub use backend::{Backend, OnBackendError};
pub use fault::BackendFault;
pub use reply::StoreReply;
pub use secret::Secret;
pub use share::local_share;
