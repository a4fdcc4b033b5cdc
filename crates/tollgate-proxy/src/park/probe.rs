//! What a store reads back, for fuzz targets: another process may have written it, or a damaged
//! disk.

use super::entry::Entry;
use super::kept::Kept;

/// Bytes of a store, read and written again.
#[derive(Debug)]
pub struct ParkProbe;

impl ParkProbe {
    /// Reads a request that is kept. Returns how it is written again, and whether it can be sent.
    #[must_use]
    pub fn request(bytes: &[u8]) -> Option<(Vec<u8>, bool)> {
        let kept = Kept::from_bytes(bytes)?;
        let written = kept.to_bytes();
        Some((written, kept.request().is_ok()))
    }

    /// Reads the record of a request, which then fails, is sent again, and is answered. Returns how
    /// it was written again before that.
    #[must_use]
    pub fn record(bytes: &[u8], now: u64) -> Option<Vec<u8>> {
        let mut entry: Entry = serde_json::from_slice(bytes).ok()?;
        let written = serde_json::to_vec(&entry).ok();
        entry.answer(500, false, now);
        entry.revive(now);
        entry.answer(200, true, now);
        entry.cancel(now);
        written
    }
}
