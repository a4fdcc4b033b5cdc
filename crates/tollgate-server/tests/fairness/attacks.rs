//! Attackers, each of which tries to use up something that clients share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_testing::frames::{HEADERS, RESET, WHOLE, block, frame, opening, opening_with};

use crate::honest::{exchange, post};
use crate::house::{Door, House, Io};

/// The address of the attacker.
const ADDRESS: [u8; 4] = [127, 0, 0, 2];

/// The settings of a client that takes no data: SETTINGS_INITIAL_WINDOW_SIZE.
const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];

/// What an attacker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Fills the listener with connections that do nothing.
    Idle,
    /// Sends the first bytes of requests, one by one.
    Dribbles,
    /// Sends bytes that are no request.
    Nonsense,
    /// Asks for long answers by HTTP/2, and reads none.
    Unread,
    /// Has answers on their way that never end.
    Streams,
    /// Sends bodies byte by byte.
    Trickles,
    /// Uploads bodies that are refused.
    Refused,
    /// Resets by HTTP/2 what it asks.
    Resets,
    /// Takes tickets and gives none back.
    Tickets,
}

impl Attack {
    /// Those that a door has to bear.
    pub(crate) fn at(door: Door) -> &'static [Self] {
        use Attack::*;
        match door {
            Door::Proxy | Door::ProxyHttp2 => {
                &[Idle, Dribbles, Nonsense, Unread, Streams, Trickles, Refused, Resets]
            }
            Door::ProxyTls => &[Idle, Dribbles, Nonsense, Streams, Trickles, Refused],
            Door::Http => &[Idle, Dribbles, Nonsense, Trickles, Resets, Tickets],
            Door::Grpc => &[Idle, Dribbles, Nonsense, Resets],
            Door::Resp | Door::Admin => &[Idle, Dribbles, Nonsense],
        }
    }

    /// How often it has done it before it counts.
    pub(crate) fn enough(self) -> usize {
        match self {
            Self::Idle => 24,
            Self::Dribbles | Self::Trickles | Self::Refused | Self::Unread => 4,
            Self::Nonsense | Self::Streams => 20,
            Self::Resets | Self::Tickets => 500,
        }
    }

    /// Attacks until it is dropped.
    pub(crate) async fn run(self, house: Arc<House>, done: Arc<AtomicUsize>) {
        let mut attackers = JoinSet::new();
        for _ in 0..self.attackers() {
            let (house, done) = (Arc::clone(&house), Arc::clone(&done));
            attackers.spawn(async move {
                loop {
                    // A connection that is refused or ends is made anew.
                    if let Ok(stream) = house.connect(ADDRESS).await {
                        let _ = self.attack(stream, house.door, &done).await;
                    }
                    sleep(Duration::from_millis(5)).await;
                }
            });
        }
        while attackers.join_next().await.is_some() {}
    }

    /// How many connections it has at a time.
    fn attackers(self) -> usize {
        match self {
            Self::Idle => 100,
            Self::Streams => 24,
            Self::Unread => 4,
            Self::Dribbles | Self::Nonsense | Self::Trickles | Self::Refused => 8,
            Self::Resets | Self::Tickets => 4,
        }
    }

    /// What it does with one connection.
    async fn attack(self, mut stream: Box<dyn Io>, door: Door, done: &AtomicUsize) -> std::io::Result<()> {
        let count = || _ = done.fetch_add(1, Relaxed);
        match self {
            Self::Idle => {
                count();
                drain(&mut stream).await
            }
            Self::Dribbles => {
                count();
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
            Self::Nonsense => {
                count();
                stream.write_all(b"\0\xff nonsense \r\n\r\n\r\n").await?;
                drain(&mut stream).await
            }
            Self::Unread => {
                let mut asks = opening_with(&NO_WINDOW);
                for number in [1, 3, 5] {
                    asks.extend(frame(HEADERS, WHOLE, number, &head("/big")));
                }
                stream.write_all(&asks).await?;
                count();
                drain(&mut stream).await
            }
            Self::Streams => {
                stream.write_all(b"GET /stream HTTP/1.1\r\nhost: a.test\r\n\r\n").await?;
                count();
                drain(&mut stream).await
            }
            Self::Trickles => {
                let path = if door == Door::Http { "/v1/check" } else { "/" };
                let head = post(path, "").replace("length: 0", "length: 1000");
                stream.write_all(head.as_bytes()).await?;
                count();
                loop {
                    stream.write_all(b" ").await?;
                    sleep(Duration::from_millis(50)).await;
                }
            }
            Self::Refused => {
                let head = post("/refused", "").replace("length: 0", "length: 50000000");
                stream.write_all(head.as_bytes()).await?;
                count();
                loop {
                    stream.write_all(&[b'x'; 16 << 10]).await?;
                    sleep(Duration::from_millis(10)).await;
                }
            }
            Self::Resets => {
                stream.write_all(&opening()).await?;
                let (mut read, mut write) = tokio::io::split(stream);
                let resets = async {
                    for number in (1..).step_by(2) {
                        let ask = frame(HEADERS, WHOLE, number, &head("/"));
                        write.write_all(&[ask, frame(RESET, 0, number, &[0, 0, 0, 8])].concat()).await?;
                        count();
                        sleep(Duration::from_millis(1)).await;
                    }
                    Ok(())
                };
                tokio::select! {
                    ended = resets => ended,
                    ended = drain(&mut read) => ended,
                }
            }
            Self::Tickets => loop {
                let asked = exchange(&mut stream, &post("/v1/check", "{\"ticket\":true}")).await;
                asked.map_err(std::io::Error::other)?;
                count();
            },
        }
    }
}

fn head(path: &str) -> Vec<u8> {
    block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a.test"), (":path", path)])
}

/// Reads what comes until the connection ends.
async fn drain(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> std::io::Result<()> {
    let mut part = [0; 4096];
    while stream.read(&mut part).await? > 0 {}
    Ok(())
}
