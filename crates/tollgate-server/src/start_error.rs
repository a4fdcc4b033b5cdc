//! Why a server did not start.

use std::fmt;
use std::io;
use std::path::PathBuf;

use tollgate_net::listen::ListenAddress;
use tollgate_proxy::park::ParkError;
use tollgate_proxy::proxy::UpstreamError;
use tollgate_rules_file::ReloadError;

use crate::core::EnvoyFilesError;
use crate::state::StateError;

/// Why a server did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The rules file.
    Rules(ReloadError),
    /// The files of envoyproxy/ratelimit.
    Envoy(EnvoyFilesError),
    /// The store of the files of envoyproxy/ratelimit.
    EnvoyStore(tollgate_redis::BuildError),
    /// The table of `CL.THROTTLE`.
    Calls(tollgate::BuildError),
    /// The table of the clients that ask for their parked requests.
    States(tollgate::BuildError),
    /// The file with the administrator's token.
    AdminToken(io::Error),
    /// An address.
    Listen {
        /// What it speaks: `http`, `admin`, `grpc`, `resp` or `proxy`.
        listener: &'static str,
        /// The address.
        address: ListenAddress,
        /// Why it was not bound.
        error: io::Error,
    },
    /// An address that other machines reach, where clients need not show who they are.
    Open {
        /// What it speaks: `http`, `admin`, `grpc` or `resp`.
        listener: &'static str,
        /// The address.
        address: ListenAddress,
    },
    /// How the upstreams of the proxy are reached.
    Upstream(UpstreamError),
    /// The certificates of a listener.
    Tls {
        /// What it speaks: `http`, `admin`, `grpc` or `resp`.
        listener: &'static str,
        /// The mistake.
        error: io::Error,
    },
    /// The state file is damaged, and [`strict_state`](crate::Settings::strict_state) is set; or it
    /// can never be written.
    State {
        /// The file.
        path: PathBuf,
        /// The mistake.
        error: Box<StateError>,
    },
    /// The file of requests that are kept for later: another process has it, or it is damaged.
    Park {
        /// The file.
        path: PathBuf,
        /// The mistake.
        error: ParkError,
    },
    /// The thread that watches the rules file.
    Watch(io::Error),
    /// The [threads](crate::Settings::threads) that serve connections.
    Threads(io::Error),
}

/// The option that names the addresses of a listener.
fn option(listener: &str) -> &str {
    if listener == "proxy" { "listen" } else { listener }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(error) => error.fmt(f),
            Self::Envoy(error) => error.fmt(f),
            Self::EnvoyStore(error) => write!(f, "--envoy-store: {error}"),
            Self::Calls(error) | Self::States(error) => error.fmt(f),
            Self::Upstream(error) => error.fmt(f),
            Self::Listen { listener, address, error } => {
                let option = option(listener);
                write!(f, "--{option}: {address} cannot be listened on: {error}")?;
                let hint = match (error.kind(), address) {
                    (io::ErrorKind::AddrInUse, ListenAddress::Unix { .. }) => {
                        "; another process does: choose another path"
                    }
                    (io::ErrorKind::AddrInUse, _) => "; another process does: choose another port",
                    (io::ErrorKind::AlreadyExists, _) => "; remove it, or choose another path",
                    (io::ErrorKind::PermissionDenied, ListenAddress::Tcp(_)) => {
                        "; ports below 1024 need a privilege"
                    }
                    _ => "",
                };
                f.write_str(hint)
            }
            Self::Open { listener, address } => {
                let secret = match *listener {
                    "admin" => " or a token (--admin-token-file FILE)",
                    "resp" => " or a password (--resp-password-file FILE)",
                    _ => "",
                };
                write!(
                    f,
                    "the {listener} listener {address} is reached from other machines, and its callers are \
                     trusted: let them show certificates (--{listener}-tls CERT,KEY,CLIENT-CA){secret}, \
                     listen on loopback or a Unix socket, or say --open if the network keeps others out"
                )
            }
            Self::Tls { listener, error } => write!(f, "--{}-tls: {error}", option(listener)),
            Self::State { path, error } => write!(f, "the state file {}: {error}", path.display()),
            Self::Park { path, error } => {
                write!(f, "the file of parked requests {}: {error}", path.display())
            }
            Self::AdminToken(error) => write!(f, "--admin-token-file: the token cannot be read: {error}"),
            Self::Watch(error) => write!(f, "the rules file cannot be watched: {error}"),
            Self::Threads(error) => {
                write!(f, "the threads that serve connections cannot be started: {error}")
            }
        }
    }
}

impl std::error::Error for StartError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_way_is_told_with_a_hint() {
        let error = io::Error::new(io::ErrorKind::AlreadyExists, "a file is there");
        let address = "unix:/run/tollgate".parse().unwrap();
        let told = StartError::Listen { listener: "http", address, error }.to_string();
        assert!(told.ends_with("a file is there; remove it, or choose another path"), "{told}");
    }
}
