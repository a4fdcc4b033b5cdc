//! The programs that load servers.

use std::io::Write;
use std::process::{Command, Output};

use super::servers::Running;
use crate::process::LOADER;

/// The requests of a run: a second or so for the slowest server, so that processor time, which is
/// counted in hundredths of a second, has two digits.
pub(super) const COMMANDS: u32 = 1_000_000;
/// For a server that waits for delayed acknowledgements and takes 55 microseconds for each.
pub(super) const FEW_COMMANDS: u32 = 50_000;
const COMMANDS_ONE_BY_ONE: u32 = 150_000;
/// The random keys of commands.
const KEYS: u32 = 100_000;
pub(super) const HTTP_SECONDS: u32 = 2;
const GRPC_CALLS: u32 = 100_000;

/// The requests that a server gets.
pub(super) enum Load {
    /// A command by 50 Redis clients, with 100,000 random keys.
    Redis { pipeline: u32, command: &'static [&'static str], commands: u32 },
    /// A request by 32 connections: a POST of this body, or without one a request by headers.
    Http { path: &'static str, body: String },
    /// A request without a body by 32 connections, which is answered or refused.
    Get { path: &'static str, is_refused: bool },
    /// A call of Envoy's rate limit service.
    Grpc,
}

/// What a run did.
pub(super) struct Done {
    pub(super) commands: f64,
    /// Where the loader tells it.
    pub(super) p99_micros: Option<f64>,
}

impl Load {
    /// Loads a server once.
    pub(super) fn run(&self, server: &Running) -> Result<Done, String> {
        match self {
            Self::Redis { pipeline: 1, command, .. } => redis(server, 1, command, COMMANDS_ONE_BY_ONE),
            Self::Redis { pipeline, command, commands } => redis(server, *pipeline, command, *commands),
            Self::Http { path, body } => http(server, path, body),
            Self::Get { path, is_refused } => get(server, path, *is_refused),
            Self::Grpc => grpc(server),
        }
    }
}

/// Runs a program on the loaders' core. Returns what it prints.
fn loader(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("taskset").args(["-c", LOADER]).args(arguments).output();
    let Output { status, stdout, stderr } = output.map_err(|error| format!("{}: {error}", arguments[0]))?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() {
        return Ok(text);
    }
    Err(format!("{} ended with {status}:\n{text}{}", arguments[0], String::from_utf8_lossy(&stderr)))
}

fn redis(server: &Running, pipeline: u32, command: &[&str], commands: u32) -> Result<Done, String> {
    let port = server.process.port.to_string();
    let [pipeline, count, keys] = [pipeline, commands, KEYS].map(|number| number.to_string());
    let arguments =
        ["redis-benchmark", "-p", &port, "-c", "50", "-P", &pipeline, "-r", &keys, "-n", &count, "--csv"];
    let text = loader(&[&arguments[..], command].concat())?;
    let p99 = redis_p99(&text).ok_or_else(|| format!("redis-benchmark printed no figures:\n{text}"))?;
    Ok(Done { commands: f64::from(commands), p99_micros: Some(p99) })
}

/// The 99th percentile of the latency in the CSV of redis-benchmark, in microseconds. `None` if a
/// command failed.
fn redis_p99(text: &str) -> Option<f64> {
    let mut lines = text.lines();
    if lines.clone().any(|line| line.contains("Error") || line.contains("ERR")) {
        return None;
    }
    let names = lines.find(|line| line.starts_with("\"test\""))?;
    let column = names.split(',').position(|name| name == "\"p99_latency_ms\"")?;
    // The name of the test may contain commas, so columns count from the end.
    let from_end = names.split(',').count() - column;
    let figures: Vec<_> = lines.next()?.split(',').collect();
    let millis: f64 = figures.get(figures.len().checked_sub(from_end)?)?.trim_matches('"').parse().ok()?;
    Some(millis * 1e3)
}

fn http(server: &Running, path: &str, body: &str) -> Result<Done, String> {
    let script = std::env::temp_dir().join(format!("tollgate-serve-{}.lua", std::process::id()));
    let mut file = std::fs::File::create(&script).map_err(|error| error.to_string())?;
    let text = match body {
        "" => "wrk.headers['X-Forwarded-Method'] = 'GET'\n\
               wrk.headers['X-Forwarded-Uri'] = '/api/items'\n\
               wrk.headers['X-Forwarded-For'] = '203.0.113.9'\n"
            .to_owned(),
        _ => format!(
            "wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nwrk.body = '{body}'\n"
        ),
    };
    file.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    let url = format!("http://127.0.0.1:{}{path}", server.http_port);
    let seconds = format!("-d{HTTP_SECONDS}s");
    let script = script.to_string_lossy();
    let text = loader(&["wrk", "-t1", "-c32", &seconds, "--latency", "-s", &script, &url])?;
    let report = crate::server_speed::WrkReport::parse(&text);
    let report = report.ok_or_else(|| format!("{url}: wrk printed no valid report:\n{text}"))?;
    Ok(Done { commands: report.requests, p99_micros: Some(report.p99_micros) })
}

fn get(server: &Running, path: &str, is_refused: bool) -> Result<Done, String> {
    let url = format!("http://127.0.0.1:{}{path}", server.http_port);
    let seconds = format!("-d{HTTP_SECONDS}s");
    let text = loader(&["wrk", "-t1", "-c32", &seconds, "--latency", &url])?;
    let is_count = |line: &&str| line.trim().starts_with("Non-2xx");
    let refused = text.lines().find(is_count).and_then(|line| line.rsplit(' ').next()?.parse().ok());
    let rest: Vec<&str> = text.lines().filter(|line| !is_count(line)).collect();
    let report = crate::server_speed::WrkReport::parse(&rest.join("\n"));
    let admitted = report.as_ref().map(|report| report.requests - refused.unwrap_or(0.0));
    // The first request of a client that is refused may be admitted.
    let is_so = |admitted: f64| if is_refused { admitted <= 1.0 } else { refused.is_none() };
    match report.filter(|_| admitted.is_some_and(is_so)) {
        Some(report) => Ok(Done { commands: report.requests, p99_micros: Some(report.p99_micros) }),
        None => Err(format!("{url}: other answers than were expected:\n{text}")),
    }
}

fn grpc(server: &Running) -> Result<Done, String> {
    let body = std::env::temp_dir().join(format!("tollgate-serve-{}.grpc", std::process::id()));
    std::fs::write(&body, framed(&rate_limit_request())).map_err(|error| error.to_string())?;
    let url = format!(
        "http://127.0.0.1:{}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        server.grpc_port
    );
    let count = GRPC_CALLS.to_string();
    let body = body.to_string_lossy();
    let arguments = ["h2load", "-n", &count, "-c", "4", "-m", "16", "-d", &body];
    let headers = ["-H", "content-type: application/grpc", "-H", "te: trailers", &url];
    let text = loader(&[&arguments[..], &headers[..]].concat())?;
    // A call that fails is a success of HTTP, without a message.
    if !text.contains(&format!("{GRPC_CALLS} succeeded")) || text.contains(" 0B (0) data") {
        return Err(format!("{url}: calls failed:\n{text}"));
    }
    Ok(Done { commands: f64::from(GRPC_CALLS), p99_micros: None })
}

/// A message with the head that gRPC puts before it.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    framed
}

/// A call for the domain `api` with one descriptor, `client` = `203.0.113.9`.
fn rate_limit_request() -> Vec<u8> {
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }
    let entry = [field(1, b"client"), field(2, b"203.0.113.9")].concat();
    let descriptor = field(1, &entry);
    [field(1, b"api"), field(2, &descriptor)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"
\"CL.THROTTLE k:__rand_int__ 10 100 60\",\"1000000.00\",\"0.700\",\"0.100\",\"0.6\",\"1.0\",\"1.207\",\"3.1\"
";

    #[test]
    fn percentiles_of_redis_benchmark_are_read_unless_commands_fail() {
        assert_eq!(redis_p99(CSV), Some(1_207.0));
        assert_eq!(redis_p99(&format!("Error from server: ERR unknown command\n{CSV}")), None);
        assert_eq!(redis_p99(""), None);
    }

    #[test]
    fn a_call_is_encoded_as_protocol_buffers_say() {
        let call = rate_limit_request();
        assert_eq!(call[..5], [0x0a, 3, b'a', b'p', b'i']);
        let (entry, value) = (2 + 6 + 2 + 11, 11);
        assert_eq!(call[5..9], [0x12, 2 + entry, 0x0a, entry]);
        assert_eq!(call[9..11], [0x0a, 6]);
        assert_eq!(call[17..19], [0x12, value]);
        assert_eq!(&call[19..], b"203.0.113.9");
        assert_eq!(framed(&call)[..5], [0, 0, 0, 0, call.len() as u8]);
    }
}
