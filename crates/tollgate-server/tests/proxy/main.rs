//! The proxy, over sockets.

mod bodies;
#[path = "../../../tollgate-redis/tests/support/cluster.rs"]
mod cluster;
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
mod park_tries;
mod peers;
mod queues;
#[path = "../../../tollgate-redis/tests/support/server.rs"]
mod redis_server;
mod resets;
mod rules;
mod seen;
mod silent;
mod slow;
mod smuggling;
#[path = "../../../tollgate-redis/tests/support/proxy.rs"]
#[allow(dead_code)]
mod store_proxy;
mod support;
mod threads;
#[path = "../tools/mod.rs"]
#[allow(dead_code)]
mod tools;
mod trailers;
mod tunnel;
mod untaken;
mod upstreams;

// As the cluster's module knows it.
use redis_server as server;
