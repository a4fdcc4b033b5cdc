//! The parts of a saved state: numbers, texts, and limiters in pieces, with a checksum.
//!
//! When would I want this? To keep a state of your own beside that of the rules, in one file:
//! [`LiveRules::save`](crate::LiveRules::save) is written in these parts.
//!
//! All numbers are little-endian. A text, and bytes, are their length, a u32, and themselves.
//!
//! # Examples
//!
//! ```
//! use tollgate_rules::RestoreError;
//! use tollgate_rules::saved::{Summed, read_number, read_text, write_bytes};
//!
//! let mut saved = Vec::new();
//! let mut out = Summed::new(&mut saved);
//! write_bytes(&mut out, b"per-client")?;
//! out.finish()?;
//!
//! let mut input = Summed::new(&saved[..]);
//! assert_eq!(read_text(&mut input)?, "per-client");
//! assert!(input.is_right()?);
//! assert!(matches!(read_number(&mut input), Err(RestoreError::Truncated)));
//! # Ok::<(), RestoreError>(())
//! ```

mod error;
mod pieces;
mod summed;

pub use error::{NotRestored, RestoreError, SavedLimits};
pub use pieces::{PieceReader, PieceWriter, read_array, read_bytes, read_number, read_text, write_bytes};
pub use summed::Summed;
