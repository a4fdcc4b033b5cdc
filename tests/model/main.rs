//! The engine beside what says how it must answer: `tollgate-model`, and the expectations of other limiters' tests.

mod against_model;
mod vectors;
