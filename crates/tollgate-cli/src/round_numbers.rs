//! Round numbers, evenly spaced on a logarithmic scale: 1, 2, 5, 10, 20, 50, ...

/// The round numbers from the last one at or below `from` to the first one at or above `to`.
#[must_use]
pub fn round_numbers(from: u64, to: u64) -> Vec<u64> {
    let decades = std::iter::successors(Some(1_u64), |decade| decade.checked_mul(10));
    let all: Vec<u64> = decades.flat_map(|d| [1, 2, 5].map(|m| d.saturating_mul(m))).collect();
    let first = all.iter().rposition(|&number| number <= from).unwrap_or(0);
    let last = all.iter().position(|&number| number >= to).unwrap_or(all.len() - 1);
    all[first..=last.max(first)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::round_numbers;

    #[test]
    fn the_numbers_enclose_the_range() {
        assert_eq!(round_numbers(0, 10), [1, 2, 5, 10]);
        assert_eq!(round_numbers(7, 386), [5, 10, 20, 50, 100, 200, 500]);
        assert_eq!(round_numbers(5, 5), [5]);
        assert_eq!(round_numbers(0, 0), [1]);
        assert_eq!(round_numbers(u64::MAX, u64::MAX).len(), 1);
    }
}
