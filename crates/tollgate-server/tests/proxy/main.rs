//! The proxy, over sockets.

mod bodies;
mod buffered;
mod early;
mod failures;
mod given_up;
mod heads;
mod heads2;
mod leaves;
mod limits;
#[path = "../admin/logged.rs"]
mod logged;
mod park;
mod park_estimate;
mod park_orders;
mod park_random;
mod park_redis;
mod park_states;
mod park_tries;
mod peers;
mod queues;
mod refused_uploads;
mod repeats;
mod resets;
mod rules;
mod seen;
mod silent;
mod slow;
mod smuggling;
mod streams;
mod support;
mod threads;
mod trailers;
mod tunnel;
mod untaken;
mod upstreams;
mod windows;
