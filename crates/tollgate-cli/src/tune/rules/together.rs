//! The smallest counts of limits that keys must pass together.

/// Of each limit the count that `keep` keys need, if all limits of a rule have theirs. None of the
/// counts can be smaller beside the others. `needs` has of each limit what each key needs, the keys
/// in one order; `u64::MAX`: no count is enough.
pub(super) fn smallest_together(needs: &[Vec<u64>], keep: usize) -> Vec<u64> {
    let keys = needs.first().map_or(0, Vec::len);
    let sorted = |needs: &Vec<u64>| {
        let mut sorted = needs.clone();
        sorted.sort_unstable();
        sorted
    };
    // A key comes as late as by the limit of which it needs most, compared with the other keys.
    let mut ranks = vec![0; keys];
    for needs in needs {
        let sorted = sorted(needs);
        for (rank, need) in ranks.iter_mut().zip(needs) {
            *rank = sorted.partition_point(|other| other < need).max(*rank);
        }
    }
    let mut first: Vec<usize> = (0..keys).collect();
    first.sort_by_key(|&key| ranks[key]);
    first.truncate(keep);
    let most = |needs: &Vec<u64>| first.iter().map(|&key| needs[key]).max().unwrap_or(1);
    let mut counts: Vec<u64> = needs.iter().map(most).collect();
    // Of the keys that the other limits leave untouched there may be more, which need less here.
    for limit in 0..needs.len() {
        let is_left = |&key: &usize| {
            let mut others = needs.iter().zip(&counts).enumerate().filter(|(other, _)| *other != limit);
            others.all(|(_, (needs, count))| needs[key] <= *count)
        };
        let left = sorted(&(0..keys).filter(is_left).map(|key| needs[limit][key]).collect());
        counts[limit] = keep.checked_sub(1).map_or(1, |last| left[last]);
    }
    counts
}

#[cfg(test)]
mod tests {
    use tollgate_testing::random::Random;

    use super::*;

    fn untouched(needs: &[Vec<u64>], counts: &[u64]) -> usize {
        let passes = |key: &usize| needs.iter().zip(counts).all(|(needs, count)| needs[*key] <= *count);
        (0..needs[0].len()).filter(passes).count()
    }

    #[test]
    fn enough_keys_pass_and_no_count_can_be_smaller() {
        let mut random = Random::with_seed(1);
        for _ in 0..2_000 {
            let (limits, keys) = (random.u64(1..=3), random.u64(1..=12));
            let needs: Vec<Vec<u64>> =
                (0..limits).map(|_| (0..keys).map(|_| random.u64(1..=9)).collect()).collect();
            let keep = random.u64(..keys + 1) as usize;
            let counts = smallest_together(&needs, keep);
            assert!(untouched(&needs, &counts) >= keep, "{needs:?}: {counts:?} for {keep}");
            for limit in 0..counts.len() {
                let mut fewer = counts.clone();
                fewer[limit] -= 1;
                let is_least = fewer[limit] == 0 || untouched(&needs, &fewer) < keep;
                assert!(is_least, "{needs:?}: {counts:?} for {keep}");
            }
        }
    }

    #[test]
    fn a_key_that_no_count_suffices_is_left_out() {
        let needs = [vec![3, u64::MAX, 5], vec![2, 1, u64::MAX]];
        assert_eq!(smallest_together(&needs, 1), [3, 2]);
        assert_eq!(smallest_together(&needs, 2)[1].max(smallest_together(&needs, 2)[0]), u64::MAX);
        assert_eq!(smallest_together(&[vec![], vec![]], 0), [1, 1]);
    }
}
