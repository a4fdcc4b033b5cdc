//! A replay of records in memory, of which every answer is kept.

use std::cell::{OnceCell, RefCell};
use std::io::{self, Write};
use std::rc::Rc;

use super::course::Course;
use super::decisions::Decisions;
use super::gate::Gate;
use super::limit::Limit;
use super::outcome::{Counts, GivenBack};
use crate::failure::Failure;
use crate::ingest::Record;
use crate::spec::{Spec, refusal};

/// What one record came to.
pub(crate) struct Told {
    /// The line of `--decisions`, without its end; empty when there is none.
    pub(crate) decision: String,
    /// All that was given back up to here.
    pub(crate) given_back: GivenBack,
}

/// Does what the records ask of one limit.
///
/// # Errors
///
/// A limit that the engine refuses; what no record may ask of it.
pub(crate) fn watched<'r>(
    spec: Spec,
    max_keys: usize,
    records: impl Iterator<Item = Record<'r>>,
) -> Result<Vec<Told>, Failure> {
    let limit = Limit::new(spec, Some(max_keys), 1).map_err(|error| Failure::Usage(refusal(spec, &error)))?;
    let (limits, names, gate) = ([limit], ["memory".to_owned()], OnceCell::<Gate>::new());
    let shared = Shared::default();
    let decisions = Decisions::to(Box::new(shared.clone()), "memory".to_owned(), &[spec.to_string()], &names);
    let mut course = Course::new(&limits, None, &gate, &names, Counts::new(false), Some(decisions));
    records
        .map(|record| {
            course.step(&record)?;
            course.flush()?;
            let decision = String::from_utf8_lossy(&shared.0.take()).trim_end().to_owned();
            Ok(Told { decision, given_back: course.counts.given_back })
        })
        .collect()
}

/// Bytes that two hold.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
