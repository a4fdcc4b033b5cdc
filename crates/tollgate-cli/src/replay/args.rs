//! The command line of `tollgate replay`.

use std::path::{Path, PathBuf};

use super::limit::Limit;
use crate::by_rules::{LogArgs, path as rules_path};
use crate::failure::Failure;
use crate::note::print_note;
use crate::reading::Reading;
use crate::report::figures::counted;
use crate::spec::{Spec, refusal, within};

/// The limit of `--demo` without `--limit`.
const DEMO_LIMIT: &str = "token-bucket:60/min,burst=20";

/// The most limits that a limiter holds.
const MAX_LIMITS: usize = 8;

/// Decide every request of a log by its own timestamp: which would have been refused?
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) reading: Reading,

    /// A limit, such as token-bucket:60/min,burst=20; several: all must admit
    ///
    /// [ALGORITHM:]COUNT/PERIOD[,option]... (a token-bucket unless it says otherwise)
    ///
    /// PERIOD is a unit (ns us ms s min h d), with a number before it or not:
    /// 100/s, 5/10s, 3/250ms.
    ///
    ///   token-bucket    burst=N (default COUNT), initial=N (default burst): what
    ///                   every bucket holds at the log's first record;
    ///                   intervals: COUNT at once, at each multiple of PERIOD
    ///   leaky-bucket    capacity=N (default COUNT), meter or queue (default meter)
    ///   fixed-window    count=allowed|all; first-hit: the window begins with a
    ///                   key's first admitted request
    ///   sliding-window  count=allowed|all, subwindows=K (never above COUNT in
    ///                   any window; the more of them, the smaller COUNT must be)
    ///   sliding-log     count=allowed|all
    ///
    /// With several limits a request is admitted when all admit it; a refused
    /// one is charged to none. A limit with count=all counts the requests that
    /// it refuses itself, not those that only others refuse. At most 8.
    #[arg(long = "limit", value_name = "SPEC", verbatim_doc_comment)]
    specs: Vec<Spec>,

    /// Decide by the rules of a file, in place of --limit: what would each have refused?
    ///
    /// Rules see of each request what the log has of it: client, method, path, status, and host,
    /// referer and user agent where its first lines have them. A rule that asks for more is not
    /// decided, unless --map names the field.
    ///
    /// Requests are decided at their arrivals, and a response's status feeds charge_if when its
    /// request ends, if the log says how long it lasts: nginx's $request_time, Apache's %D, Envoy,
    /// Caddy, Traefik, or --map duration=FIELD. In-flight limits are decided only then, or with
    /// --lasts. `tollgate rules check` finds mistakes in the file.
    #[arg(long, value_name = "FILE.toml", value_parser = rules_path, help_heading = "Rules")]
    #[arg(conflicts_with_all = ["key", "ipv6_prefix", "cost_field", "max_keys", "save", "restore"])]
    pub(super) rules: Option<PathBuf>,

    #[command(flatten)]
    pub(super) log: LogArgs,

    /// Print one JSON object instead of the table
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Write one JSON object a request; `-` is standard output, and the summary then goes to
    /// standard error
    ///
    /// Fields: line, key, t_ns (when it was decided), allowed, limit, remaining, retry_after_ns
    /// (null when allowed or never), reset_after_ns, delay_ns, never. With several limits also
    /// refused_by (the limits that refuse, or null; for a request that is too large, the limits
    /// that it exceeds); remaining is then the least and the waits are the longest of all limits.
    /// With several files also file.
    ///
    /// Under --rules, in the order of arrivals: line, t_ns, admitted, never, retry_after_ns,
    /// delay_ns, and the names of the rules that concern the request: asked, refused_by,
    /// shadow_refused_by.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) decisions: Option<PathBuf>,

    /// Write a self-contained page that shows the outcome; it needs no network
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,

    /// How many keys to list
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Output")]
    #[arg(value_parser = within::<usize>(0, usize::MAX as u64), allow_negative_numbers = true)]
    pub(crate) top: usize,

    /// Keys that may be in debt at once [default: 1048576, for a sliding log as many as fit 1 GiB]
    ///
    /// The table does not grow further. If more keys are in debt at once, a warning tells how often
    /// that changed a decision; otherwise the outcome is that of unlimited memory.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = within::<usize>(0, usize::MAX as u64), allow_negative_numbers = true)]
    max_keys: Option<usize>,

    /// Write the debt of every key after the last record, for --restore
    ///
    /// The file replaces an older one as a whole. It holds no keys, but the secret that hashes
    /// them: only its owner can read it. When reading stops early, nothing is written.
    #[arg(long, value_name = "FILE", help_heading = "State")]
    pub(super) save: Option<PathBuf>,

    /// Begin with what --save wrote under the same --limits, to replay a log in pieces
    ///
    /// The time between the logs counts as passed. Earlier admissions cannot be given back.
    #[arg(long, value_name = "FILE", help_heading = "State")]
    pub(super) restore: Option<PathBuf>,
}

const AFTER: &str = "\
Every record is decided at the latest time seen so far, so a clock that steps
back never mints a token; records earlier than that are counted as out of order.
Windows are aligned to the Unix epoch. Lines that cannot be read are counted,
and the first few are shown.

A trace (--format trace) is one JSON object a line, with t_ns, key, cost and op:

  check     decides and charges; the op when there is none
  peek      decides without charging; appears in --decisions only
  check_up_to  takes what there is, at most cost; charged is how much
  debit     charges late, over the limit if need be; not under a sliding log
  credit    gives the key at most cost on top of the limit
  reserve   takes now to act later, within max_wait_ns; under buckets only.
            When refused, retry_after_ns is the wait that it would have needed
  refund    gives back what a check took, or cost units of it
  cancel    gives back a reserve that has not departed yet
  reset     forgives the key

A check or a peek may bring its \"quota\", such as \"10/s,burst=20\", as users' limits
in a database do: it alone decides that request, beside --limit for the others.

A refund or a cancel belongs to the request or reserve of the same key and \"id\";
without an id to the key's latest that took something and was not given back yet.
The replay remembers the latest 1,048,576 admissions and as many reservations,
none from before a reset. The summary has the units given back, how many
refunds and cancels found nothing, and the units credited.

Exit code: 0, or 2 when an argument or a file is unusable: also when none of its
lines could be read.

Examples:
  tollgate replay --demo
  tollgate replay access.log --limit token-bucket:60/min,burst=20
  tollgate replay access.log --limit sliding-window:100/min --report page.html
  tollgate replay access.log --rules rules.toml --map label.user=user
  tollgate replay *.log.gz --limit fixed-window:10/s --limit sliding-log:1000/h
  zcat dns.log.gz | tollgate replay - --format tsv --limit fixed-window:100/s
  tollgate replay jobs.trace --limit leaky-bucket:10/s,mode=queue --decisions -
  tollgate replay monday.log --limit sliding-log:1000/d --save week.state
  tollgate replay llm.csv --key global --cost-field tokens \\
      --limit token-bucket:100_000/min --json";

impl Args {
    /// The limits, each accepted by the engine.
    pub(super) fn limits(&self) -> Result<Vec<Limit>, Failure> {
        let mut specs = self.specs.clone();
        if specs.is_empty() {
            if !self.reading.is_demo() {
                return Err(Failure::Usage(format!(
                    "there is no limit to try. Give one or several, such as --limit {DEMO_LIMIT}\n\
                     (see `tollgate replay --help` for all algorithms)"
                )));
            }
            print_note(&format!("No --limit given: trying {DEMO_LIMIT}.\n"));
            specs.push(DEMO_LIMIT.parse().expect("tests parse this constant"));
        }
        if specs.len() > MAX_LIMITS {
            return Err(Failure::Usage(format!(
                "there are {} limits, but at most {MAX_LIMITS} hold together: leave out those that others imply",
                specs.len()
            )));
        }
        let limit = |spec: &Spec| {
            let limit = Limit::new(*spec, self.max_keys, specs.len())
                .map_err(|error| Failure::Usage(refusal(*spec, &error)))?;
            if limit.is_below_default {
                print_note(&format!(
                    "{limit}: room for {} in debt at once, to stay within 1 GiB; --max-keys changes that",
                    counted(limit.max_keys() as u64, "key")
                ));
            }
            Ok(limit)
        };
        specs.iter().map(limit).collect()
    }

    /// The rules file, if there is one.
    ///
    /// # Errors
    ///
    /// When there are limits as well; options for rules without one.
    pub(super) fn rules(&self) -> Result<Option<&Path>, Failure> {
        if self.rules.is_none() {
            self.log.need_rules()?;
        }
        match (&self.rules, &self.specs[..]) {
            (Some(file), [limit, ..]) => Err(Failure::Usage(format!(
                "--rules {} and --limit {limit} exclude each other: the rules file says its limits itself",
                file.display()
            ))),
            (file, _) => Ok(file.as_deref()),
        }
    }

    /// Whether the decisions go to standard output.
    pub(super) fn decisions_on_stdout(&self) -> bool {
        self.decisions.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }
}
