//! `tollgate proxy` as a process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::soak::memory;
use tollgate_testing::process::{LONG, Process};
use tollgate_testing::tools;

use crate::{Folder, address_of, fails, get, tollgate};

/// A server that knows nothing of limits, and answers each connection once.
pub(crate) fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            if stream.read(&mut [0; 4096]).expect("a request") > 0 {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone";
                stream.write_all(answer.as_bytes()).expect("it is sent");
            }
        }
    });
    url
}

/// A server that answers one request after the other, and shouts back what comes after one that
/// asks for a WebSocket.
fn lasting_upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The proxy may end the connection.
            thread::spawn(move || answer_all(stream));
        }
    });
    url
}

fn answer_all(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        if head.contains("upgrade: websocket\r\n") {
            let switched =
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
            stream.write_all(switched.as_bytes())?;
            let mut byte = [0];
            while reader.read(&mut byte)? > 0 {
                stream.write_all(&byte.to_ascii_uppercase())?;
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")?;
    }
}

/// Reads a head.
fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.extend(byte);
    }
    String::from_utf8(head).expect("it is text").to_ascii_lowercase()
}

/// `tollgate proxy` with these rules, on ports of the system's choice.
pub(crate) fn proxy(rules: &str, options: &[&str]) -> Command {
    let mut command = tollgate();
    command.args(["proxy", "--rules", rules, "--admin", "127.0.0.1:0"]).args(options);
    command
}

#[test]
fn the_pages_first_example_limits_each_client() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../tollgate-server/examples/proxy.toml");
    let options = ["--listen", "127.0.0.1:0", "--upstream", &upstream()];
    let mut server = Process::start(proxy(rules, &options));
    let address = address_of(&mut server, "proxy");
    for left in (0..10).rev() {
        let answer = get(&address, "/");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("done"), "{answer}");
        assert!(answer.contains(&format!("ratelimit: \"each-client\";r={left};")), "{answer}");
    }
    let answer = get(&address, "/");
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("retry-after: "), "{answer}");
    server.signal("TERM");
    server.signal("TERM");
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn a_restarted_proxy_forgives_nothing() {
    let folder = Folder::new();
    folder.write(
        "rules.toml",
        "version = 1\nrule = [{ name = 'each', key = 'client', limits = '2/d,burst=2' }]",
    );
    let (rules, state, upstream) = (folder.path("rules.toml"), folder.path("state"), upstream());
    let options =
        ["--listen", "127.0.0.1:0", "--upstream", &upstream, "--state", &state, "--drain-delay", "0s"];
    let statuses = ["200", "200", "429"];
    for admitted in [2, 0] {
        let mut server = Process::start(proxy(&rules, &options));
        let address = address_of(&mut server, "proxy");
        for status in &statuses[2 - admitted..] {
            let answer = get(&address, "/");
            assert_eq!(answer.split(' ').nth(1), Some(*status), "{answer}");
        }
        server.signal("TERM");
        assert_eq!(server.ends(), Some(0));
    }
}

/// How long an upgraded connection may go on after SIGTERM.
const DRAIN: Duration = Duration::from_secs(2);

#[test]
fn an_open_tunnel_goes_on_until_the_drain_timeout() {
    let folder = Folder::new();
    let options = ["--listen", "127.0.0.1:0", "--upstream", &lasting_upstream()];
    let drain = ["--drain-delay", "0s", "--drain-timeout", "2s"];
    let mut server = Process::start(proxy(&folder.path("rules.toml"), &[options, drain].concat()));
    let mut stream = TcpStream::connect(address_of(&mut server, "proxy")).expect("it listens");
    let asks = "GET / HTTP/1.1\r\nhost: a.test\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    stream.write_all(asks.as_bytes()).expect("it is sent");
    assert!(head(&mut stream).starts_with("http/1.1 101 "));
    let told = Instant::now();
    server.signal("TERM");
    server.says("draining");
    let mut answer = [0; 5];
    while told.elapsed() < DRAIN / 2 {
        stream.write_all(b"hello").expect("it goes on");
        stream.read_exact(&mut answer).expect("it goes on");
        assert_eq!(&answer, b"HELLO");
        thread::sleep(Duration::from_millis(50));
    }
    // A connection that is closed at once may be reset.
    assert_eq!(stream.read(&mut answer).unwrap_or(0), 0);
    assert!(told.elapsed() >= DRAIN, "{:?}", told.elapsed());
    assert_eq!(server.ends(), Some(0), "{}", server.said);
}

/// As many as the page says, or as this machine lets a process open.
fn idle_connections() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("it lists them");
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a line");
    let files: usize = files.split_whitespace().next().and_then(|most| most.parse().ok()).unwrap_or(1 << 20);
    // Half of the proxy's are for upstreams.
    8_000.min((files - 500) * 2 / 5)
}

/// More than the memory of the proxy for an idle connection.
const IDLE_BYTES: u64 = 64 << 10;

#[test]
fn eight_thousand_idle_connections_are_kept() {
    let count = idle_connections();
    let folder = Folder::new();
    folder
        .write("rules.toml", "version = 1\nrule = [{ name = 'each', key = 'client', limits = '1000000/s' }]");
    let most = (2 * count).to_string();
    let options = ["--listen", "127.0.0.1:0", "--upstream", &lasting_upstream(), "--max-connections", &most];
    let of_client = ["--max-connections-per-client", &most];
    let patient = [&options[..], &of_client, &["--idle-timeout", "1h", "--drain-delay", "0s"]].concat();
    let mut server = Process::start(proxy(&folder.path("rules.toml"), &patient));
    let address = address_of(&mut server, "proxy");
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").expect("it is sent");
        assert!(head(stream).starts_with("http/1.1 200 "));
        stream.read_exact(&mut [0; 4]).expect("a body");
    };
    let connect = |count| {
        let connect = |_| {
            let mut stream = TcpStream::connect(&address).expect("it listens");
            ask(&mut stream);
            stream
        };
        (0..count).map(connect).collect::<Vec<_>>()
    };
    drop(connect(100));
    let before = memory(&server);
    let mut idle: Vec<TcpStream> = thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|_| scope.spawn(|| connect(count / 4)));
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let each = memory(&server).saturating_sub(before) / idle.len() as u64;
    println!("{} idle connections, {each} bytes for each", idle.len());
    assert!(each < IDLE_BYTES, "{each} bytes for each");
    for stream in idle.iter_mut().step_by(97) {
        ask(stream);
    }
    server.signal("TERM");
    assert_eq!(server.ends(), Some(0), "{}", server.said);
    assert_eq!(idle[0].read(&mut [0]).unwrap_or(0), 0, "idle connections are not waited for");
}

#[test]
fn an_upstream_that_fails_is_logged() {
    let folder = Folder::new();
    // The port is free again when the listener is dropped.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let (rules, upstream) = (folder.path("rules.toml"), format!("http://{closed}"));
    let mut server = Process::start(proxy(&rules, &["--listen", "127.0.0.1:0", "--upstream", &upstream]));
    let answer = get(&address_of(&mut server, "proxy"), "/");
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    let warned = server.says("an upstream fails");
    assert!(warned.contains("WARN") && warned.contains(&upstream), "{warned}");
}

#[test]
fn a_bound_of_bodies_is_an_option() {
    let folder = Folder::new();
    let (rules, upstream) = (folder.path("rules.toml"), upstream());
    let options = ["--listen", "127.0.0.1:0", "--upstream", &upstream, "--max-body", "3"];
    let mut server = Process::start(proxy(&rules, &options));
    let address = address_of(&mut server, "proxy");
    for (body, status) in [("abc", "200"), ("abcd", "413")] {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        let length = body.len();
        let request = format!("POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).expect("it is sent");
        let answer = head(&mut stream);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
    }
}

#[test]
fn a_proxy_in_front_of_itself_does_not_start() {
    let folder = Folder::new();
    // The port is free again when the listener is dropped.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let listen = format!("0.0.0.0:{}", free.port());
    let rules = folder.path("rules.toml");
    for upstream in [format!("http://{free}"), format!("http://localhost:{}", free.port())] {
        let (code, said) = fails(proxy(&rules, &["--listen", &listen, "--upstream", &upstream]));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&upstream) && said.contains("own --listen"), "{said}");
    }
}

#[test]
fn a_file_that_parks_nothing_is_left_as_it_is() {
    let folder = Folder::new();
    let rules = folder.path("rules.toml");
    let options = ["--listen", "127.0.0.1:0", "--upstream", "http://a.test", "--park", &rules];
    let (code, said) = fails(proxy(&rules, &options));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("rules.toml: it is no file of parked requests"), "{said}");
    assert_eq!(std::fs::read_to_string(&rules).expect("it is there"), crate::RULES);
}

#[test]
fn wrong_options_of_the_proxy_say_what_to_do() {
    let folder = Folder::new();
    let rules = folder.path("rules.toml");
    let cases: [(&[&str], &[&str]); 7] = [
        (&[], &["--upstream <URL>"]),
        (&["--upstream", "127.0.0.1:8000"], &["is no upstream", "write http://HOST:PORT"]),
        (&["--upstream", "http://a.test/api"], &["http://a.test/api", "without a path"]),
        (&["--upstream", "http://a.test:99999"], &["http://a.test:99999", "the port \"99999\""]),
        (&["--upstream", "http://a.test", "--health-path", "healthz"], &["write /healthz"]),
        (&["--upstream", "https://a.test", "--upstream-ca", "/none.pem"], &["/none.pem cannot be read"]),
        (
            &["--upstream", "http://a.test", "--listen", "unix:/tmp/none", "--listen-tls", "a,b"],
            &["no --listen listens there"],
        ),
    ];
    for (options, parts) in cases {
        let (code, said) = fails(proxy(&rules, options));
        assert_eq!(code, Some(2), "{options:?}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{options:?}: {said}");
    }
}

/// A script, which ends all that it has started.
struct Script(Process);

impl Drop for Script {
    fn drop(&mut self) {
        self.0.signal("TERM");
        let _ = self.0.child.wait();
    }
}

/// What a shell prints.
fn shell(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output().expect("sh is there");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_example_with_redis_answers_as_it_says() {
    let tools = ["redis-server", "redis-cli", "python3", "curl"];
    if tools.iter().any(|tool| tools::find(tool).is_none()) {
        return;
    }
    let mut script =
        Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tollgate-server/examples/proxy/start.sh"));
    script.env("TOLLGATE", env!("CARGO_BIN_EXE_tollgate")).stdin(Stdio::null()).stdout(Stdio::piped());
    let free = ["PORT", "ADMIN", "ONE", "TWO", "REDIS"].map(|name| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        script.env(name, listener.local_addr().expect("it is bound").port().to_string());
        listener
    });
    let port = free[0].local_addr().expect("it is bound").port();
    drop(free);
    let mut script = Script(Process::of(&mut script));
    let mut said = BufReader::new(script.0.child.stdout.take().expect("it is piped"));
    let mut lines = String::new();
    while !lines.contains("The live page") {
        assert!(said.read_line(&mut lines).expect("it is text") > 0, "{lines}");
    }
    // No rule limits this path.
    let health = || shell(&format!("curl -s localhost:{port}/health"));
    let (begun, mut seen) = (Instant::now(), String::new());
    while !(seen.contains("one: ") && seen.contains("two: ")) {
        assert!(begun.elapsed() < LONG, "both serve: {seen}");
        seen += &health();
    }
    let mut tried = 0;
    for (line, expected) in lines.lines().filter_map(|line| line.rsplit_once("# ")) {
        let printed = shell(line);
        assert!(printed.contains(expected.trim()), "{line}\nprints {printed:?}, not {expected:?}");
        tried += 1;
    }
    assert_eq!(tried, 8);
}
