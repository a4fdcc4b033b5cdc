//! What one client has said so far, and the answers to what it says next.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use tollgate_net::listen::Peer;

use super::access::Role;
use super::batch::Batch;
use super::call::{Call, Effect};
use super::client::{Client, Next, Shared};
use super::parse::{Arguments, CommandLimits, Parsed, Parser};
use super::reply::{Reply, Version};
use crate::metrics::Listener;

/// How many commands of a client are answered before others get a turn.
pub(super) const COMMANDS_A_TURN: usize = 1024;

/// The bytes of answers that a client may leave unread before its next commands wait.
pub(super) const UNREAD_BYTES: usize = 1 << 20;

/// One client, and how much of its next command has been read.
pub(super) struct Session {
    client: Client,
    parser: Parser,
}

/// What came of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// The bytes of the commands that were answered.
    pub(super) used: usize,
    pub(super) next: Next,
}

impl Session {
    pub(super) fn new(shared: &Shared, peer: Peer) -> Self {
        let client = Client {
            id: shared.clients.fetch_add(1, Relaxed) + 1,
            peer,
            name: Vec::new(),
            role: shared.access.at_first(),
            version: Version::default(),
        };
        Self { client, parser: Parser::default() }
    }

    /// Whether the client has authenticated, if it must.
    pub(super) fn is_known(&self) -> bool {
        self.client.role != Role::Unknown
    }

    /// The client's address.
    pub(super) fn address(&self) -> IpAddr {
        self.client.peer.address()
    }

    /// Answers the commands that `input` begins with, behind the answers that `output` has.
    pub(super) fn answer(&mut self, shared: &Shared, input: &[u8], output: &mut Vec<u8>) -> Progress {
        let Self { client, parser } = self;
        let limiter = shared.core.calls.load();
        let mut batch = Batch::new(&limiter, &shared.core.metrics);
        let mut used = 0;
        let mut next = Next::Turn;
        for _ in 0..COMMANDS_A_TURN {
            if output.len() >= UNREAD_BYTES {
                break;
            }
            let bytes = &input[used..];
            let limits =
                if client.role == Role::Unknown { CommandLimits::UNKNOWN } else { CommandLimits::KNOWN };
            match parser.read(bytes, limits) {
                Ok(Parsed::Command(length)) => {
                    used += length;
                    let arguments = parser.arguments(bytes);
                    if is_throttle(arguments) && client.role != Role::Unknown {
                        batch.add(arguments, &mut Reply::new(output, client.version));
                        continue;
                    }
                    batch.finish(&mut Reply::new(output, client.version));
                    let effect = Call { shared, limiter: &limiter, arguments }.answer(client, output);
                    batch.reread_clock();
                    if let Effect::Then(then) = effect {
                        next = then;
                        break;
                    }
                }
                Ok(Parsed::Nothing(length)) => used += length,
                Ok(Parsed::Partial) => {
                    next = Next::Read;
                    break;
                }
                Err(error) => {
                    batch.finish(&mut Reply::new(output, client.version));
                    let address = client.peer.address();
                    shared.core.metrics.counts(Listener::Resp).protocol_error(error.kind(), address);
                    Reply::new(output, client.version).error(format_args!("ERR Protocol error: {error}"));
                    next = Next::Close;
                    break;
                }
            }
        }
        batch.finish(&mut Reply::new(output, client.version));
        parser.rest();
        Progress { used, next }
    }

    /// Writes an error with which the connection ends.
    pub(super) fn refuse(&self, error: &str, output: &mut Vec<u8>) {
        Reply::new(output, self.client.version).error(error);
    }

    /// Writes the answer to something that took long.
    pub(super) fn answer_slow(&self, answer: Option<i64>, output: &mut Vec<u8>) {
        let mut reply = Reply::new(output, self.client.version);
        match answer {
            Some(keys) => reply.integer(keys),
            None => reply.ok(),
        }
    }
}

#[inline]
fn is_throttle(arguments: Arguments<'_>) -> bool {
    let name = arguments.get(0);
    name == b"CL.THROTTLE" || name.eq_ignore_ascii_case(b"CL.THROTTLE")
}
