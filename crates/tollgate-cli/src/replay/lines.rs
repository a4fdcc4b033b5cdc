//! A file of JSON objects: a line for each request.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::failure::Failure;

/// Where lines are written.
pub(crate) type Out = BufWriter<Box<dyn Write + Send>>;

/// The file that `--decisions` names.
pub(crate) struct Lines {
    out: Out,
    /// What messages call `out`.
    what: String,
    /// The logs if there are several, else empty.
    files: Vec<String>,
}

impl Lines {
    /// Opens `path`; `-` is standard output. `files` are the logs.
    ///
    /// # Errors
    ///
    /// When the file cannot be created.
    pub(crate) fn create(path: &Path, files: &[String]) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::to(Box::new(io::stdout()), "standard output".to_owned(), files));
        }
        let what = path.display().to_string();
        let file = File::create(path).map_err(Failure::writing(&what))?;
        Ok(Self::to(Box::new(file), what, files))
    }

    /// Writes to `out`, which messages call `what`.
    pub(crate) fn to(out: Box<dyn Write + Send>, what: String, files: &[String]) -> Self {
        let files = if files.len() > 1 { files.to_vec() } else { Vec::new() };
        Self { out: BufWriter::with_capacity(1 << 16, out), what, files }
    }

    /// Writes the line of a request: where it is in the logs, and the fields that `fields` writes,
    /// each behind a comma.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) fn write(
        &mut self,
        file: usize,
        line: u64,
        fields: impl FnOnce(&mut Out) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.line(file, line, fields).map_err(Failure::writing(&self.what))
    }

    /// Writes out the buffer.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::writing(&self.what))
    }

    fn line(
        &mut self,
        file: usize,
        line: u64,
        fields: impl FnOnce(&mut Out) -> io::Result<()>,
    ) -> io::Result<()> {
        let out = &mut self.out;
        out.write_all(b"{")?;
        if let Some(file) = self.files.get(file) {
            out.write_all(b"\"file\":")?;
            serde_json::to_writer(&mut *out, file)?;
            out.write_all(b",")?;
        }
        write!(out, "\"line\":{line}")?;
        fields(out)?;
        out.write_all(b"}\n")
    }
}
