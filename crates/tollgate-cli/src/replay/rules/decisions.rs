//! `--decisions` under rules: one JSON object a line for each request.

use std::io::{self, Write};
use std::path::Path;

use tollgate_rules::{Rules, Ruling};

use crate::by_rules::{At, Judgement, Logged};
use crate::failure::Failure;
use crate::replay::answer::nanos;
use crate::replay::lines::{Lines, Out};

/// The output of `--decisions`.
pub(super) struct Decisions {
    lines: Lines,
    /// The rules' names.
    rules: Vec<Box<str>>,
}

impl Decisions {
    /// Opens `path`; `-` is standard output.
    ///
    /// # Errors
    ///
    /// When the file cannot be created.
    pub(super) fn create(path: &Path, rules: &Rules, files: &[String]) -> Result<Self, Failure> {
        let rules = rules.rules.iter().map(|rule| rule.name.clone()).collect();
        Ok(Self { lines: Lines::create(path, files)?, rules })
    }

    /// Writes the line of one request.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(super) fn write(
        &mut self,
        (file, line): At,
        logged: &Logged<'_>,
        judgement: &Judgement<'_>,
    ) -> Result<(), Failure> {
        let Self { lines, rules } = self;
        lines.write(file, line, |out| fields(out, rules, logged, judgement))
    }

    /// Writes out the buffer.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.lines.flush()
    }
}

/// Writes what a line says of a request.
fn fields(
    out: &mut Out,
    rules: &[Box<str>],
    logged: &Logged<'_>,
    judgement: &Judgement<'_>,
) -> io::Result<()> {
    let never = judgement.verdict().outcome() == Ruling::Never;
    write!(out, ",\"t_ns\":{},", logged.t_ns)?;
    write!(out, "\"admitted\":{},\"never\":{never},\"retry_after_ns\":", judgement.is_admitted())?;
    match judgement.verdict().retry_after() {
        None => out.write_all(b"null")?,
        Some(wait) => write!(out, "{}", nanos(wait))?,
    }
    write!(out, ",\"delay_ns\":{}", nanos(judgement.verdict().delay()))?;
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
    Ok(())
}
