//! `--decisions` under rules: one JSON object a line for each request.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tollgate_rules::{Rules, Ruling};

use crate::by_rules::{Judgement, Logged};
use crate::failure::Failure;
use crate::ingest::Record;
use crate::replay::answer::nanos;

/// The output of `--decisions`.
pub(super) struct Decisions {
    out: BufWriter<Box<dyn Write>>,
    /// What messages call `out`.
    what: String,
    /// The rules' names.
    rules: Vec<Box<str>>,
    /// The files if there are several, else empty.
    files: Vec<String>,
}

impl Decisions {
    /// Opens `path`; `-` is standard output.
    ///
    /// # Errors
    ///
    /// When the file cannot be created.
    pub(super) fn create(path: &Path, rules: &Rules, files: &[String]) -> Result<Self, Failure> {
        let (out, what): (Box<dyn Write>, String) = if path.as_os_str() == "-" {
            (Box::new(io::stdout()), "standard output".to_owned())
        } else {
            let what = path.display().to_string();
            (Box::new(File::create(path).map_err(Failure::writing(&what))?), what)
        };
        let rules = rules.rules.iter().map(|rule| rule.name.clone()).collect();
        let files = if files.len() > 1 { files.to_vec() } else { Vec::new() };
        Ok(Self { out: BufWriter::with_capacity(1 << 16, out), what, rules, files })
    }

    /// Writes the line of one request.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(super) fn write(
        &mut self,
        record: &Record<'_>,
        logged: &Logged<'_>,
        judgement: &Judgement<'_>,
    ) -> Result<(), Failure> {
        self.line(record, logged, judgement).map_err(Failure::writing(&self.what))
    }

    /// Writes out the buffer.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::writing(&self.what))
    }

    fn line(
        &mut self,
        record: &Record<'_>,
        logged: &Logged<'_>,
        judgement: &Judgement<'_>,
    ) -> io::Result<()> {
        let out = &mut self.out;
        out.write_all(b"{")?;
        if let Some(file) = self.files.get(record.file) {
            out.write_all(b"\"file\":")?;
            serde_json::to_writer(&mut *out, file)?;
            out.write_all(b",")?;
        }
        let never = judgement.verdict().outcome() == Ruling::Never;
        write!(out, "\"line\":{},\"t_ns\":{},", record.line, logged.t_ns)?;
        write!(out, "\"admitted\":{},\"never\":{never},\"retry_after_ns\":", judgement.is_admitted())?;
        match judgement.verdict().retry_after() {
            None => out.write_all(b"null")?,
            Some(wait) => write!(out, "{}", nanos(wait))?,
        }
        write!(out, ",\"delay_ns\":{}", nanos(judgement.verdict().delay()))?;
        let rules = &self.rules;
        let names = |kept: &dyn Fn(bool, bool) -> bool| -> Vec<&str> {
            let asked = judgement.asked().filter(|asked| kept(asked.refuses, asked.is_shadow));
            asked.map(|asked| &*rules[asked.rule]).collect()
        };
        for (name, kept) in [
            ("asked", &(|_, _| true) as &dyn Fn(bool, bool) -> bool),
            ("refused_by", &|refuses, is_shadow| refuses && !is_shadow),
            ("shadow_refused_by", &|refuses, is_shadow| refuses && is_shadow),
        ] {
            write!(out, ",\"{name}\":")?;
            serde_json::to_writer(&mut *out, &names(kept))?;
        }
        out.write_all(b"}\n")
    }
}
