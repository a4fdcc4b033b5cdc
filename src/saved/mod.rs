//! Files of saved limiters, and of what is saved with them.
//!
//! When would I want this? For one file with several limiters, or with settings of your own beside
//! them; and to replace a file so that it is whole after any crash. For one limiter,
//! [`Limiter::save_to`](crate::Limiter::save_to) does all of this. The middleware, rules and the
//! server save in this form.
//!
//! # Examples
//!
//! ```
//! use tollgate::saved::{Format, Reader, Writer};
//! use tollgate::{Limiter, Rate, TokenBucket};
//!
//! const ACCOUNTS: Format = Format { magic: *b"\xA7acct\r\n\x1A", name: "saved accounts" };
//! let builder = || Limiter::builder(TokenBucket::new(Rate::per_hour(5))).per::<str>();
//! let (reads, writes) = (builder().build()?, builder().build()?);
//! assert!(writes.check_n("alice", 4).is_allowed());
//!
//! let mut file = Vec::new();
//! let mut out = Writer::begin(&mut file, ACCOUNTS)?;
//! out.bytes(b"eu-central")?;
//! reads.save_in(&mut out)?;
//! writes.save_in(&mut out)?;
//! out.finish()?;
//!
//! let mut input = Reader::begin(&file[..], ACCOUNTS)?;
//! assert_eq!(input.text()?, "eu-central");
//! input.skip_limiter()?;
//! let writes = builder().restore_from(&mut input)?;
//! input.finish()?;
//! assert_eq!(writes.check("alice").remaining(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The bytes
//!
//! ```text
//!   magic: 8 | version: u32 | block | block | ... | block of no bytes
//!   block:  length: u32 | that many bytes | checksum: u64, of all bytes of the file before it
//! ```
//!
//! Of a limiter, the bytes of all blocks together are a header and records. A record's first byte
//! is its tag:
//!
//! ```text
//!   KEY     fingerprint: u64 | payload: u64 | times: u32 | that many times, newest first: u64 each
//!   SHARED  1 and the last bits of a bucket's fingerprints: u64 | its overflow word's payload: u64
//!   END     the number of KEY records: u64
//! ```
//!
//! The limits have their records one after the other, each with its `END`.

mod blocks;
mod error;
mod file;
mod header;

use std::io::Read;

pub use blocks::{Reader, Writer};
pub use error::RestoreError;
pub use file::replace;
pub(crate) use header::{Header, Naming, Tier, payload, same};

/// How a file begins, and what its errors call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The first bytes. No text file should begin so, and none that is transferred as text.
    pub magic: [u8; 8],
    /// What it is, as in *this is not a saved limiter*: `"a saved limiter"`.
    pub name: &'static str,
}

impl Format {
    /// One limiter: what [`Limiter::save`](crate::Limiter::save) writes.
    pub const LIMITER: Self = Self { magic: *b"\xA7toll\r\n\x1A", name: "a saved limiter" };
}

/// The version that all formats write, and the only one that is read.
pub(crate) const VERSION: u32 = 5;

/// The most bytes in a block, and so the most that the reader allocates at once.
const BLOCK: usize = 1 << 16;

/// The tag of a key.
pub(crate) const KEY: u8 = 1;

/// The tag of a bucket's overflow word.
pub(crate) const SHARED: u8 = 2;

/// The tag of the end.
pub(crate) const END: u8 = 3;

/// Reads the debts to so many limits, and forgets them.
pub(crate) fn skip_debts(input: &mut Reader<impl Read>, limits: usize) -> Result<(), RestoreError> {
    for _ in 0..limits {
        loop {
            match input.byte()? {
                KEY => {
                    let (_fingerprint, _payload) = (input.word()?, input.word()?);
                    for _ in 0..input.half()? {
                        input.word()?;
                    }
                }
                SHARED => {
                    let (_ending, _payload) = (input.word()?, input.word()?);
                }
                END => break,
                _ => return Err(RestoreError::Corrupt),
            }
        }
        let _keys = input.word()?;
    }
    Ok(())
}
