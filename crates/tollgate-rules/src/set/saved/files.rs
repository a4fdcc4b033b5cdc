//! The files that rules were read from, for the next process.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RestoreError;
use super::pieces::{read_bytes, read_number, read_text, write_bytes};
use crate::file::{Memory, Reading, read};

/// What rules were read from.
pub(crate) struct FilesRead {
    pub(crate) path: PathBuf,
    pub(crate) copy: Arc<Memory>,
}

impl FilesRead {
    /// The rules of the files.
    pub(crate) fn reading(&self) -> Reading {
        read(&self.path, &*self.copy)
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Memory { files, variables } = &*self.copy;
        write_bytes(out, text(&self.path)?)?;
        out.write_all(&(files.len() as u32).to_le_bytes())?;
        for (path, bytes) in files {
            write_bytes(out, text(path)?)?;
            write_bytes(out, bytes)?;
        }
        out.write_all(&(variables.len() as u32).to_le_bytes())?;
        for (name, value) in variables {
            write_bytes(out, name.as_bytes())?;
            write_bytes(out, value.as_bytes())?;
        }
        Ok(())
    }

    pub(crate) fn read(input: &mut impl Read) -> Result<Self, RestoreError> {
        let path = read_text(input)?;
        let mut copy = Memory::default();
        for _ in 0..read_number(input)? {
            copy = copy.file(read_text(input)?, read_bytes(input)?);
        }
        for _ in 0..read_number(input)? {
            copy = copy.variable(read_text(input)?, read_text(input)?);
        }
        Ok(Self { path: path.into(), copy: Arc::new(copy) })
    }
}

/// A path as text: a rules file and its lists have names in UTF-8.
fn text(path: &Path) -> io::Result<&[u8]> {
    let text = path.to_str().map(str::as_bytes);
    text.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "a path of the rules is not UTF-8"))
}
