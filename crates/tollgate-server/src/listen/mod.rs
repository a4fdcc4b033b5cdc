//! Sockets and connections.
//!
//! | file | what |
//! |------|------|
//! | `address` | where to listen, as text |
//! | `socket` | a bound socket |
//! | `stream` | a connection's bytes, of TCP or a Unix socket, with TLS or without |
//! | `accept` | takes connections, no more than allowed, until the server ends |

mod accept;
mod address;
mod socket;
mod stream;

pub(crate) use accept::{Drain, Listening, accept_all};
pub use address::{BadAddress, ListenAddress};
pub(crate) use stream::{Connection, Peer, Stream};
