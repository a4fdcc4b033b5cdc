//! Why the store gave no answer.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The store gave no answer. A refusal is not a failure: it is an answer.
///
/// [`charged`](Self::charged) says whether the store may have charged the request all the same.
/// A check that may have been executed is never sent again, and its charge is not given back: time
/// wins it back. So an uncertain check errs by refusing a later one.
///
/// # Examples
///
/// ```
/// use tollgate_redis::{Charged, Failed, FailureKind};
///
/// fn retry_elsewhere(failed: &Failed) -> bool {
///     failed.kind == FailureKind::BreakerOpen && failed.charged == Charged::No
/// }
/// # let _ = retry_elsewhere;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// What went wrong.
    pub kind: FailureKind,
    /// Whether the store may have charged the request.
    pub charged: Charged,
    /// What the probes of an open breaker fail with, if it says more than that no answer comes.
    found: Option<FailureKind>,
    /// What the client or the server said about it, if anything.
    message: Option<Arc<str>>,
}

/// Whether the store may have charged a request that [`Failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Charged {
    /// The request was not sent, or the server refused to execute it.
    No,
    /// The request was sent and its answer is lost: the server may have executed it, or may yet.
    Perhaps,
}

/// What went wrong between the caller and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// No answer within the deadline.
    Timeout,
    /// There is no connection, or it broke.
    Connection,
    /// The server is a replica, or its master has too few replicas: it accepts no writes.
    ReadOnly,
    /// The server has reached its `maxmemory` and evicts nothing.
    Memory,
    /// The password is wrong, or the user may not run scripts on these keys.
    Auth,
    /// The script failed, or the server's answer is not one of ours.
    Script,
    /// The key's slot is moving to another server, and the request could not follow it.
    Moved,
    /// The server is up and does not serve: it loads its data, a script or a failed save blocks it,
    /// or its cluster is down.
    Unready,
    /// The store failed just now, so the request was not sent.
    BreakerOpen,
    /// As many requests were on their way as the store answers in time, so this one was not sent.
    Busy,
}

/// The advice where a key has a value of another type.
const FOREIGN: &str = "another program has written a key of ours: give each program its own `prefix`";

impl FailureKind {
    /// Every kind, in the order of [`index`](Self::index).
    pub const ALL: [Self; 10] = [
        Self::Timeout,
        Self::Connection,
        Self::ReadOnly,
        Self::Memory,
        Self::Auth,
        Self::Script,
        Self::Moved,
        Self::Unready,
        Self::BreakerOpen,
        Self::Busy,
    ];

    /// The number of the kind in [`ALL`](Self::ALL), for counters by kind.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The kind's name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::ReadOnly => "read_only",
            Self::Memory => "memory",
            Self::Auth => "auth",
            Self::Script => "script",
            Self::Moved => "moved",
            Self::Unready => "unready",
            Self::BreakerOpen => "breaker_open",
            Self::Busy => "busy",
        }
    }

    /// Whether it says more than that no answer comes.
    pub(crate) const fn is_telling(self) -> bool {
        !matches!(self, Self::Timeout | Self::Connection | Self::BreakerOpen | Self::Busy)
    }

    /// The likely cause, and the operator's remedy.
    const fn advice(self) -> &'static str {
        match self {
            Self::Timeout => "no answer within the deadline: look at the server's load, or allow more time",
            Self::Connection => "no connection: is the server up, and its address right?",
            Self::ReadOnly => "the server accepts no writes: connect to the master, or to Sentinel",
            Self::Memory => "the server is out of memory: raise its maxmemory",
            Self::Auth => "the server refuses the user: check the password and the right to EVALSHA",
            Self::Script => "the script failed: is the server Redis 6.2 or later, or Valkey?",
            Self::Moved => "the key's slot is moving to another server: try again",
            Self::Unready => "the server does not serve now: it is loading, blocked, or its cluster is down",
            Self::BreakerOpen => "not sent, since the store failed just now; a probe looks for its return",
            Self::Busy => "not sent, since the store is busy: look at its load, or allow more time",
        }
    }

    /// Sorts an error by the code that the server's reply begins with.
    fn of_code(code: &str) -> Option<Self> {
        Some(match code {
            "READONLY" | "NOREPLICAS" => Self::ReadOnly,
            "OOM" => Self::Memory,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => Self::Auth,
            "MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT" => Self::Moved,
            "LOADING" | "BUSY" | "MISCONF" | "CLUSTERDOWN" | "MASTERDOWN" => Self::Unready,
            _ => return None,
        })
    }
}

impl Failed {
    pub(crate) const fn new(kind: FailureKind, charged: Charged) -> Self {
        Self { kind, charged, found: None, message: None }
    }

    /// The request was sent, and no answer came within the deadline.
    pub(crate) const fn timeout() -> Self {
        Self::new(FailureKind::Timeout, Charged::Perhaps)
    }

    /// The breaker is open, whose probes find this: nothing was sent.
    pub(crate) const fn breaker_open(found: Option<FailureKind>) -> Self {
        Self { kind: FailureKind::BreakerOpen, charged: Charged::No, found, message: None }
    }

    /// There was no room among the requests on their way: nothing was sent.
    pub(crate) const fn busy() -> Self {
        Self::new(FailureKind::Busy, Charged::No)
    }

    /// No server is known to have the slot: nothing was sent.
    pub(crate) fn no_master(slot: u16) -> Self {
        let message = Some(format!("no master of slot {slot} is known").into());
        Self { message, ..Self::new(FailureKind::Unready, Charged::No) }
    }

    /// The server refused to begin. It may have repeated the user and the password, so of its text
    /// only the code is kept.
    pub(crate) fn to_begin(error: &RedisError) -> Self {
        let failed = Self::from(error);
        let message = error.code().map_or(failed.message.clone(), |code| Some(code.into()));
        Self { message, charged: Charged::No, ..failed }
    }

    /// The server's answer is not one of the script's. It may have charged the request.
    pub(crate) fn answer(message: impl Into<Arc<str>>) -> Self {
        let message = Some(message.into());
        Self { message, ..Self::new(FailureKind::Script, Charged::Perhaps) }
    }

    /// What [`Counts::failed`](crate::Counts::failed) counts it as, and what an operator mends: the
    /// kind; of [`BreakerOpen`](FailureKind::BreakerOpen) what the probes find, if they find more
    /// than that no answer comes, such as [`Auth`](FailureKind::Auth).
    #[must_use]
    pub fn cause(&self) -> FailureKind {
        self.found.unwrap_or(self.kind)
    }

    /// What the client or the server said about it, if anything.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

impl From<&RedisError> for Failed {
    fn from(error: &RedisError) -> Self {
        let (kind, charged) = sort(error);
        let text = error.to_string();
        // The server repeats the arguments of a command that it does not know: keys.
        let text = text.split_once(", with args").map_or(&*text, |(before, _)| before);
        Self { message: Some(text.into()), ..Self::new(kind, charged) }
    }
}

/// What kind of failure an error of the client is, and whether the request may be charged.
///
/// The server refuses a script's first write or none (out of memory, read-only), so an error with
/// a known code charges nothing, but for a right that is missing. Any other error of a script may
/// have come between two writes.
fn sort(error: &RedisError) -> (FailureKind, Charged) {
    use Charged::{No, Perhaps};
    let detail = error.detail().unwrap_or_default();
    if let Some(kind) = error.code().and_then(FailureKind::of_code) {
        // A right that is missing is found at the command that needs it, after the ones before.
        let is_within = kind == FailureKind::Auth && detail.contains("script");
        return (kind, if is_within { Perhaps } else { No });
    }
    match error.kind() {
        _ if error.is_timeout() => (FailureKind::Timeout, Perhaps),
        _ if error.is_connection_refusal() => (FailureKind::Connection, No),
        ErrorKind::Io => (FailureKind::Connection, Perhaps),
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => (FailureKind::Auth, No),
        ErrorKind::ClusterConnectionNotFound
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel
        | ErrorKind::EmptySentinelList => (FailureKind::Connection, No),
        ErrorKind::Server(ServerErrorKind::NoScript) => (FailureKind::Script, No),
        _ => match nested(detail) {
            Some(FailureKind::Auth) => (FailureKind::Auth, Perhaps),
            Some(kind) => (kind, No),
            None => (FailureKind::Script, Perhaps),
        },
    }
}

/// The code within an error of a script: before Redis 7 the server wraps it, as in
/// `Error running script (call to f_6b..): @user_script:1: @user_script: 1: -OOM command not ..`.
fn nested(detail: &str) -> Option<FailureKind> {
    let (_, inner) = detail.split_once("@user_script")?;
    let (_, inner) = inner.split_once(": -")?;
    FailureKind::of_code(inner.split(' ').next()?)
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_foreign = self.message.as_ref().is_some_and(|message| message.contains("WRONGTYPE"));
        f.write_str(if is_foreign { FOREIGN } else { self.cause().advice() })?;
        if let Some(message) = &self.message {
            write!(f, " ({message})")?;
        }
        match self.charged {
            Charged::No => Ok(()),
            Charged::Perhaps => f.write_str("; the request may have been charged"),
        }
    }
}

impl Error for Failed {}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::{Value, parse_redis_value};

    use super::*;

    /// What the client makes of a reply of the server.
    fn reply(line: &str) -> Failed {
        let error = match parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => RedisError::from(error),
            other => panic!("an error, not {other:?}"),
        };
        Failed::from(&error)
    }

    fn io(kind: io::ErrorKind) -> Failed {
        Failed::from(&RedisError::from(io::Error::from(kind)))
    }

    /// What the client makes of a reply as it connects.
    fn to_begin(line: &str) -> Failed {
        match parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => Failed::to_begin(&RedisError::from(error)),
            other => panic!("an error, not {other:?}"),
        }
    }

    #[test]
    fn a_server_that_repeats_the_password_is_not_repeated() {
        for (line, code) in [
            ("WRONGPASS no user app with hunter2", "WRONGPASS"),
            ("ERR invalid password hunter2", "ERR"),
            ("ERR unknown command 'AUTH', with args beginning with: 'app' 'hunter2'", "ERR"),
            ("DENIED hunter2", "DENIED"),
        ] {
            let failed = to_begin(line);
            assert_eq!((failed.message(), failed.charged), (Some(code), Charged::No), "{line}");
            assert!(!failed.to_string().contains("hunter2"), "{failed}");
        }
        let refused = RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert!(Failed::to_begin(&refused).message().is_some_and(|text| text.contains("refused")));
    }

    #[test]
    fn a_replys_code_tells_its_kind() {
        use FailureKind::*;
        for (line, kind) in [
            ("READONLY You can't write against a read only replica.", ReadOnly),
            ("NOREPLICAS Not enough good replicas to write.", ReadOnly),
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: 6b, on @user_script:8.",
                Memory,
            ),
            (
                "ERR Error running script (call to f_6b): @user_script:1: -OOM command not allowed when",
                Memory,
            ),
            (
                "ERR Error running script (f_6b): @user_script:1: @user_script: 1: -READONLY You can't",
                ReadOnly,
            ),
            ("NOAUTH Authentication required.", Auth),
            ("WRONGPASS invalid username-password pair or user is disabled.", Auth),
            ("NOPERM this user has no permissions to run the 'evalsha' command", Auth),
            ("LOADING Redis is loading the dataset in memory", Unready),
            ("BUSY Redis is busy running a script.", Unready),
            ("MISCONF Redis is configured to save RDB snapshots", Unready),
            ("CLUSTERDOWN Hash slot not served", Unready),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Moved),
            ("MOVED 3999 127.0.0.1:6381", Moved),
            ("NOSCRIPT No matching script. Please use EVAL.", Script),
        ] {
            let failed = reply(line);
            assert_eq!((failed.kind, failed.charged), (kind, Charged::No), "{line}");
        }
    }

    /// Of Valkey, of Redis 7.2 and of 6.2: a bucket before the log may have been charged.
    #[test]
    fn a_right_missing_within_a_script_may_have_charged() {
        for line in [
            "NOPERM The user executing the script can't run this command or subcommand script: 6b, on @user_script:8.",
            "NOPERM ACL failure in script: User mine has no permissions to run the 'zadd' command",
            "ERR Error running script (call to f_6b): @user_script:1: @user_script: 1: -NOPERM The user",
        ] {
            let failed = reply(line);
            assert_eq!((failed.kind, failed.charged), (FailureKind::Auth, Charged::Perhaps), "{line}");
        }
    }

    #[test]
    fn an_unknown_error_of_a_script_may_have_charged() {
        for line in ["ERR Error running script (call to f_6b): @user_script:1: oh", "ODD 1", "ERR unknown"] {
            let failed = reply(line);
            assert_eq!((failed.kind, failed.charged), (FailureKind::Script, Charged::Perhaps), "{line}");
        }
    }

    #[test]
    fn only_a_refused_connection_charges_nothing() {
        use io::ErrorKind::*;
        let kinds = [ConnectionRefused, ConnectionReset, BrokenPipe, UnexpectedEof].map(|kind| {
            let failed = io(kind);
            assert_eq!(failed.kind, FailureKind::Connection, "{kind}");
            failed.charged
        });
        assert_eq!(kinds, [Charged::No, Charged::Perhaps, Charged::Perhaps, Charged::Perhaps]);
        assert_eq!((io(TimedOut).kind, io(TimedOut).charged), (FailureKind::Timeout, Charged::Perhaps));
    }

    #[test]
    fn a_failure_says_what_to_do_and_what_was_charged() {
        let text = Failed::timeout().to_string();
        assert!(text.contains("allow more time") && text.contains("may have been charged"), "{text}");
        let text = reply("OOM command not allowed").to_string();
        assert!(text.contains("raise its maxmemory") && text.contains("not allowed"), "{text}");
        assert!(!text.contains("charged"), "{text}");
    }

    #[test]
    fn a_failure_repeats_no_key() {
        let text = reply("ERR unknown command 'EVALSHA', with args beginning with: '6b' '1' 'tg1:alice'")
            .to_string();
        assert!(text.contains("EVALSHA") && !text.contains("alice"), "{text}");
    }

    #[test]
    fn a_key_of_another_type_is_named_as_the_cause() {
        let text = reply("WRONGTYPE Operation against a key holding the wrong kind of value").to_string();
        assert!(text.contains("its own `prefix`"), "{text}");
    }

    #[test]
    fn kinds_have_their_own_numbers_and_names() {
        for (number, kind) in FailureKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), number);
            assert_eq!(FailureKind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
        }
    }
}
