//! The engine compared with `tollgate-model`, and with the expectations of other limiters' tests.

mod against_model;
mod vectors;
