//! `tollgate stress`: checks one limiter from many threads, measures it, and judges whether it
//! held.
//!
//! ```text
//!   args --> hammer: threads, each a worker --> measurements --> verdict: did the limit hold?
//!                                                    |              |
//!                                                    +--> outcome <-+    json, table
//! ```

mod args;
mod bound;
mod footprint;
mod hammer;
mod key_sequence;
mod outcome;
mod verdict;
mod worker;

use crate::failure::Failure;
use crate::output::print_result;
pub(crate) use args::Args;
use bound::bound;
use hammer::hammer;
use outcome::Outcome;
use verdict::Verdict;

/// Runs the command.
///
/// # Errors
///
/// A limit that the engine does not accept; a key that was admitted more often than its limit
/// allows; more memory than announced.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let threads = args.threads()?;
    let measured = hammer(&args.plan(threads))?;
    let footprint = args.flood.then_some(measured.footprint);
    let verdict = Verdict::new(bound(args.limit, measured.span), &measured.totals.admitted, footprint);
    let outcome = Outcome { args, threads, measured: &measured, verdict: &verdict };
    print_result(&if args.json { format!("{}\n", outcome.json()) } else { outcome.to_string() })?;
    verdict.into_result()
}
