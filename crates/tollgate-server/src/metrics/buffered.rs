//! The counts of bodies that the proxy reads before it takes an upstream.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::text::Text;

/// The bodies of requests that are held.
#[derive(Debug, Default)]
pub(crate) struct BufferCounts {
    /// How many bytes may be held.
    pub(crate) most: AtomicU64,
    pub(crate) held: AtomicU64,
    /// Bodies that found no room.
    pub(crate) full: AtomicU64,
}

pub(super) fn write(text: &mut Text, counts: &BufferCounts) {
    let families = [
        ("tollgate_buffered_bytes", "gauge", "Bytes of requests' bodies that the proxy holds.", &counts.held),
        ("tollgate_buffered_bytes_max", "gauge", "The most such bytes.", &counts.most),
        ("tollgate_unbuffered_total", "counter", "Bodies that found no room there.", &counts.full),
    ];
    for (name, kind, help, count) in families {
        text.family(name, kind, help);
        text.sample(&[], count.load(Relaxed));
    }
}
