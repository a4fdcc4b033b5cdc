//! `--decisions`: one JSON object a line for each request.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::answer::Answer;
use crate::failure::Failure;
use crate::ingest::Record;

/// The output of `--decisions`.
pub(crate) struct Decisions {
    out: BufWriter<Box<dyn Write>>,
    /// What messages call `out`.
    what: String,
    /// The limits if there are several, else empty.
    limits: Vec<String>,
    /// The files if there are several, else empty.
    files: Vec<String>,
}

impl Decisions {
    /// Opens `path`; `-` is standard output.
    ///
    /// # Errors
    ///
    /// When the file cannot be created.
    pub(crate) fn create(path: &Path, limits: &[String], files: &[String]) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::to(Box::new(io::stdout()), "standard output".to_owned(), limits, files));
        }
        let what = path.display().to_string();
        let file = File::create(path).map_err(Failure::writing(&what))?;
        Ok(Self::to(Box::new(file), what, limits, files))
    }

    /// Writes to `out`, which messages call `what`.
    pub(super) fn to(out: Box<dyn Write>, what: String, limits: &[String], files: &[String]) -> Self {
        let if_several = |names: &[String]| if names.len() > 1 { names.to_vec() } else { Vec::new() };
        let out = BufWriter::with_capacity(1 << 16, out);
        Self { out, what, limits: if_several(limits), files: if_several(files) }
    }

    /// Writes the line of one request.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) fn write(&mut self, record: &Record<'_>, t_ns: u64, answer: &Answer) -> Result<(), Failure> {
        self.line(record, t_ns, answer).map_err(Failure::writing(&self.what))
    }

    /// Writes out the buffer.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::writing(&self.what))
    }

    fn line(&mut self, record: &Record<'_>, t_ns: u64, answer: &Answer) -> io::Result<()> {
        let out = &mut self.out;
        out.write_all(b"{")?;
        if let Some(file) = self.files.get(record.file) {
            out.write_all(b"\"file\":")?;
            serde_json::to_writer(&mut *out, file)?;
            out.write_all(b",")?;
        }
        write!(out, "\"line\":{},\"key\":", record.line)?;
        serde_json::to_writer(&mut *out, &String::from_utf8_lossy(record.key))?;
        let &Answer { allowed, limit, remaining, retry_after_ns, reset_after_ns, delay_ns, never, .. } =
            answer;
        write!(out, ",\"t_ns\":{t_ns},\"allowed\":{allowed},\"limit\":{limit},\"remaining\":{remaining}")?;
        match retry_after_ns {
            None => out.write_all(b",\"retry_after_ns\":null")?,
            Some(wait) => write!(out, ",\"retry_after_ns\":{wait}")?,
        }
        write!(out, ",\"reset_after_ns\":{reset_after_ns},\"delay_ns\":{delay_ns},\"never\":{never}")?;
        if let Some(charged) = answer.charged {
            write!(out, ",\"charged\":{charged}")?;
        }
        if !self.limits.is_empty() {
            out.write_all(b",\"refused_by\":")?;
            if allowed {
                out.write_all(b"null")?;
            } else {
                let limits: Vec<&str> = answer.refused_by.iter().map(|&i| &*self.limits[i]).collect();
                serde_json::to_writer(&mut *out, &limits)?;
            }
        }
        out.write_all(b"}\n")
    }
}
