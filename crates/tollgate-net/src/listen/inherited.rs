//! Sockets that systemd has bound before it started this process.

use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};

use listenfd::ListenFd;

/// The sockets of this process that have not been taken.
static INHERITED: LazyLock<Mutex<Inherited>> = LazyLock::new(|| {
    // Read first: the other clears the environment.
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned).collect();
    Mutex::new(Inherited { names, sockets: ListenFd::from_env() })
});

struct Inherited {
    names: Vec<String>,
    sockets: ListenFd,
}

/// A listening socket of the standard library.
pub(super) enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// Takes the first socket of this name that has not been taken.
pub(super) fn take(name: &str) -> io::Result<Bound> {
    let Inherited { names, sockets } = &mut *INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
    for index in 0..sockets.len() {
        // Without names, systemd calls a socket so.
        if names.get(index).map_or("unknown", |name| name) != name {
            continue;
        }
        let bound = match sockets.take_tcp_listener(index) {
            Ok(listener) => listener.map(Bound::Tcp),
            Err(_) => sockets.take_unix_listener(index)?.map(Bound::Unix),
        };
        if let Some(bound) = bound {
            return Ok(bound);
        }
    }
    let known = names.iter().filter(|name| !name.is_empty()).map(String::as_str).collect::<Vec<_>>();
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        match known[..] {
            [] => "no socket was handed to this process: start it by a systemd socket unit".to_owned(),
            _ => format!("the sockets handed to this process are {}", known.join(", ")),
        },
    ))
}
