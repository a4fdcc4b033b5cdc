//! The bytes of a saved limiter.
//!
//! ```text
//!   magic: 8 | version: u32 | block | block | ... | block of no bytes
//!   block:  length: u32 | that many bytes | checksum: u64, of all bytes of the file before it
//! ```
//!
//! The bytes of all blocks together are a [`Header`] and records. A record's first byte is its tag:
//!
//! ```text
//!   KEY     fingerprint: u64 | payload: u64 | times: u32 | that many times, newest first: u64 each
//!   SHARED  1 and the last bits of a bucket's fingerprints: u64 | its overflow word's payload: u64
//!   END     the number of KEY records: u64
//! ```
//!
//! The limits have their records one after the other, each with its `END`.
//!
//! All numbers are little-endian. The reader checks the checksum of a block before it interprets a
//! byte of it, and allocates no more for a length than there are bytes.

mod blocks;
mod error;
mod file;
mod header;

pub(crate) use blocks::{Reader, Writer};
pub use error::RestoreError;
pub(crate) use file::replace;
pub(crate) use header::{Header, Kind, Naming, Tier, payload, same};

/// The version written, and the only one read.
pub(crate) const VERSION: u32 = 4;

/// The first bytes of a saved limiter. No text file begins so, and a transfer that converts line
/// ends changes them.
const MAGIC: [u8; 8] = *b"\xA7toll\r\n\x1A";

/// The most bytes in a block, and so the most that the reader allocates at once.
const BLOCK: usize = 1 << 16;

/// The tag of a key.
pub(crate) const KEY: u8 = 1;

/// The tag of a bucket's overflow word.
pub(crate) const SHARED: u8 = 2;

/// The tag of the end.
pub(crate) const END: u8 = 3;
