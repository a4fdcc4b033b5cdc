//! `tollgate-bench replay-speed FILE`: how fast is a log replayed, beside a tool that only counts it, and one that only reads it?
//! The answer is a page of Markdown.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::build;
use crate::fault::Fault;
use crate::machine::{Machine, said};
use crate::measure::Spread;

/// A limit that has work to do: most clients of most logs meet it now and then.
const LIMIT: &str = "token-bucket:60/min,burst=20";
/// What is to be reached, in times as fast as goaccess.
const TARGET: f64 = 10.0;

/// Somebody who reads the file.
struct Reader {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    /// In seconds.
    took: Vec<f64>,
}

impl Reader {
    fn new(name: &'static str, program: impl Into<PathBuf>, arguments: &str, file: &str) -> Self {
        let words = arguments.split(' ').map(|word| if word == "FILE" { file } else { word });
        let arguments = words.map(str::to_owned).collect();
        Self { name, program: program.into(), arguments, took: Vec::new() }
    }

    /// Reads it once.
    fn read(&mut self) -> Result<(), Fault> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let begun = Instant::now();
        let output = command.output().map_err(|error| Fault::Tool(format!("{}: {error}", self.name)))?;
        self.took.push(begun.elapsed().as_secs_f64());
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(Fault::Tool(format!("{} ended with {}: {why}", self.name, output.status)))
    }
}

/// Each reads the file so many times.
pub(crate) fn run(file: &str, runs: usize) -> Result<ExitCode, Fault> {
    if Path::new(file).extension().is_some_and(|extension| extension == "gz") {
        return Err(Fault::unfit(Path::new(file), "unpack it first, so that all read the same bytes"));
    }
    let bytes = fs::metadata(file).map_err(|error| Fault::file(Path::new(file), error))?.len();
    let report = std::env::temp_dir().join(format!("replay-speed-{}.html", std::process::id()));
    let counts =
        format!("FILE --no-global-config --no-progress --log-format=COMBINED --output={}", report.display());
    let mut readers = vec![
        Reader::new(
            "tollgate replay",
            build::release("--package tollgate-cli")?,
            &format!("replay FILE --limit {LIMIT} --json"),
            file,
        ),
        Reader::new("wc -l", "wc", "-l FILE", file),
    ];
    if build::works("goaccess", &["--version"]) {
        readers.insert(1, Reader::new("goaccess", "goaccess", &counts, file));
    } else {
        eprintln!("There is no goaccess here (apt install goaccess), so it takes no part.");
    }
    // Once that nobody times, so that the file is in memory for all. Then in turn.
    for run in 0..=runs {
        for reader in &mut readers {
            reader.read()?;
            if run == 0 {
                reader.took.clear();
            }
        }
    }
    let _ = fs::remove_file(report);
    Ok(told(&mut readers, bytes as f64 / 1e6, runs))
}

/// Prints the page. Fails when goaccess took part and the target is missed.
fn told(readers: &mut [Reader], megabytes: f64, runs: usize) -> ExitCode {
    println!("# Replaying a log, beside goaccess and `wc -l`\n");
    println!(
        "Written by `tollgate-bench replay-speed FILE`, and never by hand. A log of {megabytes:.1} MB in Combined"
    );
    println!("format, in memory already; whole commands, medians of {runs} runs in turn.\n");
    println!("{}", Machine::now().lines());
    let goaccess = said("goaccess", &["--version"]).unwrap_or_default();
    println!("* {}", goaccess.lines().next().unwrap_or_default());
    println!(
        "* `tollgate replay FILE --limit {LIMIT} --json`, `goaccess FILE --log-format=COMBINED` to a page.\n"
    );
    println!("| | seconds | range | MB a second | by tollgate's time |\n|---|---|---|---|---|");
    let own = Spread::of(readers[0].took.clone()).median;
    let mut is_met = true;
    for reader in readers {
        reader.took.sort_by(f64::total_cmp);
        let middle = Spread::of(reader.took.clone()).median;
        let (least, most) = (reader.took[0], reader.took[reader.took.len() - 1]);
        let (name, speed, ratio) = (reader.name, megabytes / middle, middle / own);
        println!("| {name} | {middle:.3} | {least:.3} .. {most:.3} | {speed:.0} | {ratio:.1} |");
        is_met &= name != "goaccess" || ratio >= TARGET;
    }
    println!("\nTarget: {TARGET} times as fast as goaccess: {}.", if is_met { "met" } else { "**missed**" });
    ExitCode::from(u8::from(!is_met))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_file_is_refused_before_anything_is_built() {
        assert!(run("access.log.gz", 1).is_err_and(|why| why.to_string().contains("unpack")));
        assert!(run("no such file", 1).is_err_and(|why| why.to_string().contains("no such file")));
    }
}
