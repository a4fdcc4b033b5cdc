//! The files of rules as one text, from which the next process reads them again.
//!
//! ```text
//!   path: text | files: u32 | each: path, bytes | variables: u32 | each: name, value
//! ```
//!
//! The form is that of [`tollgate::saved`].

use std::io;
use std::path::Path;
use std::sync::Arc;

use tollgate::RestoreError;
use tollgate::saved::{Format, Reader, Writer};
use tollgate_rules::Rules;

use crate::file::{Memory, Reading, read};
use crate::live::ReloadError;

const FILES: Format = Format { magic: *b"\xA7text\r\n\x1A", name: "a copy of rules files" };

/// All that was read. `None`: a path is not UTF-8, which those of includes and lists are.
pub(super) fn of(path: &Path, copy: &Memory) -> Option<Arc<[u8]>> {
    let paths = copy.files.keys().map(|path| path.to_str()).collect::<Option<Vec<_>>>()?;
    let mut text = Vec::new();
    write(&mut text, path.to_str()?, &paths, copy).ok()?;
    Some(text.into())
}

fn write(text: &mut Vec<u8>, path: &str, paths: &[&str], copy: &Memory) -> io::Result<()> {
    let Memory { files, variables } = copy;
    let mut out = Writer::begin(text, FILES)?;
    out.bytes(path.as_bytes())?;
    out.half(files.len() as u32)?;
    for (path, bytes) in paths.iter().zip(files.values()) {
        out.bytes(path.as_bytes())?;
        out.bytes(bytes)?;
    }
    out.half(variables.len() as u32)?;
    for (name, value) in variables {
        out.bytes(name.as_bytes())?;
        out.bytes(value.as_bytes())?;
    }
    out.finish()
}

/// What the files say.
pub(super) fn reading(text: &[u8]) -> Result<Reading, RestoreError> {
    let mut input = Reader::begin(text, FILES)?;
    let path = input.text()?;
    let mut copy = Memory::default();
    for _ in 0..input.half()? {
        copy = copy.file(input.text()?, input.bytes()?);
    }
    for _ in 0..input.half()? {
        copy = copy.variable(input.text()?, input.text()?);
    }
    input.finish()?;
    Ok(read(path, &copy))
}

/// The rules of the files.
pub(super) fn rules(text: &[u8]) -> Result<Rules, RestoreError> {
    let rules = reading(text)?.into_rules();
    rules.map_err(|reading| RestoreError::Settings(Box::new(ReloadError::File(Box::new(reading)))))
}
