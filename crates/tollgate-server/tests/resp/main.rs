//! The listener for Redis clients, alive: what it answers, what it refuses, and real clients.

#[path = "../../../tollgate-rules/tests/set/alone.rs"]
mod alone;
mod clients;
mod commands;
mod limits;
mod many;
mod redis_cell;
mod sockets;
mod throttle;

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_server::{Secret, Settings};
use tollgate_testing::servers::{Running, loopback};

const RULES: &str = "version = 1\n\
    [[rule]]\nname = 'each'\nkey = 'client'\nlimits = '10/s,burst=20'\n";

async fn start(edit: impl FnOnce(&mut Settings)) -> Running {
    start_with(RULES, edit).await
}

async fn start_with(rules: &str, edit: impl FnOnce(&mut Settings)) -> Running {
    let settings = |settings: &mut Settings, _: &_| {
        settings.resp.push(loopback());
        settings.resp_max_keys = 10_000;
        edit(settings);
    };
    Running::start(rules, settings).await
}

async fn connect(running: &Running) -> Client {
    Client { stream: TcpStream::connect(running.resp()).await.unwrap() }
}

/// A client that says and hears bytes.
struct Client<S = TcpStream> {
    stream: S,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Says lines, each of which is a command, and hears the answers.
    #[track_caller]
    fn hears<'c>(&'c mut self, said: &'c str, answers: &'c str) -> impl Future<Output = ()> + 'c {
        let caller = std::panic::Location::caller();
        async move {
            self.say(format!("{said}\r\n")).await;
            let mut heard = vec![0; answers.len()];
            let read = tokio::time::timeout(Duration::from_secs(5), self.stream.read_exact(&mut heard)).await;
            let heard = String::from_utf8_lossy(&heard);
            assert!(matches!(read, Ok(Ok(_))), "{caller}: {said}: {heard:?}, and no more");
            assert_eq!(heard, answers, "{caller}: {said}");
        }
    }

    /// `CL.THROTTLE` with these arguments answers these integers.
    #[track_caller]
    fn throttles<'c>(&'c mut self, arguments: &str, five: [i64; 5]) -> impl Future<Output = ()> + 'c {
        let said = format!("CL.THROTTLE {arguments}");
        let answer = five.map(|number| format!(":{number}\r\n")).concat();
        let caller = std::panic::Location::caller();
        async move {
            self.say(format!("{said}\r\n")).await;
            let mut heard = Vec::new();
            // Five lines behind the head, or the line of an error.
            while heard.iter().filter(|byte| **byte == b'\n').count() < 6 && heard.first() != Some(&b'-') {
                let read = self.stream.read_buf(&mut heard);
                let read = tokio::time::timeout(Duration::from_secs(5), read).await;
                assert!(matches!(read, Ok(Ok(1..))), "{caller}: {said}: {heard:?}, and no more");
            }
            assert_eq!(String::from_utf8_lossy(&heard), format!("*5\r\n{answer}"), "{caller}: {said}");
        }
    }

    /// All that is said until the server ends the connection.
    async fn rest(&mut self) -> String {
        let mut heard = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(40), self.stream.read_to_end(&mut heard)).await;
        assert!(read.is_ok(), "the connection does not end: {:?}", String::from_utf8_lossy(&heard));
        String::from_utf8_lossy(&heard).into_owned()
    }
}

fn secret(text: &str) -> Option<Secret> {
    Some(Secret::from(text.to_owned()))
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// The answers before `+PONG`.
    async fn until_pong(&mut self) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(b"+PONG\r\n") {
            let read = tokio::time::timeout(Duration::from_secs(5), self.stream.read_buf(&mut heard)).await;
            assert!(matches!(read, Ok(Ok(1..))), "{:?}, and no more", String::from_utf8_lossy(&heard));
        }
        heard.truncate(heard.len() - b"+PONG\r\n".len());
        String::from_utf8(heard).unwrap()
    }

    /// The answer refuses, for a number of seconds in this range.
    async fn throttled_within(&mut self, said: &str, seconds: std::ops::RangeInclusive<i64>) {
        self.say(format!("{said}\r\nPING\r\n")).await;
        let heard = self.until_pong().await;
        let lines: Vec<_> = heard.lines().collect();
        let wait = lines[4][1..].parse().unwrap();
        assert!(lines[1] == ":1" && seconds.contains(&wait), "{said}: {heard}");
    }
}
