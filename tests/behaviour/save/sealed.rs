//! Files of a limiter taken apart and put together again with valid checksums.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// The beginning of a file, with the number of the format.
const OPENING: &[u8; 12] = b"\xA7toll\r\n\x1A\x05\0\0\0";

/// Returns the concatenated content of the blocks.
pub(crate) fn body(file: &[u8]) -> Vec<u8> {
    let (mut body, mut rest) = (Vec::new(), &file[OPENING.len()..]);
    while let Some((len, after)) = rest.split_first_chunk::<4>() {
        let (bytes, after) = after.split_at(u32::from_le_bytes(*len) as usize);
        body.extend_from_slice(bytes);
        rest = &after[8..];
    }
    body
}

/// Returns a file with this content and valid checksums.
pub(crate) fn sealed(body: &[u8]) -> Vec<u8> {
    let mut file = OPENING.to_vec();
    let mut sum = SipHasher13::new();
    sum.write(&file);
    for block in body.chunks(1 << 16).chain([&[][..]]) {
        let len = (block.len() as u32).to_le_bytes();
        sum.write(&len);
        sum.write(block);
        file.extend_from_slice(&[&len, block, &sum.finish().to_le_bytes()].concat());
    }
    file
}
