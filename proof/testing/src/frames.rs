//! Frames of HTTP/2 that no client library sends (RFC 9113; RFC 7541, section 6.2.2).

/// The types of frames.
pub const DATA: u8 = 0;
/// A head.
pub const HEADERS: u8 = 1;
/// The end of a stream, before its time.
pub const RESET: u8 = 3;
/// What a side allows.
pub const SETTINGS: u8 = 4;
/// A question whether the other side has read all before it.
pub const PING: u8 = 6;
/// The end of a connection.
pub const GO_AWAY: u8 = 7;
/// More room for data.
pub const WINDOW_UPDATE: u8 = 8;

/// The flags of frames: the stream has no more of them.
pub const END_STREAM: u8 = 1;
/// The answer to a PING or SETTINGS.
pub const ACK: u8 = 1;
/// The head has no more frames.
pub const END_HEADERS: u8 = 4;
/// Both: a request without a body.
pub const WHOLE: u8 = END_STREAM | END_HEADERS;

/// A frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The fields as literals that no table knows.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).ok().filter(|length| *length < 127).expect("it is short"));
            block.extend(text.as_bytes());
        }
    }
    block
}

/// How a connection begins.
pub fn opening() -> Vec<u8> {
    opening_with(&[])
}

/// The same with these settings.
pub fn opening_with(settings: &[u8]) -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, settings)].concat()
}
