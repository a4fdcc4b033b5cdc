//! Reads whole numbers, which may have underscores between digits.

use tollgate::Rate;

/// A parser of whole numbers from `least` to `most`, for an option of a command.
pub(crate) fn within<N: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = whole(text)?;
        let fits = (least..=most).contains(&number);
        let number = N::try_from(number).ok().filter(|_| fits);
        number.ok_or_else(|| format!("it must be from {least} to {most}"))
    }
}

/// Reads a whole number as it is written in a rate.
fn whole(text: &str) -> Result<u64, String> {
    let rate: Result<Rate, _> = format!("{text}/s").parse();
    rate.map(Rate::count).map_err(|error| format!("{text:?} is not {}", error.expected().join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::{whole, within};

    #[test]
    fn digits_may_be_grouped() {
        assert_eq!([whole("0"), whole("1_000"), whole("007")], [Ok(0), Ok(1000), Ok(7)]);
        assert_eq!(whole(&u64::MAX.to_string()), Ok(u64::MAX));
        for text in ["", "_1", "1_", "-1", "+1", "1.5", "1e3", "10k", "1/s", "18446744073709551616"] {
            assert!(whole(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_option_names_its_range() {
        let read = within::<u16>(1, 65_535);
        assert_eq!([read("1"), read("6_000"), read("65535")], [Ok(1), Ok(6000), Ok(65_535)]);
        for text in ["0", "65536", "18446744073709551615"] {
            assert_eq!(read(text), Err("it must be from 1 to 65535".to_owned()), "{text}");
        }
    }
}
