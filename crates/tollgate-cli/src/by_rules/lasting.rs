//! When the requests of a log arrive, and how long they last.

use tollgate_logs::{RequestTimes, TimeIs, read_cost, read_duration};

use super::args::LogArgs;
use crate::report::figures::counted;

/// When requests arrive, how long they last, and which durations were assumed.
#[derive(Debug, Default)]
pub(super) struct Lasting {
    /// How long a request lasts of which the log does not say it, in nanoseconds.
    assumed: Option<u64>,
    /// As the option says.
    time_is: Option<TimeIs>,
    /// What the current file says.
    file: RequestTimes,
    /// What the first file with durations says.
    durations: Option<RequestTimes>,
    missing: Notable,
    unreadable: Notable,
    unread_costs: Notable,
    late: Notable,
    /// The longest duration, in nanoseconds, and where it is.
    longest: (u64, Option<At>),
}

/// The file and the line of a request.
pub(crate) type At = (usize, u64);

/// How many lines have something in common, and the first of them.
#[derive(Debug, Default)]
struct Notable {
    count: u64,
    first: Option<(At, String)>,
}

impl Notable {
    fn add(&mut self, at: At, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((at, what()));
        }
    }

    /// The note on them: how many, what, and where the first is.
    fn note(&self, files: &[String], (one, many): (&str, &str)) -> Option<String> {
        let (at, what) = self.first.as_ref()?;
        let count = counted(self.count, "request");
        let verb = if self.count == 1 { one } else { many };
        let what = if what.is_empty() { String::new() } else { format!(": {what}") };
        Some(format!("{count} {verb} (the first in {}{what})", place(files, *at)))
    }
}

/// A line of a log, with its file if there are several.
fn place(files: &[String], (file, line): At) -> String {
    match files {
        [_, _, ..] => format!("{}:{line}", files.get(file).map_or("", String::as_str)),
        _ => format!("line {line}"),
    }
}

impl Lasting {
    pub(super) fn new(args: &LogArgs) -> Self {
        let assumed = args.lasts.map(|lasts| u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX));
        Self { assumed, time_is: args.time_is, ..Self::default() }
    }

    /// Begins a file. Returns whether it has durations.
    pub(super) fn begin_file(&mut self, file: &RequestTimes) -> bool {
        self.file = file.clone();
        let has_durations = file.field.is_some();
        if has_durations && self.durations.is_none() {
            self.durations = Some(file.clone());
        }
        has_durations
    }

    /// Whether the log says how long requests last, or an option does.
    pub(super) fn is_known(&self) -> bool {
        self.durations.is_some() || self.assumed.is_some()
    }

    /// When the request of a line arrives, and how long it lasts: `time` is that of the line,
    /// `text` its duration.
    pub(super) fn times(&mut self, time: u64, text: &[u8], at: impl Fn() -> At) -> (u64, u64) {
        let time_is = self.time_is.unwrap_or(self.file.time_is);
        let assumed = self.assumed.unwrap_or(0);
        if self.durations.is_some() {
            let read = read_duration(text, self.file.unit).and_then(|lasts| {
                let times =
                    lasts.map(|lasts| within_time(time, lasts, time_is).map(|arrives| (arrives, lasts)));
                times.transpose()
            });
            match read {
                Ok(Some((arrives, lasts))) => {
                    if lasts > self.longest.0 {
                        self.longest = (lasts, Some(at()));
                    }
                    return (arrives, lasts);
                }
                Ok(None) => self.missing.add(at(), String::new),
                Err(reason) => {
                    self.unreadable.add(at(), || format!("{:?}, {reason}", excerpt(text)));
                }
            }
        }
        match within_time(time, assumed, time_is) {
            Ok(arrives) => (arrives, assumed),
            Err(_) => (time, 0),
        }
    }

    /// What a request really cost, by the text of its line; `None` if it does not say it.
    pub(super) fn settles(&mut self, text: &[u8], at: impl Fn() -> At) -> Option<u64> {
        if text.is_empty() {
            return None;
        }
        let read = read_cost(text);
        if let Err(reason) = read {
            self.unread_costs.add(at(), || format!("{:?}, {reason}", excerpt(text)));
        }
        read.ok()
    }

    pub(super) fn note_late(&mut self, at: At) {
        self.late.add(at, String::new);
    }

    /// What the user should know of durations. `span` is the log's.
    pub(super) fn notes(&self, files: &[String], span: Option<(u64, u64)>) -> Vec<String> {
        let mut notes = Vec::new();
        let time_is = |times: &RequestTimes| match self.time_is.unwrap_or(times.time_is) {
            TimeIs::Start => "its start",
            TimeIs::End => "its end",
        };
        if let Some(times) = &self.durations {
            let field = times.field.as_deref().unwrap_or_default();
            let unit = times.unit.map_or(String::new(), |unit| format!(", in {unit}"));
            let time_is = time_is(times);
            notes.push(format!(
                "{field} says how long a request lasts{unit}; the time of its line is {time_is}"
            ));
        }
        let without = match self.assumed {
            Some(_) => "as --lasts says",
            None => "taken to end at once",
        };
        if let Some(field) = &self.file.without_unit {
            notes.push(format!(
                "the unit of {field} is unknown, and it is not read: --map duration={field}:s, :ms, :us or :ns"
            ));
        }
        let words = |what: &str| (format!("{what}; it is {without}"), format!("{what}; they are {without}"));
        for (notable, what) in
            [(&self.missing, "without a duration"), (&self.unreadable, "with a duration that cannot be read")]
        {
            let (one, many) = words(what);
            notes.extend(notable.note(files, (&one, &many)));
        }
        let unread = "with a real cost that cannot be read; the estimate stays";
        notes.extend(self.unread_costs.note(files, (unread, unread)));
        if self.durations.is_some() {
            let late = "decided late, since a later one was decided before";
            let (one, many) = (format!("is {late}"), format!("are {late}"));
            notes.extend(self.late.note(files, (&one, &many)));
        }
        if let (lasts, Some(at)) = self.longest
            && span.is_some_and(|(first, last)| lasts > last - first)
        {
            let lasts = std::time::Duration::from_nanos(lasts);
            notes.push(format!(
                "the longest request lasts {lasts:?}, longer than the log ({})",
                place(files, at)
            ));
        }
        notes
    }
}

/// When a request arrives, if the times of its ends can be counted.
fn within_time(time: u64, lasts: u64, time_is: TimeIs) -> Result<u64, &'static str> {
    match time_is {
        TimeIs::Start => match time.checked_add(lasts) {
            Some(_) => Ok(time),
            None => Err("it would end after 2554"),
        },
        TimeIs::End => time.checked_sub(lasts).ok_or("it would begin before 1970"),
    }
}

/// The beginning of a text, printable.
fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned()
}
