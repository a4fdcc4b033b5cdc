//! What connections may use.

use std::time::Duration;

/// What a listener and its connections may use.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The connections of one listener. Of a full one, the connection that is idle longest is
    /// closed for a new one.
    pub connections: usize,
    /// Those of one client address, of IPv6 of its network of 64 bits; `None`: any number. Proxies
    /// that the rules trust (`clients.trusted_proxies`) may have any number, and so may clients of
    /// Unix sockets.
    pub client_connections: Option<usize>,
    /// The bytes of an HTTP head.
    pub head_bytes: usize,
    /// The bytes of an HTTP body.
    pub body_bytes: usize,
    /// The bytes of requests that are not whole yet which the listeners of one kind hold; `None`: a
    /// sixteenth of the `memory_budget` of the rules at the
    /// start, and at least 16 MiB. A connection may hold an eighth of those that are free, and
    /// 32 KiB in any case.
    pub unfinished_bytes: Option<usize>,
    /// How long a head, a body or a command may take to arrive.
    pub read_timeout: Duration,
    /// How long an HTTP connection may be idle.
    pub idle_timeout: Duration,
    /// How long a gRPC connection may be silent before it is asked whether it still lives.
    pub ping_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            client_connections: None,
            head_bytes: 16 << 10,
            body_bytes: 1 << 20,
            unfinished_bytes: None,
            read_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            ping_interval: Duration::from_secs(30),
        }
    }
}
