//! The slot of a name: which part of a cluster's keys it belongs to.

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a name: of what stands within its first braces, or of all of it.
pub(crate) fn of_name(name: &[u8]) -> u16 {
    let tag = name.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &name[open + 1..];
        let close = rest.iter().position(|&byte| byte == b'}')?;
        (close > 0).then_some(&rest[..close])
    });
    crc16(tag.unwrap_or(name)) % SLOTS
}

/// A name of this form that lies in `slot`: `prefix:{k:#probe0110100111010001}:probe`. No key of a
/// client has it.
///
/// The checksum is linear: a digit that is 1 instead of 0 flips the same bits beside any other
/// digits. No 16 digits in a row flip bits that cancel out, so the digits for a slot are
/// the solution of linear equations.
pub(crate) fn name_within(prefix: &str, slot: u16) -> String {
    let name = |digits: u16| format!("{prefix}:{{k:#probe{digits:016b}}}:probe");
    let slot_of = |digits| of_name(name(digits).as_bytes());
    let digits = (0..16).map(|digit| 1 << digit);
    let mut flips: Vec<(u16, u16)> = digits.map(|digit| (slot_of(digit) ^ slot_of(0), digit)).collect();
    let (mut wrong, mut digits) = (slot ^ slot_of(0), 0);
    for bit in (0..SLOTS.ilog2()).rev() {
        let has_bit = |bits: u16| bits >> bit & 1 == 1;
        let Some(place) = flips.iter().position(|&(bits, _)| has_bit(bits)) else { continue };
        let (bits, by) = flips.swap_remove(place);
        for other in flips.iter_mut().filter(|(bits, _)| has_bit(*bits)) {
            *other = (other.0 ^ bits, other.1 ^ by);
        }
        if has_bit(wrong) {
            (wrong, digits) = (wrong ^ bits, digits ^ by);
        }
    }
    name(digits)
}

/// CRC-16/XMODEM, by which a cluster spreads its keys.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_servers() {
        // From `CLUSTER KEYSLOT`; the first is the check value of the specification.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (name, slot) in [("foo", 12_182), ("somekey", 11_058), ("foo{hash_tag}", 2_515)] {
            assert_eq!(of_name(name.as_bytes()), slot, "{name}");
        }
        assert_eq!(of_name(b"a{foo}b{bar}"), of_name(b"foo"));
        assert_eq!(of_name(b"a{}b{foo}"), crc16(b"a{}b{foo}") % SLOTS, "an empty tag is none");
        assert_eq!(of_name(b"a{b"), crc16(b"a{b") % SLOTS);
    }

    #[test]
    fn each_slot_has_a_name_that_needs_no_search() {
        for slot in 0..SLOTS {
            let name = name_within("tg1", slot);
            assert_eq!((of_name(name.as_bytes()), name.len()), (slot, 36), "{name}");
        }
    }
}
