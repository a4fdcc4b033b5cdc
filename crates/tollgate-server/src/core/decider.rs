//! A handle of the rules with its buffers.

use std::ops::{Deref, DerefMut};

use crossbeam_queue::ArrayQueue;
use tollgate_rules::{Ask, Handle, Request, Scratch, Verdict};

use super::ServerClock;

/// A handle of the rules with its buffers, for one request at a time. A connection whose requests
/// come one after the other may keep one.
pub(crate) struct Decider {
    handle: Handle<ServerClock>,
    scratch: Scratch,
}

impl Decider {
    pub(super) fn new(handle: Handle<ServerClock>) -> Self {
        Self { handle, scratch: Scratch::default() }
    }

    /// Decides a request by the rules in force.
    pub(crate) fn ask(&mut self, request: &dyn Request, ask: Ask) -> Verdict<'_, ServerClock> {
        self.handle.ask(request, ask, &mut self.scratch)
    }

    /// The handle of the rules in force.
    pub(crate) fn handle(&mut self) -> &mut Handle<ServerClock> {
        &mut self.handle
    }
}

/// A decider that goes back to the free ones when this is dropped.
pub(crate) struct Free<'c> {
    /// `None` only while it is dropped.
    decider: Option<Box<Decider>>,
    free: &'c ArrayQueue<Box<Decider>>,
}

impl<'c> Free<'c> {
    pub(super) fn new(decider: Box<Decider>, free: &'c ArrayQueue<Box<Decider>>) -> Self {
        Self { decider: Some(decider), free }
    }
}

impl Deref for Free<'_> {
    type Target = Decider;

    fn deref(&self) -> &Decider {
        self.decider.as_deref().expect("it is there until the drop")
    }
}

impl DerefMut for Free<'_> {
    fn deref_mut(&mut self) -> &mut Decider {
        self.decider.as_deref_mut().expect("it is there until the drop")
    }
}

impl Drop for Free<'_> {
    fn drop(&mut self) {
        if let Some(decider) = self.decider.take() {
            // Beyond the free ones that are kept it is dropped.
            let _ = self.free.push(decider);
        }
    }
}
