//! Full load over sockets, while rules are exchanged and the server restarts with its state.
//!
//! It takes six seconds, or `TOLLGATE_SOAK_SECONDS`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testing::process::Process;
use tollgate_testing::random::Random;

use crate::grpc::Calls;
use crate::{Folder, address_of, serve};

/// The most that any of the files admits of a key: so many a second, and as many at once.
const MOST: u32 = 50;

/// The keys that are counted. A flood of others comes and goes beside them.
const KEYS: u32 = 50;
const FLOOD: u32 = 50_000;

/// The requests that a connection sends before it reads.
const DEPTH: u32 = 16;

/// The memory that may come beside that after a third of a server's life.
const GROWTH: u64 = 16 << 20;

/// The ways to ask. Each limits keys of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// `CL.THROTTLE`, whose calls name the limit.
    Calls,
    /// `TG.CHECK`, by the rule `each`.
    Redis,
    /// `/v1/check`, by the same.
    Http,
    /// Envoy's call as JSON, by the same.
    Envoy,
    /// Envoy's call over gRPC, by the same.
    Grpc,
}

const WAYS: [Way; 5] = [Way::Calls, Way::Redis, Way::Http, Way::Envoy, Way::Grpc];

/// The rules that take turns: other numbers, another condition. The burst stays: a smaller one
/// forgets the debt beyond it.
fn rules(turn: u32) -> String {
    let rate = [MOST, MOST / 2, MOST][turn as usize % 3];
    let except = ["", "except.path = '/health',", "except.method = 'PUT',"][turn as usize % 3];
    format!(
        "version = 1
        rule = [
            {{ name = 'each', {except} key = 'client', limits = '{rate}/s,burst={MOST}', max_keys = 20_000 }},
            {{ name = 'all', key = 'everyone', limits = '1000000000/s' }},
        ]"
    )
}

/// When each key was admitted, by calls and by the rule: the arrival of the answer, after `begun`.
struct Admitted {
    begun: Instant,
    calls: Vec<Mutex<Vec<Duration>>>,
    rule: Vec<Mutex<Vec<Duration>>>,
    /// The longest time between a request and its answer, in nanoseconds.
    longest: AtomicU64,
    answers: AtomicU64,
}

impl Admitted {
    fn new() -> Self {
        let keys = || (0..KEYS).map(|_| Mutex::default()).collect();
        let (longest, answers) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { begun: Instant::now(), calls: keys(), rule: keys(), longest, answers }
    }

    /// Notes the answers to requests that left at `sent`.
    fn note(&self, way: Way, sent: Instant, answers: &[(u32, bool)]) {
        let longest = u64::try_from(sent.elapsed().as_nanos()).expect("less than centuries");
        self.longest.fetch_max(longest, Relaxed);
        self.answers.fetch_add(answers.len() as u64, Relaxed);
        let counted = if way == Way::Calls { &self.calls } else { &self.rule };
        for (key, _) in answers.iter().filter(|(key, is_admitted)| *key < KEYS && *is_admitted) {
            let mut times = counted[*key as usize].lock().expect("no thread has panicked");
            times.push(self.begun.elapsed());
        }
    }

    /// Asserts that every key stays within its bound over every interval: the burst, and the rate
    /// for the interval and for the longest way of an answer. Returns how many times the fullest
    /// key was admitted.
    fn assert_bound(&self) -> usize {
        let longest = Duration::from_nanos(self.longest.load(Relaxed));
        let most = Duration::from_secs(1) + longest;
        let mut fullest = 0;
        for (key, times) in self.calls.iter().chain(&self.rule).enumerate() {
            let times = times.lock().expect("no thread has panicked");
            // When the bucket would be full again, were it charged at each answer.
            let mut full_at = Duration::ZERO;
            for (count, time) in times.iter().enumerate() {
                full_at = full_at.max(*time) + Duration::from_secs(1) / MOST;
                let over = full_at.saturating_sub(*time + most);
                assert!(over.is_zero(), "key {key}: admission {count} is {over:?} early, way {longest:?}");
            }
            fullest = fullest.max(times.len());
        }
        fullest
    }
}

/// A connection of one way.
struct Client {
    way: Way,
    stream: BufReader<TcpStream>,
    /// Of [`Way::Grpc`].
    grpc: Option<Calls>,
}

impl Client {
    fn connect(way: Way, address: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let grpc = (way == Way::Grpc).then(|| Calls::begin(&mut stream)).transpose()?;
        Ok(Self { way, stream: BufReader::new(stream), grpc })
    }

    /// Asks for these keys. Returns whether each was admitted.
    fn ask(&mut self, keys: &[u32]) -> io::Result<Vec<bool>> {
        match (self.way, &mut self.grpc) {
            (Way::Calls | Way::Redis, _) => self.commands(keys),
            (Way::Http, _) => self.batch(keys),
            (_, None) => self.calls(keys),
            (_, Some(grpc)) => {
                let clients: Vec<_> = keys.iter().map(|key| client(*key)).collect();
                grpc.ask(&mut self.stream, &clients)
            }
        }
    }

    fn commands(&mut self, keys: &[u32]) -> io::Result<Vec<bool>> {
        let mut commands = String::new();
        for key in keys {
            let client = client(*key);
            let burst = (MOST - 1).to_string();
            let words = match self.way {
                Way::Calls => vec!["CL.THROTTLE", &client, &burst, "50", "1"],
                _ => vec!["TG.CHECK", "each", &client],
            };
            commands += &format!("*{}\r\n", words.len());
            words.iter().for_each(|word| commands += &format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(commands.as_bytes())?;
        keys.iter().map(|_| self.five()).collect()
    }

    /// Reads five integers, of which the first is 0 for an admission. A full table is an error,
    /// and admits nothing.
    fn five(&mut self) -> io::Result<bool> {
        let opening = self.line()?;
        if opening.starts_with('-') {
            return Ok(false);
        }
        assert_eq!(opening, "*5");
        let mut first = None;
        for _ in 0..5 {
            let line = self.line()?;
            first.get_or_insert(line == ":0");
        }
        Ok(first == Some(true))
    }

    fn batch(&mut self, keys: &[u32]) -> io::Result<Vec<bool>> {
        let one = |key: &u32| format!(r#"{{"method":"GET","target":"/","client":"{}"}}"#, client(*key));
        let requests: Vec<_> = keys.iter().map(one).collect();
        self.post("/v1/check", &format!(r#"{{"requests":[{}]}}"#, requests.join(",")))?;
        let said = self.answer()?;
        Ok(said.split(r#""outcome":""#).skip(1).map(|rest| rest.starts_with("admitted")).collect())
    }

    fn calls(&mut self, keys: &[u32]) -> io::Result<Vec<bool>> {
        for key in keys {
            let entries = format!(r#"[{{"key":"remote_address","value":"{}"}}]"#, client(*key));
            self.post("/json", &format!(r#"{{"domain":"rules","descriptors":[{{"entries":{entries}}}]}}"#))?;
        }
        keys.iter().map(|_| Ok(self.answer()?.contains(r#""overallCode":"OK""#))).collect()
    }

    fn post(&mut self, path: &str, body: &str) -> io::Result<()> {
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
        let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        self.stream.get_mut().write_all(request.as_bytes())
    }

    /// The body of an answer.
    fn answer(&mut self) -> io::Result<String> {
        let mut length = 0;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            if let Some(number) = line.strip_prefix("content-length: ") {
                length = number.parse().expect("a number");
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(String::from_utf8(body).expect("it is JSON"))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches("\r\n").to_owned())
    }
}

fn client(key: u32) -> String {
    std::net::Ipv4Addr::from_bits(0x0a00_0000 + key).to_string()
}

/// Asks as fast as it can, until `is_over` or until the server closes.
fn load(way: Way, address: &str, seed: u64, admitted: &Admitted, is_over: &AtomicBool) {
    let mut client = Client::connect(way, address).expect("the server listens");
    let mut random = Random::with_seed(seed);
    while !is_over.load(Relaxed) {
        let mut key = || if random.u32(..4) == 0 { KEYS + random.u32(..FLOOD) } else { random.u32(..KEYS) };
        let keys: Vec<u32> = (0..DEPTH).map(|_| key()).collect();
        let sent = Instant::now();
        let answers = client.ask(&keys).unwrap_or_else(|error| panic!("{way:?}: {error}"));
        assert_eq!(answers.len(), keys.len(), "{way:?}");
        let answers: Vec<_> = keys.into_iter().zip(answers).collect();
        admitted.note(way, sent, &answers);
    }
}

/// The memory that a process uses, in bytes.
pub(crate) fn memory(server: &Process) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{}/statm", server.child.id())).expect("it lives");
    4096 * pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number")
}

#[test]
fn every_key_stays_within_its_bound_over_sockets() {
    let seconds = std::env::var("TOLLGATE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let life = Duration::from_secs(seconds.unwrap_or(6)) / 2;
    let folder = Folder::new();
    let state = folder.path("state");
    let (admitted, mut turn) = (Admitted::new(), 0);
    for _ in 0..2 {
        folder.write("rules.toml", &rules(turn));
        let options = ["--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--resp-max-keys", "20000"];
        let options = [&options[..], &["--drain-delay", "0"]].concat();
        let options =
            [&options[..], &["--state", &state, "--strict-state", "--state-interval", "1s"]].concat();
        let mut server = Process::start(serve(&folder, &options));
        let [http, grpc, resp] = ["http", "grpc", "resp"].map(|listener| address_of(&mut server, listener));
        server.says("serving");
        let (began, is_over, mut first) = (Instant::now(), AtomicBool::new(false), None);
        thread::scope(|scope| {
            for (seed, way) in (0..).zip(WAYS) {
                let address = match way {
                    Way::Calls | Way::Redis => &resp,
                    Way::Http | Way::Envoy => &http,
                    Way::Grpc => &grpc,
                };
                let (admitted, is_over) = (&admitted, &is_over);
                scope.spawn(move || load(way, address, u64::from(turn) + seed, admitted, is_over));
            }
            while began.elapsed() < life {
                thread::sleep(Duration::from_millis(200));
                turn += 1;
                // Every fourth file is broken.
                let is_broken = turn.is_multiple_of(4);
                folder.write("rules.toml", &if is_broken { "nonsense".to_owned() } else { rules(turn) });
                if began.elapsed() > life / 3 {
                    let used = memory(&server);
                    let first = *first.get_or_insert(used);
                    assert!(used <= first + GROWTH, "{used} bytes, and {first} before");
                }
            }
            is_over.store(true, Relaxed);
        });
        server.signal("TERM");
        assert_eq!(server.ends(), Some(0), "{}", server.said);
    }
    let fullest = admitted.assert_bound();
    assert!(fullest > 2 * MOST as usize, "the limit was reached, and refilled: {fullest}");
    let longest = Duration::from_nanos(admitted.longest.load(Relaxed));
    println!(
        "{} answers, {turn} files, longest way {longest:?}; most of a key {fullest}",
        admitted.answers.load(Relaxed)
    );
}
