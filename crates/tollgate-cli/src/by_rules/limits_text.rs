//! Limits as texts, as files write them.

use std::time::Duration;

use tollgate_rules::{Limit, Limits, Mode};

/// The limits of a rule or a tier.
pub(crate) fn limits_text(limits: &Limits) -> String {
    match limits {
        Limits::Each(each) => each.iter().map(limit_text).collect::<Vec<_>>().join(" and "),
        Limits::Unlimited => "unlimited".to_owned(),
        Limits::Block => "block".to_owned(),
        Limits::PerRequest => "of each request".to_owned(),
        Limits::Elsewhere => "decided elsewhere".to_owned(),
    }
}

/// A limit.
pub(crate) fn limit_text(limit: &Limit) -> String {
    match limit {
        Limit::Quota(quota) => quota.to_string(),
        Limit::InFlight { most, ttl: None } => format!("in-flight:{most}"),
        Limit::InFlight { most, ttl: Some(ttl) } => format!("in-flight:{most},ttl={}", time_text(*ttl)),
    }
}

/// A length of time in its largest whole unit.
pub(crate) fn time_text(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units: [(u128, &str); 7] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let (unit, name) =
        units.into_iter().find(|(unit, _)| nanos > 0 && nanos.is_multiple_of(*unit)).unwrap_or((1, "s"));
    format!("{}{name}", nanos / unit)
}

/// The mode as people name it.
pub(crate) fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforced",
        Mode::Shadow => "shadow",
        Mode::Off => "off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_largest_whole_unit() {
        for (nanos, text) in [(0, "0s"), (1, "1ns"), (1_500_000_000, "1500ms"), (90_000_000_000, "90s")] {
            assert_eq!(time_text(Duration::from_nanos(nanos)), text);
        }
        assert_eq!(time_text(Duration::from_secs(600)), "10min");
        assert_eq!(time_text(Duration::from_secs(172_800)), "2d");
    }
}
