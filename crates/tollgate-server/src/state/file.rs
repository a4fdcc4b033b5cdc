//! The state file: whole, or not there.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tollgate::RestoreError;
use tollgate::saved::{Format, Reader, Writer, replace};
use tollgate_rules::NotRestored;
use tollgate_rules_file::{EnvoySet, LiveFile};

use super::StateError;
use crate::clock::ServerClock;
use crate::core::{CallLimiter, Core, Envoy, call_builder};

const STATE: Format = Format { magic: *b"\xA7serve\r\n", name: "a state file of Tollgate" };

/// The restored state.
pub(super) struct Restored {
    pub(super) file: LiveFile<ServerClock>,
    /// What the rules, and the files of envoyproxy/ratelimit, begin without.
    pub(super) forgotten: Vec<NotRestored>,
    /// The keys of `CL.THROTTLE`, or why they are forgotten.
    pub(super) calls: Result<CallLimiter, RestoreError>,
}

/// Writes the state to the file, which is then whole, or the one before. Returns how many debts and
/// bans it holds.
pub(crate) fn save(path: &Path, core: &Core) -> io::Result<usize> {
    replace(path, |file| {
        let mut out = Writer::begin(file, STATE)?;
        let mut debts = core.live.save_in(&mut out)?;
        out.byte(core.envoy.is_some().into())?;
        if let Some(envoy) = &core.envoy {
            debts += envoy.save(&mut out)?;
        }
        debts += core.calls.load().save_in(&mut out)?;
        out.finish()?;
        Ok(debts)
    })
}

/// Reads a state file. `None`: there is none.
pub(super) fn restore(
    path: &Path,
    max_call_keys: usize,
    envoy: Option<&mut Envoy>,
    clock: &ServerClock,
) -> Result<Option<Restored>, StateError> {
    let opened = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut input = Reader::begin(&opened, STATE)?;
    let (file, mut forgotten) = LiveFile::restore_from(&mut input, ServerClock::clone(clock))?;
    if input.byte()? != 0 {
        // Of a server without such files they are forgotten, as those of limits that are gone.
        forgotten.extend(match envoy {
            Some(envoy) => envoy.resume(ServerClock::clone(clock), &mut input)?,
            None => EnvoySet::<ServerClock>::skip(&mut input).map(|()| Vec::new())?,
        });
    }
    let calls = match call_builder(max_call_keys, clock).restore_from(&mut input) {
        Err(error) if error.is_damage() => return Err(error.into()),
        calls => calls,
    };
    input.finish()?;
    if (&opened).read(&mut [0])? > 0 {
        return Err(StateError::Longer);
    }
    Ok(Some(Restored { file, forgotten, calls }))
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
