//! What a scalar without quotes means: as the YAML library of envoyproxy/ratelimit (go-yaml 2,
//! YAML 1.1) reads it.

/// Whether the scalar is null.
pub(in crate::envoy) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// `true` or `false` in one of their spellings.
pub(in crate::envoy) fn flag(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// A whole number: decimal, `0x`, `0o`, `0b`, or octal behind a `0`; `_` between digits.
/// `Err`: it is one, and leaves the range.
pub(in crate::envoy) fn integer(text: &str) -> Option<Result<i128, ()>> {
    let plain = text.replace('_', "");
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if text.starts_with('_') || digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    Some(i128::from_str_radix(digits, radix).map(|number| sign * number).map_err(drop))
}

/// A number with a fraction or an exponent.
pub(in crate::envoy) fn float(text: &str) -> Option<f64> {
    let plain = text.replace('_', "");
    let is_one = plain.contains(|c: char| c.is_ascii_digit())
        && plain.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    plain.parse().ok().filter(|number: &f64| is_one && number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_reference_reads_them() {
        for (text, number) in [
            ("5", 5),
            ("+5", 5),
            ("-3", -3),
            ("1_000", 1000),
            ("010", 8),
            ("0x10", 16),
            ("0b11", 3),
            ("0", 0),
        ] {
            assert_eq!(integer(text), Some(Ok(number)), "{text}");
        }
        for text in ["", "5.0", "1e3", "08", "0x", "five", "5 ", "--5", "_5", "٥"] {
            assert_eq!(integer(text), None, "{text}");
        }
        assert_eq!(integer(&"9".repeat(50)), Some(Err(())));
        assert_eq!(
            (float("1.5"), float("1e3"), float("e"), float(".inf")),
            (Some(1.5), Some(1e3), None, None)
        );
        assert_eq!((flag("yes"), flag("Off"), flag("1")), (Some(true), Some(false), None));
    }
}
