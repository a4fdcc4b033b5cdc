#![doc = include_str!("../README.md")]

mod any_backend;
mod backend;
mod fault;

pub use any_backend::{AnyBackend, AnyReceipt};
pub use backend::{Backend, BackendReply, OnBackendError};
pub use fault::BackendFault;
