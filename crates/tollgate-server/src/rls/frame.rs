//! The body of a call, checked before a message is read from it.

use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use tollgate_net::listen::Held;
use tollgate_net::web::{BodyError, read_arriving};
use tonic::Status;

/// The most bytes of a message.
pub(super) const MESSAGE: usize = 256 << 10;

/// The bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Why a message is not read, and how metrics say it.
pub(super) type Refusal = (&'static str, Status);

/// Reads the body of a call with one message. What it declares as its length is there. `holds` is
/// asked for what holds the bytes of one that did not come whole.
pub(super) async fn read(
    body: Incoming,
    holds: impl Fn() -> Held,
    timeout: Duration,
) -> Result<Bytes, Refusal> {
    let body = read_arriving(body, holds, MESSAGE + PREFIX, timeout).await.map_err(|error| match error {
        BodyError::TooLong => bad(too_long()),
        BodyError::TooSlow => bad(Status::deadline_exceeded("the message did not arrive in time")),
        BodyError::Broken => bad(Status::cancelled("the message broke off")),
        BodyError::NoRoom => no_room(),
    })?;
    check(&body).map_err(bad)?;
    Ok(body)
}

fn bad(status: Status) -> Refusal {
    ("message", status)
}

/// The connection holds as much of unfinished messages as it may.
pub(super) fn no_room() -> Refusal {
    ("unfinished", Status::resource_exhausted("too much of unfinished messages is held"))
}

/// Compares the declared length with the bytes there: no memory is taken for a length alone.
fn check(body: &[u8]) -> Result<(), Status> {
    let Some((prefix, message)) = body.split_first_chunk::<PREFIX>() else {
        return if body.is_empty() { Ok(()) } else { Err(cut_off()) };
    };
    let [_, length @ ..] = *prefix;
    match u32::from_be_bytes(length) as usize {
        length if length > MESSAGE => Err(too_long()),
        length if length > message.len() => Err(cut_off()),
        _ => Ok(()),
    }
}

fn too_long() -> Status {
    Status::resource_exhausted(format!("a message has at most {MESSAGE} bytes"))
}

fn cut_off() -> Status {
    Status::invalid_argument("the message is shorter than it says")
}
