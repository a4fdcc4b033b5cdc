#![doc = include_str!("../README.md")]

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
