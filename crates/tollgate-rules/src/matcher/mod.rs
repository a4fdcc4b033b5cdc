//! Which rules concern a request, under which key and at what cost.

mod error;
mod explain;
mod found;

pub use error::CompileError;
pub use explain::{Explanation, KeyPart, Reason, Why};
pub use found::{Concerned, Found};

use crate::request::Request;
use crate::rule::Rules;

/// Rules, compiled: which of them concern a request, under which key and at what cost.
///
/// Immutable: threads share one.
#[derive(Debug)]
pub struct Matcher {}

impl Matcher {
    /// Compiles rules.
    ///
    /// # Errors
    ///
    /// A [`CompileError`] for rules that [`read`](crate::read) would refuse.
    pub fn new(_rules: &Rules) -> Result<Self, CompileError> {
        Ok(Self {})
    }

    /// Finds the rules that concern a request.
    pub fn find(&self, _request: &dyn Request, found: &mut Found) {
        found.concerned.clear();
    }

    /// Returns of every rule whether it concerns the request, and else why not.
    pub fn explain(&self, _request: &dyn Request) -> Vec<Explanation> {
        Vec::new()
    }
}
