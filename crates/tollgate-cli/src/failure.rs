//! Why a command ends early, and with which exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// A command that did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was asked for something that cannot be done: exit code 2.
    Usage(String),
    /// What it wrote could not be written: exit code 2.
    Output { what: String, cause: io::Error },
    /// Nobody reads what it writes any more: that is no error, and nothing is said.
    Unread,
    /// It found a promise broken: exit code 1.
    Broken(String),
}

impl Failure {
    /// What went wrong while writing `what`.
    pub(crate) fn writing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |cause| match cause.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::Output { what: what.into(), cause },
        }
    }

    /// Says it on standard error, unless there is nothing to say.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Unread => ExitCode::SUCCESS,
            Self::Broken(_) => {
                say(&format!("tollgate: {self}"));
                ExitCode::from(1)
            }
            Self::Usage(_) | Self::Output { .. } => {
                say(&format!("tollgate: {self}"));
                ExitCode::from(2)
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Broken(message) => f.write_str(message),
            Self::Output { what, cause } => write!(f, "cannot write {what}: {cause}"),
            Self::Unread => f.write_str("nobody reads the output"),
        }
    }
}

impl std::error::Error for Failure {}

/// Prints a line for a person on standard error; when nobody reads that either, so be it.
pub(crate) fn say(message: &str) {
    use io::Write;
    let _ = writeln!(io::stderr().lock(), "{message}");
}
