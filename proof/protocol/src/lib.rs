//! The protocol of `src/table` as a small model, searched through in every interleaving.
//!
//! loom runs the engine itself, under weak memory, with few preemptions. This is the other half:
//! the protocol written once more as threads that make one access to the memory at a time,
//! sequentially consistent, and *every* order of their steps, however many preemptions it takes.
//! Keys, slots, ticks of the clock and grains are few; the steps are the engine's.
//!
//! A scenario ([`scenarios`]) says which keys are there, who asks for what, and when the clock may
//! move. The search visits each state once and checks that
//!
//! * between any two ticks no key is admitted more than its bucket holds and refills, whichever
//!   slots it was charged in; no window of a log holds more than its limit, and no time in its ring
//!   is earlier than its admission;
//! * no key is refused for another key's debt in its slot;
//! * no state comes back on a path, so every thread ends under every schedule, also when it runs
//!   alone from there;
//! * at the end no slot is frozen, every word counts, no key has two slots, and each key that is
//!   asked for again gets no more than is left to it.
//!
//! That it can fail is shown by its mutants ([`Mutant`]): the protocol with one thought left out,
//! each of which breaks a promise in some scenario ([`catchers`]). Of a few no scenario does: then
//! something else covers for what was left out ([`uncaught`]), and a mutant without both is caught.
//!
//! Checks of the scenarios that are `quick` begin as the engine's do: by the home slot, the header
//! and all fingerprints, and then by the *fast path* of an insertion (`src/table/recycle.rs`), each
//! of its readings a step. In the others, checks begin with the slow path (`find_or_insert`):
//! states are fewer. Threads of both kinds of scenarios come to the slow path in the end.
//!
//! Where the protocol itself is known to break a promise, the scenario says so (`known`), and the
//! tests demand that it still does: a repair shows by a test that fails. `docs/proof/holes.md`
//! has them in words, and `docs/proof/found.md` what was repaired.
//!
//! Refunds ask one mark here, by which a key's order is lost. What the engine's marks remember
//! beyond that has a small model of its own (`marks`).
//!
//! Not in the model: the numbers by which resets end refunds (`forgive` of
//! `src/table/marks.rs`), peeks and refusals beside a split, credits, several versions of a
//! quota, in-flight guards, looks at several limits, saving. States are told apart by 64-bit
//! hashes: of ten million states two coincide with a chance of three in a million, and then one of
//! them is not visited.

mod catchers;
mod digest;
mod fast_path;
mod logs;
mod machine;
#[cfg(test)]
mod marks;
mod mutant;
mod ring;
mod rule;
mod scenario;
mod scenarios;
mod search;
mod splits;
mod state;
mod values;

pub use catchers::{catchers, uncaught};
pub use mutant::Mutant;
pub use scenario::Scenario;
pub use scenarios::{scenario, scenarios};
pub use search::{Outcome, search};
