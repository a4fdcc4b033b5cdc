//! Rules whose counts are kept in a real Redis, asked of real servers.

mod check;
#[path = "../../../tollgate-redis/tests/support/server.rs"]
#[allow(unreachable_pub)]
mod redis_server;
#[path = "../v1/support.rs"]
#[allow(dead_code)]
mod support;
