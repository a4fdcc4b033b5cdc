//! Messages at fixed times, whether or not the answers to those before have come: a stall counts
//! for every message that was due in it.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::witness::Witness;

/// The connections of a load: more than are ever busy while the server keeps up.
const CONNECTIONS: usize = 64;

/// How long a server may be silent before the run fails.
const SILENT: Duration = Duration::from_secs(20);

/// From this gap on between two of its own looks, the loader itself had no processor.
const OWN_GAP: Duration = Duration::from_micros(500);

/// From this latency on it matters whether the server had its core.
const SLOW: Duration = Duration::from_millis(1);

/// How the end of an answer is found.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// So many lines of RESP, none of which is an error.
    Lines(usize),
    /// A response of HTTP/1 with status 200 and a `content-length`.
    Http,
}

/// The messages of a load, and when they are due.
pub(super) struct OpenLoop<'m> {
    pub(super) port: u16,
    /// Messages a second. Infinite: each is due at once.
    pub(super) rate: f64,
    pub(super) messages: u64,
    pub(super) answer: Answer,
    /// Writes the message of a number.
    pub(super) message: &'m dyn Fn(u64, &mut Vec<u8>),
}

/// How long answers took, from the time when their messages were due.
pub(super) struct Latencies {
    nanos: Histogram<u64>,
    /// Messages that were under way while the loader had no processor, or the server's was taken.
    /// They are in no figure.
    pub(super) disturbed: u64,
    /// For how long the server's core was taken at most; zero without a witness.
    pub(super) taken: Duration,
}

impl Latencies {
    fn new() -> Self {
        // With bounds: what is above a histogram's range is recorded as its upper end.
        let longest = 2 * SILENT.as_nanos() as u64;
        let nanos = Histogram::new_with_bounds(1, longest, 3).expect("three digits are possible");
        Self { nanos, disturbed: 0, taken: Duration::ZERO }
    }

    /// Records the latency of an answer that the loader itself did not hold up.
    fn record(&mut self, latency: Duration) {
        self.nanos.saturating_record(latency.as_nanos() as u64);
    }

    /// Whether others held the processors for so long that the rest tells nothing.
    pub(super) fn is_disturbed(&self) -> bool {
        self.disturbed > self.nanos.len() / 20
    }

    pub(super) fn p999_micros(&self) -> f64 {
        self.nanos.value_at_quantile(0.999) as f64 / 1e3
    }

    pub(super) fn longest_millis(&self) -> f64 {
        self.nanos.max() as f64 / 1e6
    }
}

struct Connection {
    stream: TcpStream,
    /// When the message under way was due; `None`: none is.
    due: Option<Duration>,
    read: Vec<u8>,
}

impl OpenLoop<'_> {
    /// As [`run`](Self::run), with a witness on the server's core: what it could not answer because
    /// the core was taken counts as disturbed.
    pub(super) fn run_with_witness(&self) -> Result<Latencies, String> {
        let witness = Witness::start()?;
        let (mut latencies, slow) = self.run_and_keep()?;
        let gaps = witness.end();
        latencies.taken = gaps.longest();
        for (due, answered) in slow {
            if gaps.held_up(due, answered) {
                latencies.disturbed += 1;
            } else {
                latencies.record(answered - due);
            }
        }
        Ok(latencies)
    }

    /// Sends all messages and waits for all answers.
    pub(super) fn run(&self) -> Result<Latencies, String> {
        let (mut latencies, slow) = self.run_and_keep()?;
        slow.into_iter().for_each(|(due, answered)| latencies.record(answered - due));
        Ok(latencies)
    }

    /// Returns beside the latencies when slow answers were due, and when they came.
    fn run_and_keep(&self) -> Result<(Latencies, Vec<(Instant, Instant)>), String> {
        let mut connections = (0..CONNECTIONS).map(|_| self.connect()).collect::<Result<Vec<_>, _>>()?;
        let mut idle: VecDeque<usize> = (0..CONNECTIONS).collect();
        let (mut latencies, mut slow) = (Latencies::new(), Vec::new());
        let (mut sent, mut answered, mut message) = (0, 0, Vec::new());
        let begun = Instant::now();
        // The end of the loader's last gap, when it last looked, the last answer.
        let [mut gap, mut looked, mut heard] = [Duration::ZERO; 3];
        while answered < self.messages {
            let now = begun.elapsed();
            if now - looked > OWN_GAP {
                gap = now;
            }
            looked = now;
            if now - heard > SILENT {
                return Err(format!("port {}: no answer for {SILENT:?}", self.port));
            }
            while sent < self.messages && self.due(sent, now) <= now {
                let Some(free) = idle.pop_front() else { break };
                message.clear();
                (self.message)(sent, &mut message);
                let connection = &mut connections[free];
                connection.stream.write_all(&message).map_err(|error| error.to_string())?;
                connection.due = Some(self.due(sent, now));
                sent += 1;
            }
            for (index, connection) in connections.iter_mut().enumerate() {
                let Some(due) = connection.due else { continue };
                if !connection.is_answered(self.answer)? {
                    continue;
                }
                let now = begun.elapsed();
                if now - looked > OWN_GAP {
                    gap = now;
                }
                (looked, heard) = (now, now);
                if due <= gap {
                    latencies.disturbed += 1;
                } else if now - due > SLOW {
                    slow.push((begun + due, begun + now));
                } else {
                    latencies.record(now - due);
                }
                connection.due = None;
                answered += 1;
                idle.push_back(index);
            }
        }
        Ok((latencies, slow))
    }

    fn due(&self, number: u64, now: Duration) -> Duration {
        if self.rate.is_infinite() { now } else { Duration::from_secs_f64(number as f64 / self.rate) }
    }

    fn connect(&self) -> Result<Connection, String> {
        let connect = || {
            let stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(Connection { stream, due: None, read: Vec::new() })
        };
        connect().map_err(|error: std::io::Error| format!("port {}: {error}", self.port))
    }
}

impl Connection {
    /// Reads what has come. Returns whether the answer is whole, and then forgets it.
    fn is_answered(&mut self, answer: Answer) -> Result<bool, String> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => return Err("the server closed a connection".to_owned()),
            Ok(length) => self.read.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.to_string()),
        }
        let is_whole = answer.is_whole(&self.read)?;
        if is_whole {
            self.read.clear();
        }
        Ok(is_whole)
    }
}

impl Answer {
    fn is_whole(self, read: &[u8]) -> Result<bool, String> {
        let wrong = || Err(format!("the server answered {:?}", String::from_utf8_lossy(read)));
        match self {
            Self::Lines(_) if read.starts_with(b"-") => wrong(),
            Self::Lines(lines) => match read.iter().filter(|&&byte| byte == b'\n').count() {
                count if count > lines => wrong(),
                count => Ok(count == lines && read.ends_with(b"\n")),
            },
            Self::Http => {
                let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else {
                    return Ok(false);
                };
                let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
                let length = length.and_then(|length| length.trim().parse::<usize>().ok());
                match length.filter(|_| head.starts_with("http/1.1 200 ")) {
                    Some(length) if read.len() <= end + 4 + length => Ok(read.len() == end + 4 + length),
                    _ => wrong(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn answers_are_whole_or_wrong() {
        let http = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        for (answer, text, expected) in [
            (Answer::Lines(2), "*1\r\n:1", Ok(false)),
            (Answer::Lines(2), "*1\r\n:1\r\n", Ok(true)),
            (Answer::Lines(2), "*1\r\n:1\r\n:", Ok(false)),
            (Answer::Lines(2), "*1\r\n:1\r\n:2\r\n", Err(())),
            (Answer::Lines(2), "-ERR no\r\n", Err(())),
            (Answer::Http, "HTTP/1.1 200 OK\r\n", Ok(false)),
            (Answer::Http, http, Ok(false)),
            (Answer::Http, &format!("{http}{{}}"), Ok(true)),
            (Answer::Http, &format!("{http}{{}}?"), Err(())),
            (Answer::Http, "HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n", Err(())),
        ] {
            assert_eq!(answer.is_whole(text.as_bytes()).map_err(drop), expected, "{text}");
        }
    }

    #[test]
    fn figures_are_those_of_the_latencies() {
        let mut latencies = Latencies::new();
        (0..998).for_each(|_| latencies.record(Duration::from_micros(50)));
        (0..2).for_each(|_| latencies.record(Duration::from_millis(7)));
        assert!((latencies.p999_micros() - 7_000.0).abs() < 10.0, "{}", latencies.p999_micros());
        assert!((latencies.longest_millis() - 7.0).abs() < 0.01, "{}", latencies.longest_millis());
    }

    #[test]
    fn a_stall_counts_for_each_message_due_in_it() {
        const STALL: Duration = Duration::from_millis(200);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| listener.accept().unwrap().0).collect();
            std::thread::sleep(STALL);
            for stream in &mut streams {
                stream.read_exact(&mut [0; 4]).unwrap();
                stream.write_all(b"+ok\n").unwrap();
            }
        });
        let load = OpenLoop {
            port,
            rate: 1_000.0,
            messages: CONNECTIONS as u64,
            answer: Answer::Lines(1),
            message: &|_, text| text.extend(b"ping"),
        };
        let latencies = load.run().unwrap();
        server.join().unwrap();
        assert_eq!(latencies.nanos.len() + latencies.disturbed, CONNECTIONS as u64);
        // Each message waits for the rest of the stall, not only the first.
        if latencies.disturbed == 0 {
            assert!(latencies.nanos.min() > 50_000_000, "{}", latencies.nanos.min());
        }
    }
}
