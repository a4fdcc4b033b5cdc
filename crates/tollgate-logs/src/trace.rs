//! Traces: operations on a limiter, one JSON object a line, with fixed field names.
//!
//! ```text
//!   {"t_ns":0,"key":"a","cost":1,"op":"check","id":"r1"}
//!   {"t_ns":5,"key":"a","op":"refund","id":"r1"}
//!   {"t_ns":9,"key":"a","op":"reserve","max_wait_ns":1000000}
//! ```
//!
//! | op              | cost                       | id                             | max_wait_ns |
//! |-----------------|----------------------------|--------------------------------|-------------|
//! | `check` (no op) | default 1                  | for a refund                   | -           |
//! | `check_up_to`   | at most this; default 1    | for a refund                   | -           |
//! | `debit`         | default 1                  | for a refund                   | -           |
//! | `credit`        | at most this; default 1    | -                              | -           |
//! | `peek`          | default 1                  | -                              | -           |
//! | `reserve`       | default 1                  | for a cancel                   | needed      |
//! | `refund`        | at most this; default: all | the check's; default: latest   | -           |
//! | `cancel`        | -                          | the reserve's; default: latest | -           |
//! | `reset`         | no effect                  | -                              | -           |
//!
//! A check or a peek may bring its `quota`, a token bucket such as `10/s,burst=20`, which alone
//! decides it then: see [`CallQuota`](tollgate::CallQuota).
//!
//! A field that an op does not have makes the line malformed. The key is taken literally: an IPv6
//! address is not shortened to its prefix.

use tollgate::{CallQuota, Quota};

use crate::batch::{Batch, Op};
use crate::error::Problem;
use crate::fields;
use crate::json;
use crate::key::{KeyBy, KeyWriter};
use crate::lines;
use crate::malformed::Refusal;
use crate::options::Options;
use crate::time;

const NAMES: [Option<&str>; 7] =
    [Some("t_ns"), Some("key"), Some("cost"), Some("op"), Some("id"), Some("max_wait_ns"), Some("quota")];

/// Reads the lines of a trace.
#[derive(Debug)]
pub(crate) struct Parser {
    key_writer: KeyWriter,
}

impl Parser {
    pub(crate) fn new(file: &str, options: &Options) -> Result<Self, Problem> {
        let by = match options.key {
            KeyBy::Client => Some(KeyBy::Field("key".to_owned())),
            KeyBy::Global => Some(KeyBy::Global),
            _ => None,
        };
        let wrong = [
            ("--time-field", options.time_field.is_some()),
            ("--key-field", options.key_field.is_some()),
            ("--cost-field", options.cost_field.is_some()),
        ];
        let wrong = wrong.into_iter().find_map(|(option, given)| given.then_some(option));
        match (by, wrong) {
            (Some(by), None) => Ok(Self { key_writer: KeyWriter { by, ..options.key_writer() } }),
            (_, wrong) => Err(Problem::DoesNotApply {
                file: file.to_owned(),
                option: wrong.unwrap_or("--key other than global"),
                format: "a trace, whose fields have fixed names",
            }),
        }
    }

    /// Reads a block of whole lines.
    pub(crate) fn block(&self, text: &[u8], batch: &mut Batch) {
        lines::parse_each(text, batch, |line, batch| self.line(line, batch));
    }

    fn line(&self, line: &[u8], batch: &mut Batch) -> Result<(), Refusal> {
        let [time, key, cost, op, id, max_wait, quota] = json::texts(line, NAMES)?;
        let time = time.as_deref().ok_or("no t_ns in it")?;
        let t_ns = time::whole_number(time).ok_or("t_ns is not a whole number that fits 64 bits")?;
        let op = match op.as_deref() {
            None | Some(b"check") => Op::Check,
            Some(b"peek") => Op::Peek,
            Some(b"refund") => Op::Refund,
            Some(b"reserve") => Op::Reserve,
            Some(b"cancel") => Op::Cancel,
            Some(b"reset") => Op::Reset,
            Some(b"check_up_to") => Op::CheckUpTo,
            Some(b"debit") => Op::Debit,
            Some(b"credit") => Op::Credit,
            Some(_) => {
                return Err(
                    "op is not one of check, check_up_to, peek, debit, refund, reserve, cancel, credit, reset",
                );
            }
        };
        let cost = match (op, cost.as_deref()) {
            (Op::Cancel, Some(_)) => return Err("a cancel gives all back: it has no cost"),
            (Op::Refund, None) => u64::MAX,
            (_, None) => 1,
            (_, Some(cost)) => fields::cost(cost)?,
        };
        let id = match (op, id.as_deref()) {
            (_, None) => &[][..],
            (_, Some([])) => return Err("the id is empty"),
            (Op::Peek | Op::Reset | Op::Credit, Some(_)) => {
                return Err("a peek, a reset or a credit has no id");
            }
            (_, Some(id)) => id,
        };
        let max_wait_ns = match (op, max_wait.as_deref()) {
            (Op::Reserve, None) => {
                return Err("a reserve needs max_wait_ns: the longest wait, in nanoseconds");
            }
            (Op::Reserve, Some(wait)) => {
                time::whole_number(wait).ok_or("max_wait_ns is not a whole number that fits 64 bits")?
            }
            (_, None) => 0,
            (_, Some(_)) => return Err("only a reserve has max_wait_ns"),
        };
        let quota = match (op, quota.as_deref()) {
            (_, None) => None,
            (Op::Check | Op::Peek, Some(text)) => Some(call_quota(text)?),
            (_, Some(_)) => return Err("only a check or a peek brings a quota"),
        };
        let has_key = self.key_writer.write(&mut batch.keys, key.as_deref().unwrap_or_default(), b"");
        batch.without_key += u64::from(!has_key);
        batch.push_traced(t_ns, cost, op, id, max_wait_ns);
        if let Some(quota) = quota {
            batch.push_quota(quota);
        }
        Ok(())
    }
}

/// Reads the quota that comes with a request.
fn call_quota(text: &[u8]) -> Result<CallQuota, Refusal> {
    let quota = str::from_utf8(text).ok().and_then(|text| text.parse::<Quota>().ok());
    let Some(quota) = quota else { return Err("the quota is no limit such as 10/s,burst=20") };
    if !matches!(quota, Quota::TokenBucket(_)) || quota.is_by_intervals() || quota.initial().is_some() {
        return Err("a quota that comes with a request is a token bucket of a rate and a burst");
    }
    CallQuota::new(quota.rate(), quota.limit()).map_err(
        |_| "the quota is out of range: at most one a nanosecond, and a burst that refills in 36 years",
    )
}

/// Whether a line belongs to a trace.
pub(crate) fn recognises(line: &[u8]) -> bool {
    json::texts(line, NAMES).is_ok_and(|[time, key, ..]| time.is_some() && key.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Seen, options, outcome};

    fn parse(text: &str) -> Vec<Seen> {
        let parser = Parser::new("f.trace", &options()).expect("the options fit a trace");
        outcome(|batch| parser.block(text.as_bytes(), batch))
    }

    #[test]
    fn cost_and_op_have_defaults_and_every_op_is_read() {
        let text = r#"{"t_ns":0,"key":"a"}
{"t_ns":18446744073709551615,"key":"2001:db8::1","cost":3,"op":"peek"}
{"op":"refund","cost":0,"key":"b","t_ns":7}
{"op":"reset","key":"b","t_ns":8}
{"op":"check_up_to","key":"b","t_ns":8,"cost":4,"id":"r"}
{"op":"debit","key":"b","t_ns":8,"id":"s"}
{"op":"credit","key":"b","t_ns":8,"cost":2}"#;
        let seen: Vec<_> = parse(text).into_iter().map(|s| (s.line, s.t_ns, s.key, s.cost, s.op)).collect();
        assert_eq!(
            seen,
            [
                (1, 0, "a".to_owned(), 1, Op::Check),
                (2, u64::MAX, "2001:db8::1".to_owned(), 3, Op::Peek),
                (3, 7, "b".to_owned(), 0, Op::Refund),
                (4, 8, "b".to_owned(), 1, Op::Reset),
                (5, 8, "b".to_owned(), 4, Op::CheckUpTo),
                (6, 8, "b".to_owned(), 1, Op::Debit),
                (7, 8, "b".to_owned(), 2, Op::Credit),
            ]
        );
    }

    #[test]
    fn ids_and_waits_stay_with_their_lines() {
        let text = r#"{"t_ns":0,"key":"a","id":"r1"}
{"t_ns":1,"key":"b","op":"reserve","max_wait_ns":5}
broken
{"t_ns":2,"key":"c","op":"reserve","max_wait_ns":6,"id":"r2"}
{"t_ns":3,"key":"a","op":"refund","id":"r1"}
{"t_ns":4,"key":"c","op":"cancel"}"#;
        let parser = Parser::new("f.trace", &options()).expect("the options fit a trace");
        let mut batch = Batch::default();
        parser.block(text.as_bytes(), &mut batch);
        let seen: Vec<_> = batch.records(0).map(|r| (r.op, r.key, r.id, r.max_wait_ns, r.cost)).collect();
        let expected = [
            (Op::Check, &b"a"[..], &b"r1"[..], 0, 1),
            (Op::Reserve, b"b", b"", 5, 1),
            (Op::Reserve, b"c", b"r2", 6, 1),
            (Op::Refund, b"a", b"r1", 0, u64::MAX),
            (Op::Cancel, b"c", b"", 0, 1),
        ];
        assert_eq!(seen, expected);
        assert!(batch.records(0).all(|record| record.is_trace));
    }

    #[test]
    fn a_line_without_meaning_is_refused() {
        let lines = [
            r#"{"key":"a"}"#,
            r#"{"t_ns":1.5,"key":"a"}"#,
            r#"{"t_ns":-1,"key":"a"}"#,
            r#"{"t_ns":1,"key":"a","op":"spend"}"#,
            r#"{"t_ns":1,"key":"a","cost":-1}"#,
            r#"{"t_ns":1,"key":"a","id":""}"#,
            r#"{"t_ns":1,"key":"a","op":"peek","id":"r"}"#,
            r#"{"t_ns":1,"key":"a","op":"credit","id":"r"}"#,
            r#"{"t_ns":1,"key":"a","op":"debit","max_wait_ns":1}"#,
            r#"{"t_ns":1,"key":"a","op":"reserve"}"#,
            r#"{"t_ns":1,"key":"a","op":"reserve","max_wait_ns":-1}"#,
            r#"{"t_ns":1,"key":"a","max_wait_ns":1}"#,
            r#"{"t_ns":1,"key":"a","op":"cancel","cost":1}"#,
        ];
        for line in lines {
            assert_eq!(parse(line), [], "{line}");
        }
    }

    #[test]
    fn options_that_do_not_apply_to_a_trace_are_errors() {
        for options in [
            Options { key: KeyBy::Path, ..options() },
            Options { time_field: Some("t".to_owned()), ..options() },
        ] {
            assert!(Parser::new("f.trace", &options).is_err(), "{options:?}");
        }
    }
}
