//! The marks of an axis, and the format of figures.

/// Returns about five marks from zero to just past `most`, in steps of 1, 2 or 5 times a power of
/// ten. The last mark is the end of the axis.
pub(super) fn straight(most: f64) -> Vec<f64> {
    let rough = most.max(f64::MIN_POSITIVE) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|&step| step >= rough * 0.999);
    let step = step.unwrap_or(power * 10.0);
    let count = (most / step).ceil().max(1.0) as usize;
    (0..=count).map(|mark| mark as f64 * step).collect()
}

/// Returns powers of ten from below `least` to above `most`, both above zero.
pub(super) fn powers(least: f64, most: f64) -> Vec<f64> {
    let (low, high) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    (low..=high.max(low + 1)).map(|power| 10_f64.powi(power)).collect()
}

/// Returns 1, 2 and 5 times powers of ten, from the last at or below `least` to the first at or
/// above `most`.
pub(super) fn fine_powers(least: f64, most: f64) -> Vec<f64> {
    let all = powers(least, most).into_iter().flat_map(|power| [1.0, 2.0, 5.0].map(|digit| power * digit));
    let all: Vec<f64> = all.collect();
    let first = all.iter().rposition(|&mark| mark <= least).unwrap_or(0);
    let last = all.iter().position(|&mark| mark >= most).unwrap_or(all.len() - 1);
    all[first..=last.max(first + 1)].to_vec()
}

/// Formats a figure: `9.5`, `64.9`, `318`, `1,204`.
pub(super) fn figure(value: f64) -> String {
    if value < 99.95 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a mark of an axis: whole numbers without `.0`.
pub(super) fn mark(value: f64) -> String {
    figure(value).trim_end_matches(".0").to_owned()
}

/// Formats nanoseconds in a suitable unit: `100 ns`, `10 µs`.
pub(super) fn time(nanos: f64) -> String {
    match nanos {
        ..1e3 => format!("{nanos:.0} ns"),
        ..1e6 => format!("{:.0} µs", nanos / 1e3),
        ..1e9 => format!("{:.0} ms", nanos / 1e6),
        _ => format!("{:.0} s", nanos / 1e9),
    }
}

/// Formats a number of keys: `1`, `1k`, `10M`.
pub(super) fn count(keys: f64) -> String {
    match keys {
        ..1e3 => format!("{keys:.0}"),
        ..1e6 => format!("{:.0}k", keys / 1e3),
        _ => format!("{:.0}M", keys / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_begin_at_zero_and_end_past_the_largest() {
        for most in [0.3, 1.0, 9.5, 10.0, 64.9, 318.0, 1e6] {
            let marks = straight(most);
            let last = marks[marks.len() - 1];
            assert!(
                marks[0] == 0.0 && last >= most && last < most * 2.0 && marks.len() <= 8,
                "{most}: {marks:?}"
            );
        }
        assert_eq!(straight(9.5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn powers_enclose_what_is_drawn() {
        assert_eq!(powers(20.0, 4_000.0), [10.0, 100.0, 1_000.0, 10_000.0]);
        assert_eq!(powers(100.0, 100.0), [100.0, 1_000.0]);
        assert_eq!(fine_powers(9.5, 318.0), [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!(fine_powers(10.0, 10.0), [10.0, 20.0]);
    }

    #[test]
    fn figures_have_separators_and_few_digits() {
        assert_eq!([9.54, 64.9, 99.96, 1_204.4].map(figure), ["9.5", "64.9", "100", "1,204"]);
        assert_eq!([0.0, 0.5, 20.0].map(mark), ["0", "0.5", "20"]);
        assert_eq!([100.0, 1e4, 1e6].map(time), ["100 ns", "10 µs", "1 ms"]);
        assert_eq!([1.0, 1e3, 1e7, 1e8].map(count), ["1", "1k", "10M", "100M"]);
    }
}
