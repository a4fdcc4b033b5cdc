//! The files of envoyproxy/ratelimit, unchanged: docs/how-to/envoy.md.
//!
//! ```text
//!   bytes -> yaml (nodes with places) -> fields -> read (one file each) -> trie -> find -> set
//!                                                                           '----> convert
//! ```
//!
//! | file | what |
//! |------|------|
//! | `yaml` | nodes of a document, bounded in size and depth |
//! | `fields` | the fields that there are, and typed access to them |
//! | `read` | descriptors of one file, and all their mistakes |
//! | `limit`, `trie` | what they are compiled to, and the walk from a call to its limit |
//! | `set` | the counts of the limits, and how calls are decided by them |
//! | `convert` | the same as rules in TOML |

mod convert;
mod fields;
mod limit;
mod read;
mod set;
mod trie;
mod yaml;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file::{Code, Files, Holds, Place, Reading, Source};
pub use convert::Converted;
use fields::Reader;
pub use limit::{EnvoyLimit, EnvoyUnit};
use read::Loaded;
pub use set::{
    EnvoyAnswer, EnvoyAsk, EnvoyCallError, EnvoyCharge, EnvoyCode, EnvoyCount, EnvoyDescriptor, EnvoyHandle,
    EnvoyHits, EnvoySet, EnvoyStatus,
};
pub use trie::EnvoyConfig;
use yaml::Yaml;

/// What becomes of two files with the same domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameDomain {
    /// It is an error.
    #[default]
    Refuse,
    /// The domain has the descriptors of both (`MERGE_DOMAIN_CONFIG` of envoyproxy/ratelimit).
    Merge,
}

impl EnvoyConfig {
    /// Reads files of envoyproxy/ratelimit, and finds their mistakes.
    ///
    /// A path of a directory stands for the files in it, sorted by name, except those whose name
    /// begins with a dot. What is not supported is an error that names it; what changes nothing is
    /// a warning. Of a file that is no YAML only the first mistake is found.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_rules_file::{EnvoyConfig, Memory, SameDomain};
    ///
    /// let yaml = "\
    /// domain: messaging
    /// descriptors:
    ///   - key: to_number
    ///     rate_limit: { unit: days, requests_per_unit: 100 }
    /// ";
    /// let source = Memory::new("messaging.yaml", yaml);
    /// let reading = EnvoyConfig::read(&["messaging.yaml"], SameDomain::Refuse, &source);
    /// assert!(reading.rules().is_none());
    /// assert_eq!(
    ///     reading.to_string(),
    ///     "error: \"days\" is no unit of time
    ///  --> messaging.yaml:4:25
    ///   |
    /// 4 |     rate_limit: { unit: days, requests_per_unit: 100 }
    ///   |                         ^^^^ did you mean `day`?
    ///
    /// help: docs/reference/envoy.md#files-theirs-and-here"
    /// );
    /// ```
    ///
    /// # Cost
    ///
    /// Never panics, for any bytes. A file may have 16 MiB, all of them 64 MiB; mappings and lists
    /// may be nested 64 levels deep; aliases count as what they stand for. Parsing takes up to 100
    /// times the bytes of a file in memory.
    #[must_use]
    pub fn read(paths: &[impl AsRef<Path>], same: SameDomain, source: &dyn Source) -> Reading<Self> {
        let mut files = Files::new(source);
        let mut loaded = Loaded::default();
        for path in each_file(paths, source) {
            let Some(file) = files.read(&path, Holds::Envoy, None) else { continue };
            let text = files.text(file);
            match Yaml::parse(&text) {
                Ok(yaml) => {
                    let name: Arc<str> = path.to_string_lossy().into();
                    let mut reader = Reader { files: &mut files, file, yaml: &yaml, told: BTreeSet::new() };
                    reader.file(&name, same, &mut loaded);
                }
                Err(wrong) => {
                    let place = Place { file, span: wrong.span };
                    files.add(&place, wrong.code, wrong.message, wrong.hint);
                }
            }
        }
        for (name, place) in loaded.unknown() {
            let message = format!("no limit of the domain is named `{name}`: nothing is replaced");
            files.add(place, Code::Ignored, message, None::<&str>);
        }
        let rules = (!files.has_errors()).then_some(loaded.config);
        let (problems, hash, paths) = files.finish();
        Reading { rules, problems, hash, paths, copy: Arc::default(), page: Some(Code::Unsupported.page()) }
    }
}

/// The paths, with the files of a directory in its place.
fn each_file(paths: &[impl AsRef<Path>], source: &dyn Source) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        match source.names(path) {
            Ok(mut names) if names.iter().any(|name| !name.starts_with('.')) => {
                names.sort();
                files.extend(names.iter().filter(|name| !name.starts_with('.')).map(|name| path.join(name)));
            }
            // No directory, or one without files: reading it tells which.
            _ => files.push(path.to_owned()),
        }
    }
    files
}
