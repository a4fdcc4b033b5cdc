//! One server for each state file.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::StateError;
use super::file::with_ending;

/// Held by the server that saves to a state file. The operating system lets go of it when the
/// process ends, however it ends.
///
/// A second server would begin with the state of an earlier time, and each save would replace those
/// of the other: debts would be forgiven.
#[derive(Debug)]
pub(crate) struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the lock of a state file: that of the file `.lock` beside it, which stays there, as
    /// saves replace the state file itself. `None`: there are no locks here, which is logged.
    ///
    /// # Errors
    ///
    /// [`StateError::InUse`] if another server holds it.
    pub(super) fn take(path: &Path) -> Result<Option<Self>, StateError> {
        let beside = with_ending(path, ".lock");
        // Where no file can be made or locked, the server is of more use without the lock.
        let fails = |why: &dyn std::fmt::Display| {
            tracing::warn!(file = %beside.display(), %why, "not locked: no other server may save here");
            Ok(None)
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = match options.open(&beside) {
            Ok(file) => file,
            Err(error) => return fails(&error),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let holder = fs::read_to_string(&beside).ok().and_then(|text| text.trim().parse().ok());
                return Err(StateError::InUse { holder });
            }
            Err(error) => return fails(&error),
        }
        // For the error of the next server. Without room on the disk it has no number.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Some(Self { _file: file }))
    }
}
