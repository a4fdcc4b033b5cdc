//! The files of rules as one text, from which the next process reads them again.
//!
//! ```text
//!   path: text | files: u32 | each: path, bytes | variables: u32 | each: name, value
//! ```
//!
//! The parts are those of [`tollgate_rules::saved`].

use std::path::Path;
use std::sync::Arc;

use tollgate_rules::saved::{read_bytes, read_number, read_text, write_bytes};
use tollgate_rules::{RestoreError, Rules};

use crate::file::{Memory, Reading, read};
use crate::live::ReloadError;

/// All that was read. `None`: a path is not UTF-8, which those of includes and lists are.
pub(super) fn of(path: &Path, copy: &Memory) -> Option<Arc<[u8]>> {
    let Memory { files, variables } = copy;
    let mut text = Vec::new();
    write_bytes(&mut text, path.to_str()?.as_bytes()).ok()?;
    text.extend((files.len() as u32).to_le_bytes());
    for (path, bytes) in files {
        write_bytes(&mut text, path.to_str()?.as_bytes()).ok()?;
        write_bytes(&mut text, bytes).ok()?;
    }
    text.extend((variables.len() as u32).to_le_bytes());
    for (name, value) in variables {
        write_bytes(&mut text, name.as_bytes()).ok()?;
        write_bytes(&mut text, value.as_bytes()).ok()?;
    }
    Some(text.into())
}

/// What the files say.
pub(super) fn reading(text: &[u8]) -> Result<Reading, RestoreError> {
    let input = &mut { text };
    let path = read_text(input)?;
    let mut copy = Memory::default();
    for _ in 0..read_number(input)? {
        copy = copy.file(read_text(input)?, read_bytes(input)?);
    }
    for _ in 0..read_number(input)? {
        copy = copy.variable(read_text(input)?, read_text(input)?);
    }
    Ok(read(path, &copy))
}

/// The rules of the files.
pub(super) fn rules(text: &[u8]) -> Result<Rules, RestoreError> {
    let rules = reading(text)?.into_rules();
    rules.map_err(|reading| RestoreError::Rules(Box::new(ReloadError::File(Box::new(reading)))))
}
