//! The proxy, over sockets.

mod bodies;
mod heads;
mod heads2;
mod leaves;
mod park;
mod peers;
mod rules;
mod seen;
mod support;
#[path = "../tools/mod.rs"]
#[allow(dead_code)]
mod tools;
mod tunnel;
mod upstreams;
