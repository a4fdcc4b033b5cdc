//! Envoy's calls over gRPC, by the bytes of HTTP/2: no other test of the command needs a client.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

/// Flags of frames.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// How many bytes of answers are read before the server may send as many again.
const WINDOW: u32 = 16 << 10;

/// The client's side of a connection.
pub(crate) struct Calls {
    /// The number of the next stream.
    next: u32,
    /// The bytes that were read since the last WINDOW_UPDATE.
    read: u32,
}

impl Calls {
    /// Begins a connection.
    pub(crate) fn begin(stream: &mut impl Write) -> io::Result<Self> {
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
        Ok(Self { next: 1, read: 0 })
    }

    /// Calls at the same time, for one client each. Returns whether each is within its limit.
    pub(crate) fn ask(
        &mut self,
        stream: &mut BufReader<TcpStream>,
        clients: &[String],
    ) -> io::Result<Vec<bool>> {
        let (first, mut bytes) = (self.next, Vec::new());
        for client in clients {
            bytes.extend(frame(HEADERS, END_HEADERS, self.next, &head()));
            bytes.extend(frame(DATA, END_STREAM, self.next, &message(client)));
            self.next += 2;
        }
        stream.get_mut().write_all(&bytes)?;
        let mut answers = vec![Vec::new(); clients.len()];
        let mut open = clients.len();
        while open > 0 {
            let mut head = [0; 9];
            stream.read_exact(&mut head)?;
            let [high, middle, low, kind, flags, number @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
            stream.read_exact(&mut payload)?;
            match kind {
                SETTINGS if flags & ACK == 0 => stream.get_mut().write_all(&frame(SETTINGS, ACK, 0, &[]))?,
                PING if flags & ACK == 0 => stream.get_mut().write_all(&frame(PING, ACK, 0, &payload))?,
                SETTINGS | PING | WINDOW_UPDATE => {}
                DATA | HEADERS => {
                    let call = (u32::from_be_bytes(number) - first) as usize / 2;
                    if kind == DATA {
                        self.taken(stream, payload.len())?;
                        answers[call].extend(payload);
                    }
                    open -= usize::from(flags & END_STREAM != 0);
                }
                _ => return Err(io::Error::other(format!("a frame of type {kind}: {payload:?}"))),
            }
        }
        Ok(answers.iter().map(|answer| is_ok(answer)).collect())
    }

    /// Gives the server room for as many bytes of answers as were read.
    fn taken(&mut self, stream: &mut BufReader<TcpStream>, bytes: usize) -> io::Result<()> {
        self.read += u32::try_from(bytes).expect("a frame is short");
        if self.read < WINDOW {
            return Ok(());
        }
        let more = std::mem::take(&mut self.read).to_be_bytes();
        stream.get_mut().write_all(&frame(WINDOW_UPDATE, 0, 0, &more))
    }
}

fn frame(kind: u8, flags: u8, number: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&length[..], &[kind, flags], &number.to_be_bytes(), payload].concat()
}

/// A text with its length before it.
fn text(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).expect("it is short")], text.as_bytes()].concat()
}

/// The head of a call. Nothing of it goes into the table of headers.
fn head() -> Vec<u8> {
    // POST, http, `:path`, `content-type` and `te`.
    let grpc = [&[0x0f, 0x10], &*text("application/grpc"), &[0], &text("te"), &text("trailers")].concat();
    [&[0x83, 0x86, 0x04][..], &text(METHOD), &grpc].concat()
}

/// A call with one descriptor, as a message with its prefix.
fn message(client: &str) -> Vec<u8> {
    let field = |number: u8, value: &[u8]| {
        [&[number << 3 | 2, u8::try_from(value.len()).expect("it is short")], value].concat()
    };
    let entry = [field(1, b"remote_address"), field(2, client.as_bytes())].concat();
    let call = [field(1, b"rules"), field(2, &field(1, &entry))].concat();
    [&[0][..], &u32::try_from(call.len()).expect("it is short").to_be_bytes(), &call].concat()
}

/// Whether the overall code, the first field of an answer, is OK.
fn is_ok(answer: &[u8]) -> bool {
    let code = answer.get(5..7).unwrap_or_else(|| panic!("no message: {answer:?}"));
    assert!(code == [8, 1] || code == [8, 2], "{answer:?}");
    code == [8, 1]
}
