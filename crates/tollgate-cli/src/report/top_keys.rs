//! Keys or rules, each with a bar whose length is the number of requests; the hatched part
//! was refused. On a narrow page the bar is below the key.

use std::fmt;

use super::contents::KeyRow;
use super::escape::KeyName;
use super::figures::{grouped, percent};

/// The table of the most refused keys, or of rules.
pub(super) struct TopKeys<'a> {
    pub(super) rows: &'a [KeyRow<'a>],
    /// What a row is.
    pub(super) what: &'static str,
}

impl fmt::Display for TopKeys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The narrow layout is no table layout, so screen readers need the roles to see a table.
        write!(
            f,
            "<table role=\"table\" class=\"keys\">\n<thead role=\"rowgroup\"><tr role=\"row\">\
             <th role=\"columnheader\" scope=\"col\">{}</th>\
             <th role=\"columnheader\" scope=\"col\" class=\"number\">Requests</th>\
             <th role=\"columnheader\" scope=\"col\" class=\"number\">Refused</th>\
             <th role=\"columnheader\" scope=\"col\" class=\"number\">Share</th>\
             <th role=\"columnheader\" scope=\"col\"><span class=\"unseen\">Requests, drawn</span></th>\
             </tr></thead>\n<tbody role=\"rowgroup\">\n",
            self.what,
        )?;
        let longest = self.rows.iter().map(|row| row.tally.requests).max().unwrap_or(1).max(1);
        for KeyRow { key, tally } in self.rows {
            write!(
                f,
                "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">{}</th>\
                 <td role=\"cell\" class=\"number\" data-name=\"requests\">{}</td>\
                 <td role=\"cell\" class=\"number\" data-name=\"refused\">{}</td>\
                 <td role=\"cell\" class=\"number\">{}</td>",
                KeyName(key),
                grouped(tally.requests),
                grouped(tally.denied),
                percent(tally.denied, tally.requests),
            )?;
            f.write_str("<td role=\"cell\" class=\"bar\">")?;
            let allowed = tally.requests.saturating_sub(tally.denied);
            for (class, count) in [("refused", tally.denied), ("allowed", allowed)] {
                if count > 0 {
                    let width = count as f64 / longest as f64 * 100.0;
                    write!(f, "<span class=\"{class}\" style=\"width:{width:.2}%\"></span>")?;
                }
            }
            f.write_str("</td></tr>\n")?;
        }
        f.write_str("</tbody></table>\n")
    }
}
