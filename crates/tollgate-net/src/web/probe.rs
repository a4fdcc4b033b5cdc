//! How connections begin, for fuzz targets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use http::Request;

use super::body::RequestBody;
use super::plain::request;
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

/// Reads requests without hyper.
#[derive(Debug)]
pub struct PlainRequestProbe;

impl PlainRequestProbe {
    /// The request that begins these bytes; `None`: it is not plain.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Request<Bytes>> {
        let (request, _) = request::read(&Bytes::copy_from_slice(bytes))?;
        Some(request.map(|body| match body {
            RequestBody::Whole(body) => body.unwrap_or_default(),
            RequestBody::Arriving(..) => Bytes::new(),
        }))
    }
}
