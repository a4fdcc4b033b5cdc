//! The top of the page: the finding in one sentence, and the key figures.

use std::fmt;

use super::contents::Report;
use super::figures::{counted, grouped, mean, percent, rate, span};
use super::over_time::{bar_name, widest_bars};
use super::timeline::Tally;

/// The finding in one sentence, with its share in bold.
pub(super) fn sentence(report: &Report<'_>) -> String {
    let Report { requests, denied, keys, .. } = *report;
    let keys_denied = report.refused_keys.len() as u64;
    match (requests, denied) {
        (0, _) => "There was nothing to decide: no request was read.".to_owned(),
        (_, 0) => format!(
            "<b>No request would have been refused</b>: all {} by {} stay within the limits.",
            counted(requests, "request"),
            counted(keys, "key")
        ),
        _ => format!(
            "<b>{}</b> of {} would have been refused; {}.",
            percent(denied, requests),
            counted(requests, "request"),
            match (keys_denied, keys) {
                (1, 1) => "all came from one key".to_owned(),
                (some, all) if some == all =>
                    format!("each of {} keys was refused at least once", grouped(all)),
                (1, all) => format!("1 of {} keys was ever refused", grouped(all)),
                (some, all) => format!("{} of {} keys were ever refused", grouped(some), grouped(all)),
            }
        ),
    }
}

/// The key figures: name, number, and a note that puts the number in proportion.
pub(super) struct Figures<'a>(pub(super) &'a Report<'a>);

impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { requests, allowed, denied, keys, .. } = *self.0;
        let keys_denied = self.0.refused_keys.len() as u64;
        let duration = self.duration();
        let pace = match duration {
            0 => "all at one time".to_owned(),
            _ => format!("{} on average over {}", rate(requests, duration), span(duration)),
        };
        f.write_str("<dl class=\"figures\">\n")?;
        figure(f, "Requests", &grouped(requests), &pace)?;
        figure(f, "Allowed", &grouped(allowed), &percent(allowed, requests))?;
        figure(f, "Refused", &grouped(denied), &percent(denied, requests))?;
        figure(f, "Keys", &grouped(keys), &format!("{} requests each on average", mean(requests, keys)))?;
        figure(
            f,
            "Keys ever refused",
            &grouped(keys_denied),
            &format!("{} of keys", percent(keys_denied, keys)),
        )?;
        let bars = widest_bars(self.0.timeline, requests);
        if let Some((index, busiest)) = bars.peak(Tally::requests) {
            let note = format!("requests from {}", bar_name(&bars, index));
            figure(f, &format!("Busiest {}", span(bars.width)), &grouped(busiest.requests()), &note)?;
        }
        f.write_str("</dl>\n")
    }
}

impl Figures<'_> {
    fn duration(&self) -> u64 {
        let Report { first_t_ns, last_t_ns, .. } = *self.0;
        first_t_ns.zip(last_t_ns).map_or(0, |(first, last)| last.saturating_sub(first))
    }
}

fn figure(f: &mut fmt::Formatter<'_>, name: &str, number: &str, note: &str) -> fmt::Result {
    writeln!(f, "<div><dt>{name}</dt><dd><strong>{number}</strong><span>{note}</span></dd></div>")
}
