//! How a connection of HTTP/2 begins, for fuzz targets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::streams::Opening;

/// Reads the first bytes of a connection.
#[derive(Debug)]
pub struct OpeningProbe;

impl OpeningProbe {
    /// The window that a client gives each stream at first, of bytes that arrive in these pieces; 0
    /// if that is not understood.
    pub fn window<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
        let window = Arc::new(AtomicU32::new(0));
        let mut opening = Opening::new(Arc::clone(&window));
        pieces.into_iter().for_each(|piece| opening.arrived(piece));
        window.load(Relaxed)
    }
}
