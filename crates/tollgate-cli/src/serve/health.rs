//! `tollgate health`: whether a server answers, for a container's HEALTHCHECK.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tollgate_server::ListenAddress;

use crate::failure::Failure;
use crate::output::print_result;

/// Ask a running server whether it is well
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where its --admin listener is: without TLS
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9080", value_parser = address)]
    admin: ListenAddress,

    /// Ask whether it takes requests (/readyz), not only whether it lives (/healthz)
    #[arg(long)]
    ready: bool,
}

pub(crate) const AFTER: &str = "\
Exit codes:
  0  it is well
  1  it is not, or does not answer

Examples:
  tollgate health
  tollgate health --admin unix:/run/tollgate/admin.sock --ready";

/// How long the server may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Asks.
///
/// # Errors
///
/// When the server is not well.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let answer = ask(&args.admin, path);
    let answer =
        answer.map_err(|error| Failure::PromiseBroken(format!("{} does not answer: {error}", args.admin)))?;
    let line = answer.lines().next().unwrap_or_default();
    if line.split(' ').nth(1) == Some("200") {
        return print_result(&format!("{line}\n"));
    }
    Err(Failure::PromiseBroken(format!("{} answers {line:?} to {path}", args.admin)))
}

/// Reads an address to which one can connect.
fn address(text: &str) -> Result<ListenAddress, String> {
    let address = text.parse().ok().filter(|address| !matches!(address, ListenAddress::Inherited(_)));
    address.ok_or_else(|| format!("{text:?} is no address of a server: write 127.0.0.1:9080 or unix:/path"))
}

/// The beginning of the answer.
fn ask(admin: &ListenAddress, path: &str) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    match admin {
        ListenAddress::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            exchange(stream, &request)
        }
        ListenAddress::Unix { path, .. } => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            exchange(stream, &request)
        }
        other => Err(std::io::Error::other(format!("{other} cannot be connected to"))),
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(16 << 10).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
