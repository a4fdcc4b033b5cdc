//! Where the heads of requests begin and end among the bytes of a connection.
//!
//! hyper has no time for a head of HTTP/2: one that begins and never ends would stay until its
//! connection is idle.

use std::sync::Arc;

use super::idle::Activity;
use super::streams::{FRAME, PREFACE};

/// The types of the frames that a head consists of.
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// The flag of its last frame.
const END_HEADERS: u8 = 4;

/// Reads the bytes of a connection, and tells its [`Activity`] of heads.
pub(super) struct Heads {
    activity: Arc<Activity>,
    protocol: Protocol,
}

enum Protocol {
    /// So many bytes of the preface of HTTP/2 have arrived.
    Unknown(usize),
    Http1,
    Http2(Frames),
}

/// Where a connection of HTTP/2 is among its frames.
#[derive(Default)]
struct Frames {
    /// The head of the next frame, as far as it has arrived.
    head: [u8; FRAME],
    known: usize,
    /// The bytes of the current frame that are still to come.
    left: usize,
    /// Whether a head has begun that has not ended.
    is_open: bool,
    /// Whether the current frame is the last one of that head.
    is_last: bool,
}

impl Heads {
    pub(super) fn new(activity: Arc<Activity>) -> Self {
        Self { activity, protocol: Protocol::Unknown(0) }
    }

    /// Bytes have arrived.
    pub(super) fn arrived(&mut self, mut bytes: &[u8]) {
        if let Protocol::Unknown(known) = &mut self.protocol {
            let rest = &PREFACE[*known..];
            let common = bytes.len().min(rest.len());
            if bytes[..common] != rest[..common] {
                self.protocol = Protocol::Http1;
            } else if common < rest.len() {
                *known += common;
                return;
            } else {
                bytes = &bytes[common..];
                self.protocol = Protocol::Http2(Frames::default());
            }
            self.activity.connection_begins();
        }
        match &mut self.protocol {
            Protocol::Unknown(_) => {}
            Protocol::Http1 => self.activity.http1_arrived(),
            Protocol::Http2(frames) => {
                let was_open = frames.is_open;
                let has_ended = frames.arrived(bytes);
                if frames.is_open && (has_ended || !was_open) {
                    self.activity.head_begins();
                } else if has_ended {
                    self.activity.head_ends();
                }
            }
        }
    }
}

impl Frames {
    /// Returns whether a head has ended.
    fn arrived(&mut self, mut bytes: &[u8]) -> bool {
        let mut has_ended = false;
        while !bytes.is_empty() {
            if self.left == 0 {
                let count = bytes.len().min(FRAME - self.known);
                self.head[self.known..][..count].copy_from_slice(&bytes[..count]);
                bytes = &bytes[count..];
                self.known += count;
                if self.known < FRAME {
                    break;
                }
                self.begin();
            }
            let count = bytes.len().min(self.left);
            bytes = &bytes[count..];
            self.left -= count;
            if self.left == 0 && self.is_last {
                (self.is_open, self.is_last, has_ended) = (false, false, true);
            }
        }
        has_ended
    }

    /// The head of a frame is complete.
    fn begin(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.known = 0;
        if matches!(kind, HEADERS | CONTINUATION) {
            (self.is_open, self.is_last) = (true, flags & END_HEADERS != 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn a_head_is_open_until_its_last_frame_is_complete() {
        let whole = frame(HEADERS, END_HEADERS, b"head");
        let (begun, end) = (frame(HEADERS, 1, b"he"), frame(CONTINUATION, END_HEADERS, b"ad"));
        for (bytes, is_open) in [
            (frame(4, 0, b""), false),
            (frame(0, 1, b"body"), false),
            (whole.clone(), false),
            (whole[..12].to_vec(), true),
            (begun.clone(), true),
            ([&begun[..], &end[..10]].concat(), true),
            ([&begun[..], &end].concat(), false),
            (frame(HEADERS, END_HEADERS, b""), false),
            ([&whole[..], &begun].concat(), true),
            ([&begun[..], &end, &frame(0, 1, b"body"), &whole].concat(), false),
        ] {
            for step in [1, 2, 9, bytes.len()] {
                let mut frames = Frames::default();
                let mut ended = 0;
                for part in bytes.chunks(step) {
                    ended += usize::from(frames.arrived(part));
                }
                assert_eq!(frames.is_open, is_open, "{bytes:?} by {step}");
                assert!(is_open || ended > 0 || !bytes[3..4].contains(&HEADERS), "{bytes:?} by {step}");
            }
        }
    }
}
