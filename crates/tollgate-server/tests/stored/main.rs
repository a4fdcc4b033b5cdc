//! Rules whose counts are kept in a real Redis, asked of real servers.

mod check;
#[path = "../admin/client.rs"]
#[allow(dead_code)]
mod client;
mod envoy_files;
mod leaves;
mod listeners;
mod opening;
mod random;
mod secrets;
mod shadow;
#[path = "../v1/support.rs"]
#[allow(dead_code)]
mod support;
mod together;
#[path = "../../examples/two_servers.rs"]
#[allow(dead_code)]
mod two_servers;
