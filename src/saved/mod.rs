//! The bytes of a saved limiter.
//!
//! ```text
//!   magic: 8 | version: u32 | block | block | ... | block of no bytes
//!   block:  length: u32 | that many bytes | checksum: u64, of everything from the first byte of the file to here
//! ```
//!
//! The blocks' bytes, strung together, are a [`Header`] and records, each with its tag in the first byte:
//!
//! ```text
//!   KEY     name: u64 | payload: u64 | times: u32 | that many times, newest first: u64 each
//!   SHARED  what the names of a bucket's keys end in, behind a 1: u64 | payload of its overflow word: u64
//!   END     how many KEY records there were: u64
//! ```
//!
//! Several limits have their records one after the other, each with its `END`.
//!
//! All numbers are little-endian. Nothing is read as anything before the checksum of its block has been found right,
//! and what a length says is believed only as far as the bytes go.

mod blocks;
mod error;
mod header;

pub(crate) use blocks::{Reader, Writer};
pub use error::RestoreError;
pub(crate) use header::{Header, Kind, Naming, payload, same};

/// The version written, and the only one read.
pub(crate) const VERSION: u32 = 1;

/// How every saved limiter begins: no text file does, and a transfer that changes line ends is found out.
const MAGIC: [u8; 8] = *b"\xA7toll\r\n\x1A";

/// The most bytes in a block, and so the most that a length can ask for at once.
const BLOCK: usize = 1 << 16;

/// A key.
pub(crate) const KEY: u8 = 1;

/// A bucket's overflow word.
pub(crate) const SHARED: u8 = 2;

/// Nothing more.
pub(crate) const END: u8 = 3;
