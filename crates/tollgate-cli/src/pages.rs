//! `tollgate completions` and `tollgate man`: what a package installs beside the binary.

use std::path::{Path, PathBuf};

use clap::Command;

use crate::failure::Failure;
use crate::output::print_result;

/// Print completions of the command line for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

/// Print the manual page, or write those of all commands
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Write tollgate.1, tollgate-serve.1 and so on into this directory
    #[arg(long, value_name = "DIRECTORY")]
    all: Option<PathBuf>,
}

/// Prints completions.
///
/// # Errors
///
/// When standard output cannot be written.
pub(crate) fn completions(args: &Completions, mut command: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tollgate", &mut text);
    print_result(&String::from_utf8_lossy(&text))
}

/// Prints or writes manual pages.
///
/// # Errors
///
/// When they cannot be written.
pub(crate) fn man(args: &Man, command: Command) -> Result<(), Failure> {
    let Some(directory) = &args.all else {
        let mut page = Vec::new();
        // A vector takes all.
        let _ = clap_mangen::Man::new(command).render(&mut page);
        return print_result(&String::from_utf8_lossy(&page));
    };
    pages(command, directory).map_err(Failure::writing(directory.display().to_string()))
}

/// Writes the page of a command and of all below it.
fn pages(command: Command, directory: &Path) -> std::io::Result<()> {
    clap_mangen::generate_to(command, directory)
}
