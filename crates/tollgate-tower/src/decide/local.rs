//! What each thread keeps of the rules.
//!
//! A server may clone its service for each request (axum does), so a service cannot keep the handle
//! of the rules and the buffers. The thread keeps them: a request then loads one word of the rules,
//! writes no reference counter that other threads share, and allocates nothing.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use tollgate_rules::Session;

use super::generation::Generation;
use super::state::LayerState;
use crate::rule::SharedClock;

/// What a thread keeps for one layer.
pub(crate) struct Local {
    /// The layer.
    of: Weak<()>,
    pub(crate) session: Session<Generation, SharedClock>,
}

type Locals = Vec<Box<Local>>;

thread_local! {
    static LOCALS: RefCell<Locals> = const { RefCell::new(Vec::new()) };
}

impl Local {
    fn new(state: &LayerState) -> Box<Self> {
        let session = Session::new(state.live.handle(), |set| state.generation_of(set));
        Box::new(Self { of: Arc::downgrade(&state.identity), session })
    }
}

/// Runs `act` with what this thread keeps for a layer.
///
/// It is taken out meanwhile: `act` runs closures of the layer's user, which may lead back here, or
/// panic.
#[inline]
pub(crate) fn with_local<T>(state: &LayerState, act: impl FnOnce(&mut Local) -> T) -> T {
    // A thread that ends has no locals any more.
    let kept = LOCALS.try_with(|locals| take(&mut locals.borrow_mut(), state)).ok().flatten();
    let mut local = kept.unwrap_or_else(|| Local::new(state));
    let done = act(&mut local);
    let _ = LOCALS.try_with(|locals| locals.borrow_mut().push(local));
    done
}

#[inline]
fn take(locals: &mut Locals, state: &LayerState) -> Option<Box<Local>> {
    // A `Weak` keeps the address, so no other layer has it.
    if let Some(at) = locals.iter().position(|local| local.of.as_ptr() == Arc::as_ptr(&state.identity)) {
        return Some(locals.swap_remove(at));
    }
    // A new layer: those of layers that are gone are not needed.
    locals.retain(|local| local.of.strong_count() > 0);
    None
}
