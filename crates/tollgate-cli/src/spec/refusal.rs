//! The engine's refusals of a limit in the words of the command line, with limits that it accepts.

use tollgate::{BuildError, Limiter, Quota, SlidingWindow};

use super::Spec;

/// The message about a refused limit, with accepted limits of the same count where there are any.
pub(crate) fn refusal(spec: Spec, error: &BuildError) -> String {
    let advice = match (spec, error) {
        (
            Spec::SlidingWindow { subwindows: Some(given), .. },
            BuildError::OutOfRange { field: "rate.count", value: 1.., .. },
        ) => with_more_room(spec, given, &format!("with {given} sub-windows")),
        (
            Spec::SlidingWindow { subwindows: Some(given), .. },
            BuildError::OutOfRange { field: "subwindows", .. },
        ) => with_more_room(spec, given, "beside this count"),
        _ => String::new(),
    };
    format!("the limit {spec}: {}{advice}", problem(error))
}

/// The reason of a refusal, with the names of the command line.
pub(crate) fn problem(error: &BuildError) -> String {
    match *error {
        BuildError::OutOfRange { field, value, min, max } => {
            let (name, unit) = match field {
                "rate.count" => ("the count", ""),
                "rate.period" => ("the period", " ns"),
                "max_keys" => ("--max-keys", ""),
                other => (other, ""),
            };
            format!("{name} is {value}{unit}, but must be between {min} and {max}{unit}")
        }
        _ => error.to_string(),
    }
}

/// Limits with the same count and fewer sub-windows: each sub-window leaves fewer bits for counts.
/// `beside` is what the range of the refused number depends on.
fn with_more_room(spec: Spec, given: u32, beside: &str) -> String {
    let Spec::SlidingWindow { rate, count, .. } = spec else { return String::new() };
    let finest = SlidingWindow::finest(rate).count(count);
    let fewer = Quota::from(finest).subwindows().filter(|fit| (2..given).contains(fit));
    let fewer = fewer.map_or(String::new(), |_| format!("\n  {finest}  with fewer sub-windows"));
    let plain = Spec::SlidingWindow { rate, subwindows: None, count };
    let plain = if is_accepted(plain) { format!("\n  {plain}  the estimate") } else { String::new() };
    if fewer.is_empty() && plain.is_empty() {
        return String::new();
    }
    format!(" {beside}. There is room for it in:{fewer}{plain}")
}

fn is_accepted(spec: Spec) -> bool {
    Limiter::builder(spec.quota()).per::<[u8]>().memory().is_ok()
}

#[cfg(test)]
mod tests {
    use tollgate::CountPolicy;

    use super::*;

    fn refused(text: &str) -> String {
        let spec: Spec = text.parse().expect(text);
        let error = Limiter::builder(spec.quota()).per::<[u8]>().memory().expect_err(text);
        refusal(spec, &error)
    }

    /// The limits that an advice offers.
    fn offered(advice: &str) -> Vec<Spec> {
        let limits = advice.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        limits.map(|limit| limit.parse().expect(limit)).collect()
    }

    #[test]
    fn a_count_too_large_for_sub_windows_gets_alternatives() {
        let advice = refused("sliding-window:5000/min,subwindows=12,count=all");
        assert!(advice.contains("subwindows is 12, but must be between 1 and"), "{advice}");
        assert!(advice.contains("beside this count"), "{advice}");
        let offered = offered(&advice);
        assert_eq!(offered.len(), 2, "{advice}");
        let counts_all = |spec| matches!(spec, Spec::SlidingWindow { count: CountPolicy::All, .. });
        assert!(offered.into_iter().all(|spec| counts_all(spec) && is_accepted(spec)), "{advice}");
    }

    #[test]
    fn only_what_has_room_is_offered() {
        let advice = refused("sliding-window:1_000_000_000/min,subwindows=2");
        assert!(advice.contains("subwindows is 2, but must be between 1 and 1 "), "{advice}");
        assert_eq!(offered(&advice).len(), 1, "{advice}");
        assert_eq!(offered(&refused("sliding-window:0/s,subwindows=2")), []);
        assert_eq!(offered(&refused("sliding-window:5/s,subwindows=99")).len(), 2);
    }

    /// It takes no longer the more sub-windows are asked for.
    #[test]
    fn any_number_of_sub_windows_is_advised_at_once() {
        let advice = refused("sliding-window:5/min,subwindows=4294967295");
        assert_eq!(offered(&advice).len(), 2, "{advice}");
        assert_eq!(offered(&refused("sliding-window:8888888828888888/min,subwindows=4294967295")), []);
    }

    #[test]
    fn settings_are_called_what_the_command_line_calls_them() {
        let advice = refused("fixed-window:0/s");
        assert!(advice.starts_with("the limit fixed-window:0/s: the count is 0, but must be"), "{advice}");
        assert!(refused("token-bucket:1/s,burst=0").contains("burst is 0"));
    }
}
