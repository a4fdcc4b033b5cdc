//! What clients ask of the server: `COMMAND`, `CONFIG`, `INFO`, `TIME`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::call::Call;
use super::reply::Reply;

/// How many commands there are.
const COMMANDS: i64 = 32;

/// `COMMAND`, `COMMAND COUNT`, `COMMAND DOCS`: no command is described.
pub(super) fn command(call: &Call<'_>, reply: &mut Reply<'_>) {
    if call.arguments.len() == 1 || call.is(1, "INFO") || call.is(1, "LIST") {
        reply.array(0);
    } else if call.is(1, "DOCS") {
        reply.map(0);
    } else if call.is(1, "COUNT") && call.arguments.len() == 2 {
        reply.integer(COMMANDS);
    } else {
        call.unknown_subcommand(reply);
    }
}

/// `CONFIG GET`: there is nothing that a Redis client could read or set.
pub(super) fn config(call: &Call<'_>, reply: &mut Reply<'_>) {
    if call.is(1, "GET") && call.arguments.len() > 2 {
        reply.map(0);
    } else {
        call.unknown_subcommand(reply);
    }
}

/// `INFO`: the lines that clients look for.
pub(super) fn info(call: &Call<'_>, reply: &mut Reply<'_>) {
    let uptime = call.shared.started.elapsed().as_secs();
    reply.text(format_args!(
        "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\ntollgate_version:{}\r\n\
         process_id:{}\r\nuptime_in_seconds:{uptime}\r\n\r\n\
         # Persistence\r\nloading:0\r\n\r\n\
         # Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n\
         # Cluster\r\ncluster_enabled:0\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
    ));
}

/// `TIME`: seconds and microseconds since 1970.
pub(super) fn time(reply: &mut Reply<'_>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    reply.array(2);
    reply.text(now.as_secs());
    reply.text(now.subsec_micros());
}
