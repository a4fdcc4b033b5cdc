//! One server for each state file.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
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
    file: File,
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
        // A link would lead the number of the process into any file of this user.
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = match options.open(&beside) {
            Ok(file) => file,
            Err(error) => return fails(&error),
        };
        let mut holder = String::new();
        let is_ours = file.read_to_string(&mut holder).is_ok()
            && (holder.is_empty() || holder.trim().parse::<u32>().is_ok());
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(StateError::InUse { holder: holder.trim().parse().ok() });
            }
            Err(error) => return fails(&error),
        }
        // For the error of the next server. Without room on the disk it has no number; and a file
        // of this name may be of another program.
        if is_ours {
            let id = format!("{}\n", std::process::id());
            let _ = file.set_len(0).and_then(|()| file.write_all_at(id.as_bytes(), 0));
        }
        Ok(Some(Self { file }))
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // To close the file is not enough: a process that is just being started from this one has
        // it, too, until it runs its own program.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}
