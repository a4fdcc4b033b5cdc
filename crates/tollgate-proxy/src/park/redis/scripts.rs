//! The scripts, and the names of what they keep.
//!
//! ```text
//!   tg1:{park}:q:RULE\0KEY   a stream for each queue, with a consumer group
//!   tg1:{park}:due           its queues, by the time at which to look at them next
//!   tg1:{park}:entries       the place and the entry of each request, by its id
//!   tg1:{park}:order         the ids, by the numbers of their entries
//!   tg1:{park}:counts        parked:RULE, dead:RULE, bytes:RULE, and the last number
//!   tg1:{park}:dead          the stream of dead requests
//!   tg1:{park}:dead-of       how many of each queue are dead
//!   tg1:{park}:bytes-of      how many bytes each queue takes, with its dead
//!   tg1:{park}:ended         the ids of ended requests, the oldest first
//! ```
//!
//! All have one tag, so all lie in one slot of a cluster, and each script is one step.

use std::sync::LazyLock;

use tollgate_redis::Script;

pub(super) struct Scripts {
    pub(super) add: Script,
    pub(super) first: Script,
    pub(super) renew: Script,
    pub(super) change: Script,
    pub(super) list: Script,
    pub(super) due: Script,
    pub(super) entry: Script,
    pub(super) counts: Script,
    pub(super) waiting: Script,
}

pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    add: Script::new(include_str!("add.lua")),
    first: Script::new(include_str!("first.lua")),
    renew: Script::new(include_str!("renew.lua")),
    change: Script::new(include_str!("move.lua")),
    list: Script::new(include_str!("list.lua")),
    due: Script::new(include_str!("due.lua")),
    entry: Script::new("return redis.call('HGET', KEYS[1], ARGV[1])"),
    counts: Script::new("return redis.call('HGETALL', KEYS[1])"),
    waiting: Script::new("return redis.call('XLEN', KEYS[1])"),
});

/// The names, but for those of streams.
pub(super) struct Names {
    queue: Vec<u8>,
    pub(super) due: Vec<u8>,
    pub(super) entries: Vec<u8>,
    pub(super) order: Vec<u8>,
    pub(super) counts: Vec<u8>,
    pub(super) dead: Vec<u8>,
    pub(super) dead_of: Vec<u8>,
    pub(super) bytes_of: Vec<u8>,
    pub(super) ended: Vec<u8>,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Self {
        let name = |end: &str| format!("{prefix}:{{park}}:{end}").into_bytes();
        Self {
            queue: name("q:"),
            due: name("due"),
            entries: name("entries"),
            order: name("order"),
            counts: name("counts"),
            dead: name("dead"),
            dead_of: name("dead-of"),
            bytes_of: name("bytes-of"),
            ended: name("ended"),
        }
    }

    /// The stream of a queue.
    pub(super) fn stream(&self, queue: &[u8]) -> Vec<u8> {
        [&*self.queue, queue].concat()
    }

    /// What changes with a request of the queue that has this stream. `add.lua` and `move.lua` know
    /// the names by this order.
    pub(super) fn of_request<'a>(&'a self, stream: &'a [u8]) -> [&'a [u8]; 9] {
        let Self { due, entries, order, counts, dead, dead_of, bytes_of, ended, .. } = self;
        [stream, counts, dead_of, bytes_of, entries, order, due, ended, dead]
    }
}
