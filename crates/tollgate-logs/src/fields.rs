//! For formats with named fields: which field is the time, the key, the method, the cost.
//!
//! An option may name the field. Otherwise the first usual name that the file has is taken, in any
//! case of letters. The cost has no usual names.

use std::borrow::Cow;

use crate::batch::{Batch, Op};
use crate::durations::{self, RequestTimes};
use crate::error::Problem;
use crate::key::{KeyBy, KeyWriter};
use crate::malformed::Refusal;
use crate::options::Options;
use crate::parts;
use crate::time::{self, Unit};

/// One value for each part of a record, in the order of the constants below.
pub(crate) type Parts<T> = [Option<T>; 4];

pub(crate) const TIME: usize = 0;
const KEY: usize = 1;
const METHOD: usize = 2;
const COST: usize = 3;

#[rustfmt::skip]
const TIMES: &[&str] = &[
    // Traefik writes both: its `time` has whole seconds.
    "startutc", "t_ns", "t_us", "t_ms", "t", "ts", "time", "timestamp", "@timestamp", "datetime", "date_time",
    "time_iso8601", "time_local", "msec", "start_time", "starttime", "edgestarttimestamp", "date",
];

#[rustfmt::skip]
const CLIENTS: &[&str] = &[
    "key", "client", "client_ip", "clientip", "client_addr", "remote_addr", "remote_ip", "remote_host", "ip",
    "ip_address", "src_ip", "source_ip", "c-ip", "id.orig_h", "request.client_ip", "request.remote_ip",
    "request.remote_addr", "clienthost", "host",
];

const USERS: &[&str] =
    &["user", "username", "user_name", "user_id", "userid", "remote_user", "cs-username", "logname"];

#[rustfmt::skip]
const PATHS: &[&str] = &[
    "path", "uri", "url", "request_uri", "request_path", "target", "clientrequesturi", "request.uri",
    "cs-uri-stem", "requestpath",
];

#[rustfmt::skip]
const METHODS: &[&str] = &[
    "method", "request_method", "http_method", "verb", "clientrequestmethod", "request.method", "cs-method",
    "requestmethod",
];

/// Whether a time usually has this name.
pub(crate) fn names_a_time(name: &str) -> bool {
    TIMES.iter().any(|usual| usual.eq_ignore_ascii_case(name))
}

/// The options that name each part, for messages.
const OPTIONS: [&str; 4] = ["--time-field", "--key or --key-field", "--key", "--cost-field"];

const KEY_HINT: &str = "--key-field NAME, or count everything together with --key global";

/// Chooses the fields to read among those `found` in the first lines of a file.
pub(crate) fn choose(file: &str, options: &Options, found: &[String]) -> Result<Parts<String>, Problem> {
    let guess = |what, hint, usual: &[&str]| {
        let known = usual.iter().find_map(|usual| found.iter().find(|name| name.eq_ignore_ascii_case(usual)));
        known.cloned().ok_or_else(|| {
            let found = found.to_vec();
            Problem::NoField { file: file.to_owned(), what, hint, found }
        })
    };
    let named_or = |named: &Option<String>, what, hint, usual| match named {
        Some(name) => Ok(name.clone()),
        None => guess(what, hint, usual),
    };
    let key = |what, usual| named_or(&options.key_field, what, KEY_HINT, usual).map(Some);

    let time = named_or(&options.time_field, "time", "--time-field NAME", TIMES)?;
    let (key, method) = match &options.key {
        KeyBy::Client => (key("client", CLIENTS)?, None),
        KeyBy::User => (key("user", USERS)?, None),
        KeyBy::Path => (key("path", PATHS)?, None),
        KeyBy::MethodPath => (key("path", PATHS)?, Some(guess("method", "--key field:NAME", METHODS)?)),
        KeyBy::Field(name) => (Some(name.clone()), None),
        KeyBy::Global => (None, None),
    };
    Ok([Some(time), key, method, options.cost_field.clone()])
}

/// Chooses the fields of the wanted parts: what the user names, or a usual name among those
/// `found`. `None`: the file has none.
pub(crate) fn choose_parts(options: &Options, found: &[String]) -> Vec<Option<String>> {
    let client = |part: &parts::Part| (*part == parts::Part::Client).then(|| options.key_field.clone());
    let wanted = options.wanted.iter().map(|wanted| {
        let named = wanted.field.clone().or_else(|| client(&wanted.part).flatten());
        named.or_else(|| parts::usual_field(&wanted.part, found, CLIENTS, METHODS, PATHS))
    });
    wanted.collect()
}

/// What the names of a file's fields say of when requests arrive and end. `chosen` has the field of
/// each wanted part.
pub(crate) fn request_times(
    options: &Options,
    found: &[String],
    time: &str,
    chosen: &[Option<String>],
) -> RequestTimes {
    let duration = options.wanted.iter().position(|wanted| wanted.part == parts::Part::Duration);
    let field = duration.and_then(|at| chosen.get(at)?.as_deref());
    durations::of_names(found, time, field, duration.and_then(|at| options.wanted[at].unit))
}

/// Finds the chosen fields among columns, by number from 1 or else by name.
pub(crate) fn columns(file: &str, chosen: &Parts<String>, found: &[String]) -> Result<Parts<usize>, Problem> {
    let mut columns = [None; 4];
    for ((column, name), option) in columns.iter_mut().zip(chosen).zip(OPTIONS) {
        *column = name.as_ref().map(|name| one_column(file, option, name, found)).transpose()?;
    }
    Ok(columns)
}

/// Finds a field that an option names among columns, by number from 1 or else by name.
pub(crate) fn one_column(
    file: &str,
    option: &'static str,
    name: &str,
    found: &[String],
) -> Result<usize, Problem> {
    let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let by_number = number.filter(|&at| at < found.len());
    by_number.or_else(|| found.iter().position(|known| known == name)).ok_or_else(|| {
        let (file, name, found) = (file.to_owned(), name.to_owned(), found.to_vec());
        Problem::UnknownField { file, option, name, found }
    })
}

/// Makes records from the texts of their fields.
#[derive(Debug)]
pub(crate) struct Fields {
    key_writer: KeyWriter,
    unit: Unit,
}

impl Fields {
    /// For records whose time is in the field with this name.
    pub(crate) fn new(options: &Options, time: &str) -> Self {
        Self { key_writer: options.key_writer(), unit: Unit::of_field(time) }
    }

    /// Pushes the record; `costed` says whether a field holds the cost.
    pub(crate) fn record(
        &self,
        texts: &Parts<Cow<'_, [u8]>>,
        costed: bool,
        batch: &mut Batch,
    ) -> Result<(), Refusal> {
        let text = |part: usize| texts[part].as_deref().unwrap_or_default();
        let t_ns = time::read(text(TIME), self.unit)?;
        let cost = if costed { cost(text(COST))? } else { 1 };
        let has_key = self.key_writer.write(&mut batch.keys, text(KEY), text(METHOD));
        batch.without_key += u64::from(!has_key);
        batch.push(t_ns, cost, Op::Check);
        Ok(())
    }
}

/// Reads a cost: a whole number, which may be written `12.0`.
///
/// # Errors
///
/// Why the text is none.
pub fn cost(text: &[u8]) -> Result<u64, Refusal> {
    let text = text.trim_ascii();
    let point = text.iter().position(|&b| b == b'.').unwrap_or(text.len());
    let (whole, fraction) = text.split_at(point);
    match whole {
        [] | [b'-'] => Err("the cost is missing"),
        _ if fraction.iter().skip(1).any(|&b| b != b'0') => Err("the cost is not a whole number"),
        _ => time::whole_number(whole).ok_or("the cost is not a whole number that fits 64 bits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{options, told};

    fn names(options: &Options, found: &[&str]) -> Result<Vec<Option<String>>, String> {
        let found: Vec<String> = found.iter().map(|&name| name.to_owned()).collect();
        choose("f.csv", options, &found).map(Vec::from).map_err(told)
    }

    #[test]
    fn usual_names_are_found_in_any_case_in_their_order() {
        let chosen = names(&options(), &["Host", "Client_IP", "TIMESTAMP", "cost"]).expect("usual names");
        assert_eq!(chosen, [Some("TIMESTAMP".to_owned()), Some("Client_IP".to_owned()), None, None]);
    }

    #[test]
    fn what_the_user_names_is_not_guessed() {
        let options = Options {
            time_field: Some("seen".to_owned()),
            key_field: Some("who".to_owned()),
            cost_field: Some("tokens".to_owned()),
            ..options()
        };
        let chosen = names(&options, &["time", "client"]).expect("named");
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(chosen, [named("seen"), named("who"), None, named("tokens")]);
    }

    #[test]
    fn a_log_without_clients_is_told_about_the_global_key() {
        let found = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];
        let error = names(&options(), &found).expect_err("no client there");
        assert!(
            error.contains("--key global") && error.contains("ContextTokens, GeneratedTokens"),
            "{error}"
        );
        let global = Options { key: KeyBy::Global, ..options() };
        assert_eq!(names(&global, &found).expect("needs no key")[KEY], None);
    }

    #[test]
    fn a_log_without_a_time_gets_a_list_of_fields() {
        let error = names(&options(), &["when", "client"]).expect_err("no time there");
        assert!(error.contains("--time-field") && error.contains("when, client"), "{error}");
    }

    #[test]
    fn a_cost_is_a_whole_number() {
        assert_eq!(cost(b"0"), Ok(0));
        assert_eq!(cost(b" 12.00 "), Ok(12));
        assert_eq!(cost(b"18446744073709551615"), Ok(u64::MAX));
        for text in ["", "-", "-1", "1.5", "1e3", "18446744073709551616", "many"] {
            assert!(cost(text.as_bytes()).is_err(), "{text}");
        }
    }
}
