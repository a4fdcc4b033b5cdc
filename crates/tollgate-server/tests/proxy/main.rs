//! The proxy, over sockets.

mod bodies;
mod heads;
mod leaves;
mod rules;
mod support;
mod tunnel;
mod upstreams;
