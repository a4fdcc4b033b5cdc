#![doc = include_str!("../README.md")]

mod envoy;
mod file;
mod live;
mod trial;

pub use envoy::{
    Converted, EnvoyAnswer, EnvoyAsk, EnvoyCallError, EnvoyCharge, EnvoyCode, EnvoyConfig, EnvoyCount,
    EnvoyDescriptor, EnvoyHandle, EnvoyHits, EnvoyLimit, EnvoySet, EnvoyStatus, EnvoyUnit, SameDomain,
};
pub use file::{
    Code, Disk, Listener, Memory, Problem, ProblemPart, Reading, Source, read, read_network, schema, unserved,
};
pub use live::{LiveFile, ReloadError, Resumed, Watched};
pub use trial::{TestFailure, run_tests};
