//! Assembles the page from its sections.

use std::fmt::{self, Display};

use super::calendar::{CalendarTime, DAY, MICROSECOND, SECOND};
use super::concentration::Concentration;
use super::contents::Report;
use super::escape::Text;
use super::figures::{counted, grouped, percent, span};
use super::headline::{Figures, sentence};
use super::over_time::{OverTime, bar_name, widest_bars};
use super::refused_shares::RefusedShares;
use super::top_keys::TopKeys;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("hover.js");

/// Forbids to fetch, send or submit anything, in case the escaping ever fails.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// The hatching of refused bars.
const HATCHING: &str = "<svg class=\"unseen\" aria-hidden=\"true\" width=\"0\" height=\"0\"><defs>\
    <pattern id=\"hatching\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
    patternTransform=\"rotate(45)\"><path d=\"M0 0V5\"/></pattern></defs></svg>\n";

/// The distribution over keys is drawn for at least so many refused keys.
const MIN_DISTRIBUTION: usize = 3;

/// The whole page.
pub(super) struct Page<'a>(pub(super) &'a Report<'a>);

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        write!(
            f,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>Tollgate replay</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n{HATCHING}<main>\n"
        )?;
        writeln!(f, "<header>\n<p class=\"kicker\">Tollgate replay</p>\n<h1>{}</h1>", sentence(report))?;
        if let Some((first, last)) = report.first_t_ns.zip(report.last_t_ns) {
            writeln!(f, "<p class=\"period\">{}</p>", period(first, last))?;
        }
        limits(f, report)?;
        unread(f, report)?;
        f.write_str("</header>\n")?;
        if report.requests > 0 {
            Figures(report).fmt(f)?;
            rules(f, report)?;
            over_time(f, report)?;
        }
        if report.denied > 0 {
            top_keys(f, report)?;
            distribution(f, report)?;
        }
        provenance(f, report)?;
        write!(f, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n")
    }
}

/// The first and the last time in UTC, precise enough to differ.
fn period(first: u64, last: u64) -> String {
    let whole = first.is_multiple_of(SECOND) && last.is_multiple_of(SECOND);
    let resolution = if whole || last.saturating_sub(first) >= SECOND { SECOND } else { MICROSECOND };
    let clock = |t| CalendarTime::at(t).clock(resolution);
    let from = format!("{} {}", CalendarTime::at(first).date(), clock(first));
    if first == last {
        format!("{from} UTC")
    } else if first / DAY == last / DAY {
        format!("{from} to {} UTC", clock(last))
    } else {
        format!("{from} to {} {} UTC", CalendarTime::at(last).date(), clock(last))
    }
}

/// Warns beside the headline when more than 1 % of the log could not be read.
fn unread(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let lines = report.requests.saturating_add(report.malformed);
    if report.malformed > 0 && report.malformed >= lines / 100 {
        let (unread, share) = (counted(report.malformed, "line"), percent(report.malformed, lines));
        writeln!(
            f,
            "<p class=\"warning\">{unread} could not be read: {share} of the log is not in these figures.</p>"
        )?;
    }
    Ok(())
}

fn limits(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let limits = report.limits;
    if limits.is_empty() {
        return writeln!(f, "<p class=\"limits\">No limit</p>");
    }
    let by_rules = !report.rules.is_empty() || !report.undecided.is_empty();
    let name = match limits.len() {
        _ if by_rules => "Keys are clients; rules",
        1 => "Limit",
        _ => "Limits",
    };
    write!(f, "<p class=\"limits\">{name}: ")?;
    for limit in limits {
        write!(f, "<code>{}</code> ", Text(limit))?;
    }
    f.write_str("</p>\n")
}

/// What each rule decided, and which did not.
fn rules(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    if report.rules.is_empty() && report.undecided.is_empty() {
        return Ok(());
    }
    f.write_str("<section>\n<h2>Rules</h2>\n")?;
    if !report.rules.is_empty() {
        write!(
            f,
            "<p class=\"note\">Requests that each rule concerns, and those that it refuses or, in shadow, \
             would.</p>\n{}",
            TopKeys { rows: report.rules, what: "Rule" }
        )?;
    }
    for (rule, reason) in report.undecided {
        writeln!(f, "<p class=\"note\"><code>{}</code> not decided: {}</p>", Text(rule), Text(reason))?;
    }
    f.write_str("</section>\n")
}

fn over_time(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let bars = widest_bars(report.timeline, report.requests);
    let most_denied = bars.peak(|tally| tally.denied).filter(|(_, tally)| tally.denied > 0);
    let finding = match most_denied {
        None => "No request was refused at any time.".to_owned(),
        Some((index, tally)) => format!(
            "Most refusals at a time: {} within {} from {}.",
            grouped(tally.denied),
            span(bars.width),
            bar_name(&bars, index)
        ),
    };
    f.write_str("<section>\n<h2>Over time</h2>\n<figure>\n<figcaption>")?;
    f.write_str("<span class=\"legend\"><span class=\"swatch allowed\"></span>allowed, upwards</span> ")?;
    if report.denied > 0 {
        f.write_str(
            "<span class=\"legend\"><span class=\"swatch refused\"></span>refused, downwards</span> ",
        )?;
    }
    writeln!(f, "<output class=\"readout\">{finding}</output></figcaption>")?;
    OverTime { timeline: report.timeline, requests: report.requests }.fmt(f)?;
    f.write_str("</figure>\n<p class=\"note\">Times are UTC.</p>\n</section>\n")
}

fn top_keys(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let (listed, all) = (report.top.len() as u64, report.refused_keys.len() as u64);
    let which = if listed < all {
        format!("The first {} of {}, by requests refused.", grouped(listed), counted(all, "key"))
    } else {
        "Every key that was ever refused.".to_owned()
    };
    write!(
        f,
        "<section>\n<h2>Most refused keys</h2>\n<p class=\"note\">{which} \
         Bars: <span class=\"legend\"><span class=\"swatch refused\"></span>refused,</span> \
         <span class=\"legend\"><span class=\"swatch allowed\"></span>allowed.</span></p>\n{}</section>\n",
        TopKeys { rows: report.top, what: "Key" }
    )
}

fn distribution(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let refused = report.refused_keys.len();
    let (concentration, shares) =
        (Concentration::of(report.refused_keys), RefusedShares::of(report.refused_keys));
    f.write_str("<section>\n<h2>Distribution of refusals over keys</h2>\n")?;
    if refused < MIN_DISTRIBUTION {
        let others = match report.keys.saturating_sub(refused as u64) {
            0 => "There is no other key in this log.".to_owned(),
            1 => "The one other key was never refused.".to_owned(),
            rest => format!("The {} other keys were never refused.", grouped(rest)),
        };
        return writeln!(f, "<p class=\"note\">{others}</p>\n</section>");
    }
    let rest = match report.keys.saturating_sub(refused as u64) {
        0 => "Every key was refused at least once.".to_owned(),
        1 => "One more key was never refused.".to_owned(),
        rest => format!("{} more keys were never refused.", grouped(rest)),
    };
    write!(
        f,
        "<div class=\"pair\">\n<figure><figcaption>{}</figcaption>\n{concentration}\
         <p class=\"note\">Dashed: if all refused keys had got equally many.</p></figure>\n\
         <figure><figcaption>{}</figcaption>\n{shares}<p class=\"note\">{rest}</p></figure>\n</div>\n</section>\n",
        concentration.sentence(),
        shares.sentence(),
    )
}

/// The command that made the page, and the lines that it does not cover.
fn provenance(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    writeln!(f, "<section>\n<h2>How this was made</h2>\n<pre><code>{}</code></pre>", Text(report.command))?;
    f.write_str("<ul>\n")?;
    let unread = match report.malformed {
        0 => "Every line could be read.".to_owned(),
        1 => "1 line could not be read and was left out.".to_owned(),
        n => format!("{} could not be read and were left out.", counted(n, "line")),
    };
    writeln!(f, "<li>{unread}</li>")?;
    if report.requests > 0 {
        let out_of_order = match report.out_of_order {
            0 => "All records are in the order of time.".to_owned(),
            1 => "1 record was earlier than a record before it and was decided at the latest time so far."
                .to_owned(),
            n => format!(
                "{} were earlier than a record before them and were decided at the latest time so far.",
                counted(n, "record")
            ),
        };
        writeln!(f, "<li>{out_of_order}</li>\n<li>Every request was decided by its own timestamp.</li>")?;
    }
    if let Some(t) = report.generated_unix_ns {
        let made = CalendarTime::at(t);
        writeln!(f, "<li>Made on {} at {} UTC.</li>", made.date(), made.clock(DAY))?;
    }
    f.write_str("</ul>\n</section>\n")
}

#[cfg(test)]
mod tests {
    use super::super::{KeyRow, KeyTally, Timeline, render};

    /// The page of a log in which each key made ten requests, so many of which were refused.
    fn page(keys: &[(&str, u64)], command: &str, limits: &[String]) -> String {
        let mut timeline = Timeline::new();
        let (mut t_ns, mut denied) = (1_768_435_200_000_000_000, 0);
        for (_, refusals) in keys {
            denied += refusals;
            for request in 0..10 {
                timeline.add(t_ns, request >= *refusals);
                t_ns += 1_000_000_000;
            }
        }
        let tally = |denied| KeyTally { requests: 10, denied };
        let refused = || keys.iter().filter(|(_, denied)| *denied > 0);
        let top = refused().map(|&(key, denied)| KeyRow { key, tally: tally(denied) }).collect::<Vec<_>>();
        let requests = keys.len() as u64 * 10;
        render(&super::Report {
            command,
            generated_unix_ns: None,
            limits,
            rules: &[],
            undecided: &[],
            requests,
            allowed: requests - denied,
            denied,
            keys: keys.len() as u64,
            malformed: 0,
            out_of_order: 0,
            first_t_ns: (!keys.is_empty()).then_some(1_768_435_200_000_000_000),
            last_t_ns: (!keys.is_empty()).then_some(t_ns),
            timeline: &timeline,
            top: &top,
            refused_keys: &refused().map(|&(_, denied)| tally(denied)).collect::<Vec<_>>(),
        })
    }

    #[test]
    fn nothing_from_the_log_or_the_command_line_becomes_markup() {
        let evil = "</script></title></style>--><script>alert(1)</script><img src=x onerror='a'>\"";
        let long = evil.repeat(9);
        let page = page(&[(evil, 3), (&long, 2), ("c", 1)], evil, &[evil.to_owned()]);
        for (tag, times) in [("<script", 1), ("</script", 1), ("</style", 1), ("<img", 0), ("-->", 0)] {
            assert_eq!(page.matches(tag).count(), times, "{tag}");
        }
        assert_eq!(page.matches("&lt;script&gt;").count(), 12, "as limit, as command, and in titles");
    }

    #[test]
    fn the_page_asks_nothing_of_the_network() {
        let page = page(&[("a", 3), ("b", 2), ("c", 1)], "tollgate replay", &[]);
        for call in ["http:", "https:", "@import", "src=", "fetch(", "url(//"] {
            assert!(!page.contains(call), "{call}");
        }
        assert_eq!(page.matches("url(").count(), page.matches("url(#hatching)").count());
    }

    #[test]
    fn without_refusals_the_page_says_so_and_lists_no_key() {
        let page = page(&[("a", 0), ("b", 0)], "tollgate replay", &[]);
        assert!(page.contains("No request would have been refused</b>: all 20 requests by 2 keys"));
        assert!(
            page.contains("over-time wide") && !page.contains("<table") && !page.contains("concentration")
        );
    }

    #[test]
    fn an_empty_log_makes_a_page_without_drawings() {
        let page = page(&[], "tollgate replay empty.log", &[]);
        assert!(page.contains("no request was read") && page.contains("empty.log"));
        assert!(!page.contains("over-time-0") && !page.contains("NaN"));
    }

    #[test]
    fn few_refused_keys_are_listed_more_are_also_drawn() {
        let few = page(&[("a", 10), ("b", 0)], "", &[]);
        assert!(few.contains("1 of 2 keys was ever refused") && few.contains("The one other key"));
        assert!(!few.contains("concentration-0"));
        let more = page(&[("a", 10), ("b", 1), ("c", 1)], "", &[]);
        assert!(more.contains("concentration-0") && more.contains("shares-1"));
    }
}
