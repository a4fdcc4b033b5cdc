//! `--decisions`: one JSON object a line for each request.

use std::io::{self, Write};
use std::path::Path;

use tollgate_logs::Record;

use super::answer::Answer;
use super::lines::{Lines, Out};
use crate::failure::Failure;

/// The output of `--decisions`.
pub(crate) struct Decisions {
    lines: Lines,
    /// The limits if there are several, else empty.
    limits: Vec<String>,
}

impl Decisions {
    /// Opens `path`; `-` is standard output.
    ///
    /// # Errors
    ///
    /// When the file cannot be created.
    pub(crate) fn create(path: &Path, limits: &[String], files: &[String]) -> Result<Self, Failure> {
        Ok(Self::to(Lines::create(path, files)?, limits))
    }

    /// Writes to `lines`.
    pub(super) fn to(lines: Lines, limits: &[String]) -> Self {
        Self { lines, limits: if limits.len() > 1 { limits.to_vec() } else { Vec::new() } }
    }

    /// Writes the line of one request.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) fn write(&mut self, record: &Record<'_>, t_ns: u64, answer: &Answer) -> Result<(), Failure> {
        let Self { lines, limits } = self;
        lines.write(record.file, record.line, |out| fields(out, limits, record, t_ns, answer))
    }

    /// Writes out the buffer.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.lines.flush()
    }
}

/// Writes what a line says of a request.
fn fields(
    out: &mut Out,
    limits: &[String],
    record: &Record<'_>,
    t_ns: u64,
    answer: &Answer,
) -> io::Result<()> {
    out.write_all(b",\"key\":")?;
    serde_json::to_writer(&mut *out, &String::from_utf8_lossy(record.key))?;
    let &Answer { allowed, limit, remaining, retry_after_ns, reset_after_ns, delay_ns, never, .. } = answer;
    write!(out, ",\"t_ns\":{t_ns},\"allowed\":{allowed},\"limit\":{limit},\"remaining\":{remaining}")?;
    match retry_after_ns {
        None => out.write_all(b",\"retry_after_ns\":null")?,
        Some(wait) => write!(out, ",\"retry_after_ns\":{wait}")?,
    }
    write!(out, ",\"reset_after_ns\":{reset_after_ns},\"delay_ns\":{delay_ns},\"never\":{never}")?;
    if let Some(charged) = answer.charged {
        write!(out, ",\"charged\":{charged}")?;
    }
    if !limits.is_empty() {
        out.write_all(b",\"refused_by\":")?;
        if allowed {
            out.write_all(b"null")?;
        } else {
            let limits: Vec<&str> = answer.refused_by.iter().map(|&i| &*limits[i]).collect();
            serde_json::to_writer(&mut *out, &limits)?;
        }
    }
    Ok(())
}
