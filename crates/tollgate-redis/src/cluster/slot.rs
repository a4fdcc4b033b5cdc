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

/// A name of this form that lies in `slot`: `prefix:{k:#probe7}:probe`. No key of a client has it.
pub(crate) fn name_within(prefix: &str, slot: u16) -> String {
    let name = |number| format!("{prefix}:{{k:#probe{number}}}:probe");
    // One of 16,384 names is in the slot, so this many tries fail once in e^61.
    let found = (0..1_000_000_u32).map(name).find(|name| of_name(name.as_bytes()) == slot);
    found.unwrap_or_else(|| name(0))
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
    fn each_slot_has_a_name() {
        for slot in [0, 1, 5_461, SLOTS - 1] {
            assert_eq!(of_name(name_within("tg1", slot).as_bytes()), slot);
        }
    }
}
