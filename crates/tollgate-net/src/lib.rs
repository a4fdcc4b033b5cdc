#![doc = include_str!("../README.md")]
//!
//! # The rooms
//!
//! Imports go downwards only.
//!
//! | room | what |
//! |------|------|
//! | [`web`] | HTTP in front: heads, bodies, answers, streams |
//! | [`life`] | signals, and what systemd is told |
//! | [`counts`] | the counts of a listener |
//! | [`listen`] | sockets, TLS, connections |
//! | [`workers`] | the threads that serve connections |

pub mod counts;
pub mod life;
mod limits;
pub mod listen;
pub mod web;
pub mod workers;

pub use limits::Limits;
