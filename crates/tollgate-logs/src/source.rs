//! Files and standard input as streams of plain bytes. Gzip is recognised by its first two bytes.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flate2::bufread::MultiGzDecoder;

use crate::error::{LogError, Problem};

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How much compressed data is read at a time.
const COMPRESSED: usize = 64 << 10;

/// A source of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, or anything that can be opened like one.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Source {
    /// `-` is standard input.
    #[must_use]
    pub fn of_argument(argument: PathBuf) -> Self {
        if argument.as_os_str() == "-" { Self::Stdin } else { Self::File(argument) }
    }

    /// Its name in messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
        }
    }

    /// Whether lines must be passed on as they come, because a program may still be writing them.
    pub(crate) fn is_live(&self) -> bool {
        match self {
            Self::File(path) => fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()),
            Self::Stdin => true,
        }
    }

    /// Its size, if known.
    ///
    /// # Errors
    ///
    /// The source cannot be opened.
    pub fn size(&self) -> Result<Option<u64>, LogError> {
        let Self::File(path) = self else { return Ok(None) };
        let size = || {
            let metadata = fs::metadata(path)?;
            if metadata.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            // Opening and closing a pipe here would end its writer.
            metadata.is_file().then(|| File::open(path).map(|_| metadata.len())).transpose()
        };
        size().map_err(|cause| Problem::Open { file: self.name(), cause }.into())
    }

    /// Opens it to read its plain bytes.
    pub(crate) fn open(&self, progress: &Arc<Progress>) -> Result<Box<dyn Read + Send>, Problem> {
        let open = || -> io::Result<Box<dyn Read + Send>> {
            let raw: Box<dyn Read + Send> = match self {
                Self::File(path) => Box::new(File::open(path)?),
                Self::Stdin => Box::new(io::stdin()),
            };
            decompressed(CountingReader { raw, progress: Arc::clone(progress) })
        };
        open().map_err(|cause| Problem::Open { file: self.name(), cause })
    }
}

/// The size of all sources together; `None` when one size is unknown.
///
/// # Errors
///
/// The first source that cannot be opened, before anything is read.
pub(crate) fn total_size(sources: &[Source]) -> Result<Option<u64>, LogError> {
    let sizes: Vec<_> = sources.iter().map(Source::size).collect::<Result<_, _>>()?;
    Ok(sizes.into_iter().sum())
}

/// Reads the first two bytes, and decompresses gzip with any number of members.
fn decompressed(mut raw: CountingReader) -> io::Result<Box<dyn Read + Send>> {
    let mut first = Vec::with_capacity(GZIP.len());
    raw.by_ref().take(GZIP.len() as u64).read_to_end(&mut first)?;
    let is_gzip = first == GZIP;
    let whole = Cursor::new(first).chain(raw);
    if is_gzip {
        Ok(Box::new(MultiGzDecoder::new(BufReader::with_capacity(COMPRESSED, whole))))
    } else {
        Ok(Box::new(whole))
    }
}

/// How much is read; a progress bar may read it at any time.
#[derive(Debug, Default)]
pub struct Progress {
    bytes: AtomicU64,
    /// The size plus one; 0 is unknown.
    total: AtomicU64,
    lines: AtomicU64,
}

impl Progress {
    /// Bytes read of the sources as stored: compressed data counts compressed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The size of all sources; `None` while unknown, and for pipes.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.total.load(Relaxed).checked_sub(1)
    }

    /// Lines that the caller of `read` has consumed.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines.load(Relaxed)
    }

    pub(crate) fn set_total(&self, total: Option<u64>) {
        self.total.store(total.map_or(0, |total| total.saturating_add(1)), Relaxed);
    }

    pub(crate) fn add_lines(&self, lines: u64) {
        self.lines.fetch_add(lines, Relaxed);
    }
}

/// Counts the bytes that are read.
struct CountingReader {
    raw: Box<dyn Read + Send>,
    progress: Arc<Progress>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.raw.read(buffer)?;
        self.progress.bytes.fetch_add(read as u64, Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Temporary, gzip};

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let progress = Arc::new(Progress::default());
        let size = bytes.len() as u64;
        let mut text = Vec::new();
        decompressed(CountingReader { raw: Box::new(Cursor::new(bytes)), progress: Arc::clone(&progress) })?
            .read_to_end(&mut text)?;
        assert_eq!(progress.bytes(), size, "all bytes are counted as stored");
        Ok(text)
    }

    #[test]
    fn gzip_with_any_number_of_members_is_decompressed() {
        assert_eq!(read(gzip(b"one")).expect("whole"), b"one");
        assert_eq!(read([gzip(b"one"), gzip(b""), gzip(b"two")].concat()).expect("whole"), b"onetwo");
    }

    #[test]
    fn plain_bytes_stay_as_they_are() {
        for text in ["", "a", "ab", "abc\n"] {
            assert_eq!(read(text.into()).expect("plain"), text.as_bytes());
        }
    }

    #[test]
    fn sizes_are_summed_and_an_unreadable_file_is_named() {
        let size = |sources: &[Source]| total_size(sources).map_err(|error| error.to_string());
        let (one, two) = (Temporary::new("size-1.log", b"one"), Temporary::new("size-2.log", b"12345"));
        assert_eq!(size(&[one.source(), two.source()]), Ok(Some(8)));
        assert_eq!(size(&[one.source(), Source::Stdin]), Ok(None));
        let missing = Source::File("/no/such/file".into());
        assert!(size(&[Source::Stdin, missing]).expect_err("missing").contains("/no/such/file"));
        let directory = Source::File(std::env::temp_dir());
        assert!(size(&[directory]).expect_err("a directory").contains("directory"));
    }
}
