//! Commands of Redis clients, for loads that we send ourselves.

use super::open_loop::{Answer, Latencies, OpenLoop};
use super::servers::Running;

/// The commands in a pipeline.
pub(super) const PIPELINE: u64 = 32;

/// The lines of the answer to one command: an array of five numbers.
const LINES: usize = 6;

/// Writes a call with a quota, for the key of a number. The key stays in debt for a day.
pub(super) fn throttle(key: u64, into: &mut Vec<u8>) {
    let text =
        format!("*5\r\n$11\r\nCL.THROTTLE\r\n$14\r\nk:{key:012}\r\n$2\r\n10\r\n$1\r\n1\r\n$5\r\n86400\r\n");
    into.extend(text.bytes());
}

/// Writes a call by the rule `each`, for the key of a number.
pub(super) fn check(key: u64, into: &mut Vec<u8>) {
    into.extend(format!("*3\r\n$8\r\nTG.CHECK\r\n$4\r\neach\r\n$14\r\nk:{key:012}\r\n").bytes());
}

/// Loads a server with pipelines, so many a second, of commands for the keys below a number, one
/// after the other.
pub(super) fn load(
    server: &Running,
    rate: f64,
    messages: u64,
    keys: u64,
    command: fn(u64, &mut Vec<u8>),
) -> Result<Latencies, String> {
    let load = OpenLoop {
        port: server.process.port,
        rate,
        messages,
        answer: Answer::Lines(PIPELINE as usize * LINES),
        message: &|number, into| {
            (0..PIPELINE).for_each(|key| command((number * PIPELINE + key) % keys, into));
        },
    };
    load.run_with_witness()
}

/// Brings so many keys into debt, as fast as the server takes them.
pub(super) fn fill(server: &Running, keys: u64) -> Result<(), String> {
    load(server, f64::INFINITY, keys.div_ceil(PIPELINE), keys, throttle).map(drop)
}
