#![doc = include_str!("../README.md")]

mod any_backend;
mod backend;

pub use any_backend::AnyBackend;
pub use backend::{Backend, BackendReply, OnBackendError};
