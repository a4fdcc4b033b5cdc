//! Whole numbers, with underscores between digits if that helps to read them.

/// Reads a whole number; the error goes on from "the count".
pub(super) fn whole(text: &str) -> Result<u64, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if !digits || !text.starts_with(|c: char| c.is_ascii_digit()) || text.ends_with('_') {
        return Err(format!("{text:?} is not a whole number, such as 100 or 1_000"));
    }
    text.replace('_', "").parse().map_err(|_| format!("{text:?} is above {}", u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn digits_may_be_grouped() {
        assert_eq!([whole("0"), whole("1_000"), whole("007")], [Ok(0), Ok(1000), Ok(7)]);
        assert_eq!(whole(&u64::MAX.to_string()), Ok(u64::MAX));
        for text in ["", "_1", "1_", "-1", "+1", "1.5", "1e3", "10k", "18446744073709551616"] {
            assert!(whole(text).is_err(), "{text}");
        }
    }
}
