//! Attackers, each of which tries to use up something that clients share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::http2::SendRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_testing::frames::{
    ACK, END_HEADERS, HEADERS, PING, RESET, WHOLE, block, frame, opening, opening_with,
};
use tollgate_testing::upstream::{Body, Written};

use crate::honest::{exchange, post};
use crate::house::{Door, End, House, Io, TICKETS};

/// The data that an upload sends at a time.
const PART: usize = 16 << 10;

/// A body that no buffer on the way holds.
const LARGE: usize = 8 << 20;

/// Uploads that wait: their windows are more than those of 16 streams.
const QUEUED: usize = 24;

/// Calls of a connection, and the bytes that come of each message.
const CALLS: usize = 120;
const MESSAGE: usize = 250_000;
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// How many streams a client may reset before its connection ends; it may be late.
const RESETS: u32 = 800;

const SILENT: &[u8] = b"GET /silent HTTP/1.1\r\nhost: a.test\r\n\r\n";
const SILENT_STREAMED: &[u8] =
    b"POST /silent HTTP/1.1\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";

/// The settings of a client that takes no data: SETTINGS_INITIAL_WINDOW_SIZE.
const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];

/// What an attacker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Fills the listener with connections that do nothing, from a few addresses.
    Idle,
    /// Fills it with the first bytes of requests, one by one, from one address.
    Dribbles,
    /// Sends bytes that are no request.
    Nonsense,
    /// Asks for long answers by HTTP/2, and reads none.
    Unread,
    /// Has answers on their way that never end.
    Streams,
    /// Sends bodies byte by byte.
    Trickles,
    /// Uploads bodies that are refused, and pauses.
    Refused,
    /// Uploads all of a body that is refused before it reads, and must hear so.
    Deaf,
    /// Has uploads by HTTP/2 wait in a queue.
    Queued,
    /// Begins messages that do not end.
    Unfinished,
    /// Resets by HTTP/2 what it asks, and must be cut off.
    Resets,
    /// Asks several times and resets the connection, from a few addresses.
    Leaves,
    /// Takes tickets and gives none back, and must not have more than there are.
    Tickets,
}

impl Attack {
    /// Those that a door has to bear.
    pub(crate) fn at(door: Door) -> &'static [Self] {
        use Attack::*;
        match door {
            Door::Proxy => {
                &[Idle, Dribbles, Nonsense, Unread, Streams, Trickles, Refused, Deaf, Resets, Leaves]
            }
            Door::ProxyHttp2 => &[Idle, Dribbles, Nonsense, Unread, Streams, Trickles, Refused, Resets],
            Door::ProxyTls => &[Idle, Dribbles, Nonsense, Streams, Trickles, Refused, Leaves],
            Door::ProxyShared => &[Queued],
            Door::Http => &[Idle, Dribbles, Nonsense, Trickles, Resets, Tickets],
            Door::Grpc => &[Idle, Dribbles, Nonsense, Unfinished, Resets],
            Door::Resp | Door::Admin => &[Idle, Dribbles, Nonsense],
        }
    }

    /// How often it has done it before it counts.
    pub(crate) fn enough(self) -> usize {
        match self {
            Self::Idle | Self::Dribbles | Self::Nonsense | Self::Deaf => self.attackers(),
            Self::Trickles | Self::Refused | Self::Unread => 4,
            Self::Streams => 24,
            Self::Resets => RESETS as usize * 2,
            Self::Leaves => 300,
            Self::Queued => 100,
            Self::Unfinished => self.attackers() * CALLS,
            Self::Tickets => TICKETS * 7 / 8,
        }
    }

    /// Attacks until it is dropped. An attacker that gets more than it may panics.
    pub(crate) async fn run(self, house: Arc<House>, done: Arc<AtomicUsize>) {
        let mut attackers = JoinSet::new();
        for number in 0..self.attackers() {
            let attacker =
                Attacker { attack: self, number, house: Arc::clone(&house), done: Arc::clone(&done) };
            attackers.spawn(async move {
                loop {
                    let _ = attacker.attack().await;
                    sleep(self.again()).await;
                }
            });
        }
        // None ends otherwise.
        if let Some(Err(panicked)) = attackers.join_next().await {
            std::panic::resume_unwind(panicked.into_panic());
        }
    }

    /// After which time an attacker whose connection was refused, or has ended, comes again. The
    /// clients share the threads of those that send much.
    fn again(self) -> Duration {
        Duration::from_millis(if matches!(self, Self::Deaf | Self::Unfinished) { 1_000 } else { 50 })
    }

    /// How many connections it has at a time.
    fn attackers(self) -> usize {
        match self {
            // More than the listener takes of all, and of one address.
            Self::Idle | Self::Dribbles => 72,
            // More than a connection to the upstream has streams.
            Self::Streams => 28,
            Self::Nonsense | Self::Trickles | Self::Refused | Self::Leaves => 8,
            Self::Unread | Self::Unfinished | Self::Tickets => 4,
            Self::Deaf | Self::Resets => 2,
            Self::Queued => 1,
        }
    }
}

/// One of those that attack.
struct Attacker {
    attack: Attack,
    number: usize,
    house: Arc<House>,
    done: Arc<AtomicUsize>,
}

impl Attacker {
    /// Does it with one connection.
    async fn attack(&self) -> std::io::Result<()> {
        match self.attack {
            Attack::Queued => {
                let shared = self.house.shared.clone().expect("its door has one");
                self.uploads("/queued", shared, QUEUED, usize::MAX).await
            }
            Attack::Unfinished => {
                let own = self.house.streams(self.address()).await?;
                self.uploads(METHOD, own, CALLS, MESSAGE / PART).await
            }
            _ => {
                let stream = self.house.connect(self.address(), End::Reset).await?;
                self.attack_by(stream).await
            }
        }
    }

    /// Crowds come from addresses of which each has fewer connections than it may.
    fn address(&self) -> [u8; 4] {
        let is_crowd = matches!(self.attack, Attack::Idle | Attack::Leaves);
        let number = if is_crowd { self.number % 3 } else { 0 };
        [127, 0, 0, 2 + number as u8]
    }

    fn count(&self) -> usize {
        self.done.fetch_add(1, Relaxed) + 1
    }

    /// Uploads so many bodies of so many parts, and waits for their answers.
    async fn uploads(
        &self,
        path: &str,
        mut sender: SendRequest<Body>,
        uploads: usize,
        parts: usize,
    ) -> std::io::Result<()> {
        // It begins as a message of gRPC does that is longer.
        let part = Bytes::from([&[0, 0, 0, (PART >> 8) as u8, 0][..], &[b' '; PART - 5]].concat());
        let mut answers = JoinSet::new();
        for _ in 0..uploads {
            let (upload, body) = Written::new();
            let body = body.map_err(|error| unreachable!("{error:?}")).boxed();
            let request = Request::post(format!("http://a.test{path}"))
                .header("te", "trailers")
                .header("content-type", if parts == usize::MAX { "text/plain" } else { "application/grpc" })
                .body(body);
            let answer = sender.send_request(request.expect("it is a request"));
            let (part, done) = (part.clone(), Arc::clone(&self.done));
            answers.spawn(async move {
                for number in 0..parts {
                    // An error: it was refused.
                    let _ = upload.send(Some(part.clone())).await;
                    if parts == usize::MAX || number + 1 == parts {
                        done.fetch_add(1, Relaxed);
                    }
                }
                let _ = answer.await;
                drop(upload);
            });
        }
        while answers.join_next().await.is_some() {}
        Ok(())
    }

    async fn attack_by(&self, mut stream: Box<dyn Io>) -> std::io::Result<()> {
        let door = self.house.door;
        match self.attack {
            Attack::Idle => {
                self.count();
                drain(&mut stream).await
            }
            Attack::Dribbles => {
                self.count();
                let head = match door {
                    Door::Grpc => &opening()[..],
                    Door::Resp => b"*5\r\n$11\r\nCL.THROTTLE\r\n",
                    _ => b"GET / HTTP/1.1\r\nhost: a.test\r\nx-long: xxxxxxxxxxxxxxxxxxxxxxxx",
                };
                for byte in head {
                    stream.write_all(&[*byte]).await?;
                    sleep(Duration::from_millis(50)).await;
                }
                drain(&mut stream).await
            }
            Attack::Nonsense => {
                self.count();
                stream.write_all(b"\0\xff nonsense \r\n\r\n\r\n").await?;
                drain(&mut stream).await
            }
            Attack::Unread => {
                let mut asks = opening_with(&NO_WINDOW);
                for number in [1, 3, 5, 7, 9] {
                    asks.extend(frame(HEADERS, WHOLE, number, &head("GET", "/big")));
                }
                stream.write_all(&asks).await?;
                self.count();
                drain(&mut stream).await
            }
            Attack::Streams => {
                stream.write_all(b"GET /stream HTTP/1.1\r\nhost: a.test\r\n\r\n").await?;
                self.count();
                drain(&mut stream).await
            }
            Attack::Trickles => {
                let path = if door == Door::Http { "/v1/check" } else { "/" };
                let head = post(path, "").replace("length: 0", "length: 1000");
                stream.write_all(head.as_bytes()).await?;
                self.count();
                loop {
                    stream.write_all(b" ").await?;
                    sleep(Duration::from_millis(50)).await;
                }
            }
            Attack::Refused => {
                let head = post("/refused", "").replace("length: 0", "length: 50000000");
                stream.write_all(head.as_bytes()).await?;
                self.count();
                loop {
                    stream.write_all(&[b'x'; PART]).await?;
                    sleep(Duration::from_millis(10)).await;
                }
            }
            Attack::Deaf => {
                // A head with two hosts is no request. Of the others one is admitted.
                let (header, told) = match self.number % 2 {
                    0 => ("connection: close", &["429", "200"][..]),
                    _ => ("host: b.test", &["400"][..]),
                };
                let upload = post("/refused", &"x".repeat(LARGE));
                let upload = upload.replace("content-type", &format!("{header}\r\nx"));
                stream.write_all(upload.as_bytes()).await.expect("it is read");
                let mut said = Vec::new();
                stream.read_to_end(&mut said).await.expect("it is answered");
                let said = String::from_utf8_lossy(&said);
                let is_told = told.iter().any(|status| said.starts_with(&format!("HTTP/1.1 {status} ")));
                assert!(is_told, "{header}: {said}");
                self.count();
                Ok(())
            }
            Attack::Resets => {
                // An answer makes up for a reset: here there is none, or the body does not come.
                let (flags, head, most) = match door {
                    Door::Http => (END_HEADERS, head("POST", "/v1/check"), RESETS),
                    Door::Grpc => (WHOLE, head("GET", "/"), u32::MAX),
                    _ => (WHOLE, head("GET", "/silent"), RESETS),
                };
                stream.write_all(&opening()).await?;
                for resets in 0.. {
                    assert!(resets < most, "{resets} resets");
                    let number = 2 * resets + 1;
                    let ask = [frame(HEADERS, flags, number, &head), frame(PING, 0, 0, &[0; 8])];
                    stream.write_all(&ask.concat()).await?;
                    is_read(&mut stream).await?;
                    stream.write_all(&frame(RESET, 0, number, &[0, 0, 0, 8])).await?;
                    self.count();
                }
                Ok(())
            }
            Attack::Leaves => {
                // The server has one that serves HTTP/1 alone, and hyper.
                let first = if self.number.is_multiple_of(2) { SILENT } else { SILENT_STREAMED };
                stream.write_all(&[first, SILENT, SILENT].concat()).await?;
                stream.flush().await?;
                // For the proxy to read it.
                sleep(Duration::from_millis(20)).await;
                self.count();
                Ok(())
            }
            Attack::Tickets => loop {
                let asked = exchange(&mut stream, &post("/v1/acquire", "{}")).await;
                asked.map_err(std::io::Error::other)?;
                assert!(self.count() <= TICKETS, "more than {TICKETS} tickets");
            },
            Attack::Queued | Attack::Unfinished => unreachable!("it makes connections of its own"),
        }
    }
}

fn head(method: &str, path: &str) -> Vec<u8> {
    block(&[(":method", method), (":scheme", "http"), (":authority", "a.test"), (":path", path)])
}

/// Waits until the server has read all that was sent: reads frames to the answer to a PING.
async fn is_read(stream: &mut Box<dyn Io>) -> std::io::Result<()> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).await?;
        if head[3..5] == [PING, ACK] {
            return Ok(());
        }
    }
}

/// Reads what comes until the connection ends.
async fn drain(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> std::io::Result<()> {
    let mut part = [0; 4096];
    while stream.read(&mut part).await? > 0 {}
    Ok(())
}
