//! Numbers of bytes: `65536`, `64KiB`, `10MB`.

use crate::spec::within;

/// The units of bytes.
const UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Reads a number of bytes up to `most`, with a unit or without.
pub(super) fn bytes<N: TryFrom<u64>>(
    most: u64,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    move |text| {
        let bytes = bytes_of(text)?;
        let number = N::try_from(bytes).ok().filter(|_| bytes <= most);
        number.ok_or_else(|| format!("it must be from 0 to {most} bytes"))
    }
}

fn bytes_of(text: &str) -> Result<u64, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let factor = UNITS.iter().find(|(name, _)| unit.is_empty() || *name == unit).map(|(_, factor)| *factor);
    let bytes = within::<u64>(0, u64::MAX)(number.trim_end())
        .ok()
        .zip(factor)
        .map(|(number, factor)| number.checked_mul(factor));
    match bytes {
        Some(Some(bytes)) => Ok(bytes),
        Some(None) => Err(format!("{text:?} is too large")),
        None => {
            let units = UNITS.map(|(name, _)| name).join(", ");
            Err(format!("{text:?} is no number of bytes, such as 65536, 64KiB or 10MB (units: {units})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes_of;

    #[test]
    fn bytes_may_have_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("65_536", 65_536),
            ("10MB", 10_000_000),
            ("64KiB", 65_536),
            ("1 GiB", 1 << 30),
            ("7B", 7),
        ] {
            assert_eq!(bytes_of(text), Ok(bytes), "{text}");
        }
        for text in ["10mb", "10M", "MB", "1.5MB", "-1", "1e3", ""] {
            let error = bytes_of(text).unwrap_err();
            assert!(error.contains("such as 65536, 64KiB or 10MB (units: B, kB, MB, "), "{error}");
        }
        assert_eq!(
            bytes_of("18446744073709551615GiB"),
            Err("\"18446744073709551615GiB\" is too large".into())
        );
    }
}
