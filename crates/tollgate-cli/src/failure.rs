//! Why a command ends early, and with which exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::note::print_note;

/// Why a command did not do what it was asked to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request cannot be carried out: exit code 2.
    Usage(String),
    /// An output cannot be written: exit code 2.
    Output { what: String, cause: io::Error },
    /// The reader closed the output, as `head` does. This is no error: exit code 0.
    OutputClosed,
    /// The command found a broken promise, or more than `--fail-on` permits: exit code 1.
    PromiseBroken(String),
    /// A test of a rules file failed: exit code 3.
    TestsFailed(String),
}

impl Failure {
    /// Turns an error of writing `what` into a failure.
    pub(crate) fn writing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |cause| match cause.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Output { what: what.into(), cause },
        }
    }

    /// Prints the failure on standard error and returns its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let code = match self {
            Self::OutputClosed => return ExitCode::SUCCESS,
            Self::PromiseBroken(_) => 1,
            Self::Usage(_) | Self::Output { .. } => 2,
            Self::TestsFailed(_) => 3,
        };
        print_note(&format!("tollgate: {self}"));
        ExitCode::from(code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::PromiseBroken(message) | Self::TestsFailed(message) => {
                f.write_str(message)
            }
            Self::Output { what, cause } => write!(f, "cannot write {what}: {cause}"),
            Self::OutputClosed => f.write_str("the reader closed the output"),
        }
    }
}

impl std::error::Error for Failure {}
