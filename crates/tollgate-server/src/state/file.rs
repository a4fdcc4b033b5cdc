//! The state file: whole, or not there.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tollgate::RestoreError;
use tollgate_rules::NotRestored;
use tollgate_rules_file::{EnvoySet, LiveFile};

use super::StateError;
use crate::clock::ServerClock;
use crate::core::{CallLimiter, Core, Envoy, call_builder};

/// The first bytes. No text file begins so.
const MAGIC: [u8; 8] = *b"\xA7serve\r\n";

/// The version written, and the only one read.
const VERSION: u32 = 2;

/// The restored state.
pub(super) struct Restored {
    pub(super) file: LiveFile<ServerClock>,
    /// What the rules, and the files of envoyproxy/ratelimit, begin without.
    pub(super) forgotten: Vec<NotRestored>,
    /// The keys of `CL.THROTTLE`, or why they are forgotten.
    pub(super) calls: Result<CallLimiter, RestoreError>,
}

/// Writes the state beside the file and renames it, so that the file is the old one or the new one,
/// however the process ends. Returns how many debts and bans it holds.
pub(crate) fn save(path: &Path, core: &Core) -> io::Result<usize> {
    let beside = with_ending(path, ".new");
    let saved = write(&beside, core).and_then(|debts| {
        fs::rename(&beside, path)?;
        // The rename itself must outlast a loss of power.
        File::open(directory(path))?.sync_all()?;
        Ok(debts)
    });
    if saved.is_err() {
        // On a full disk, its room is for the next try.
        let _ = fs::remove_file(&beside);
    }
    saved
}

fn write(beside: &Path, core: &Core) -> io::Result<usize> {
    // One that was left there by a process that was killed, with any permissions.
    match fs::remove_file(beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let mut debts = core.live.save(&mut out)?;
    out.write_all(&[u8::from(core.envoy.is_some())])?;
    if let Some(envoy) = &core.envoy {
        debts += envoy.save(&mut out)?;
    }
    debts += core.calls.load().save(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(debts)
}

/// Reads a state file. `None`: there is none.
pub(super) fn restore(
    path: &Path,
    max_call_keys: usize,
    envoy: Option<&mut Envoy>,
    clock: &ServerClock,
) -> Result<Option<Restored>, StateError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut input = BufReader::with_capacity(1 << 16, file);
    let mut opening = Vec::new();
    input.by_ref().take((MAGIC.len() + size_of_val(&VERSION)) as u64).read_to_end(&mut opening)?;
    if opening != [&MAGIC[..], &VERSION.to_le_bytes()].concat() {
        return Err(StateError::Foreign);
    }
    let restored = LiveFile::restore(&mut input, ServerClock::clone(clock));
    let (rules, mut forgotten) = restored.map_err(StateError::Rules)?;
    let mut has_counts = [0];
    input.read_exact(&mut has_counts)?;
    if has_counts != [0] {
        // Of a server without such files they are forgotten, as those of limits that are gone.
        let counts = match envoy {
            Some(envoy) => envoy.resume(ServerClock::clone(clock), &mut input),
            None => EnvoySet::<ServerClock>::skip(&mut input).map(|()| Vec::new()),
        };
        forgotten.extend(counts.map_err(StateError::Envoy)?);
    }
    let calls = match call_builder(max_call_keys, clock).restore(&mut input) {
        Err(
            error @ (RestoreError::Differs { .. } | RestoreError::NoRoom { .. } | RestoreError::Build(_)),
        ) => Err(error),
        Err(error) => return Err(StateError::Calls(error)),
        Ok(calls) if input.read(&mut [0])? == 0 => Ok(calls),
        Ok(_) => return Err(StateError::Longer),
    };
    Ok(Some(Restored { file: rules, forgotten, calls }))
}

/// Renames a damaged file, so that it can be looked at and the next save does not replace it.
/// Returns its new name.
pub(super) fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = with_ending(path, ".bad");
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Checks what no later save could change: the directory is there, and the path is free or names a
/// file that opens.
pub(super) fn check(path: &Path) -> Result<(), StateError> {
    let directory = directory(path);
    if !directory.is_dir() {
        let why =
            format!("there is no directory {}: create it, for the user of the server", directory.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, why).into());
    }
    // A directory, or a file of another user, is not damaged: it must stay where it is.
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(there) if !there.is_file() => {
            let why = "it is no file: name one, such as DIRECTORY/state";
            Err(io::Error::new(io::ErrorKind::InvalidInput, why).into())
        }
        _ => {
            File::open(path)?;
            Ok(())
        }
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}
