//! Where the bytes of rules files come from.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Where the bytes of a rules file, of the files that it includes, and of its lists come from.
///
/// [`Disk`] reads files, [`Memory`] holds them: tests and replays need no disk.
///
/// # Examples
///
/// Files of the disk, and no environment:
///
/// ```
/// use std::io;
/// use std::path::Path;
/// use tollgate_rules_file::{Disk, Source, read};
///
/// struct NoEnvironment;
///
/// impl Source for NoEnvironment {
///     fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
///         Disk.read(path, most)
///     }
///     fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
///         Disk.names(directory)
///     }
///     fn variable(&self, _: &str) -> Option<String> {
///         None
///     }
/// }
///
/// let reading = read("no-such-file.toml", &NoEnvironment);
/// assert_eq!(reading.problems()[0].code.as_str(), "unreadable");
/// ```
pub trait Source {
    /// Returns the bytes of a file: all, if they are at most `most`, else at least one more.
    ///
    /// # Errors
    ///
    /// Why it cannot be read. The kind and the text are reported with the file's name.
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>>;

    /// Returns the names of the files in a directory, in any order.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Returns the value of an environment variable, `None` if it is not set or not UTF-8.
    fn variable(&self, name: &str) -> Option<String>;

    /// Why a variable is not read that may be set. By default, none is withheld.
    fn withholds(&self, name: &str) -> Option<&'static str> {
        let _ = name;
        None
    }
}

/// The files of this machine and the environment of this process.
///
/// A directory, a pipe or a device in place of a file is an error, and so is a file that is written
/// while it is read.
///
/// # Examples
///
/// ```no_run
/// use tollgate_rules_file::{Disk, read};
///
/// match read("rules.toml", &Disk).into_rules() {
///     Ok(rules) => println!("{} rules", rules.rules.len()),
///     Err(reading) => eprintln!("{reading}"),
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Source for Disk {
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        // Asked before the file is opened: opening a pipe would wait for its writer.
        if !fs::metadata(path)?.is_file() {
            let kind = if path.is_dir() { "a directory" } else { "no regular file" };
            return Err(io::Error::other(format!("it is {kind}")));
        }
        let file = File::open(path)?;
        let before = file.metadata()?;
        let mut bytes = Vec::new();
        (&file).take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        let after = file.metadata()?;
        if before.len() != after.len() || before.modified().ok() != after.modified().ok() {
            return Err(io::Error::other("it was written while it was read"));
        }
        Ok(bytes)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| Some(entry.map(|entry| entry.file_name().into_string()));
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let names = fs::read_dir(directory)?.filter_map(name).collect::<io::Result<Vec<_>>>()?;
        names
            .into_iter()
            .map(|name| name.map_err(|_| io::Error::other("a file's name is not UTF-8")))
            .collect()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Files and environment variables in memory.
///
/// # Examples
///
/// ```
/// use tollgate_rules_file::{Memory, read};
///
/// let rules = "version = 1\nlists.office = { env = \"OFFICE\" }\n[[rule]]\nname = \"office\"\n\
///     match.client = \"@office\"\nkey = \"everyone\"\nlimits = \"unlimited\"\n";
/// let source = Memory::new("rules.toml", rules).variable("OFFICE", "192.0.2.0/24, 2001:db8::/48");
/// let rules = read("rules.toml", &source).into_rules().unwrap();
/// assert_eq!(rules.rules[0].applies[0].0[0].values.networks.len(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(crate) files: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) variables: BTreeMap<String, String>,
}

impl Memory {
    /// One file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::default().file(path, bytes)
    }

    /// And another file.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), bytes.into());
        self
    }

    /// And an environment variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }
}

impl Source for Memory {
    fn read(&self, path: &Path, _: u64) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let inside = self.files.keys().filter(|path| path.parent() == Some(directory));
        let name = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        Ok(inside.filter_map(name).collect())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }
}
