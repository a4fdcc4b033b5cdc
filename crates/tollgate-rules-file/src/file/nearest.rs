//! What the writer of a wrong word may have meant.

/// The candidate that the writer may have meant.
pub(crate) fn nearest<'c>(found: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    if found.len() > 64 {
        return None;
    }
    let near = |candidate: &'c str| {
        let distance =
            strsim::osa_distance(&found.to_ascii_lowercase().replace('-', "_"), &candidate.replace('-', "_"));
        let most = found.chars().count().max(candidate.len()).div_ceil(3);
        (distance <= most).then_some((distance, candidate))
    };
    candidates.filter_map(near).min().map(|(_, candidate)| candidate)
}
