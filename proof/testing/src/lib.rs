//! What the tests of all crates share.
//!
//! | module | feature | what |
//! |--------|---------|------|
//! | `random` | | random numbers that are the same in every run |
//! | `marked` | | a bucket as the stores keep it, and what it is held against |
//! | `clocks` | `engine` | clocks at whose readings a test acts, or whose Unix time it sets |
//! | `keys` | `engine` | keys whose places in the table are known |
//! | `limits` | `limits` | limits for the engine and its model, and limits drawn at random |
//! | `logs` | `logs` | what the crates log, as lines |
//! | `folder` | | folders and ports that no other test has |
//! | `tools` | | real programs, found or fetched |
//! | `process` | | programs as processes, which end with their value |
//! | `faketime` | | the clock of a program that a test starts |
//! | `wait` | `async` | waiting for what comes by itself |
//! | `stores` | `stores` | real stores, which tests start, stop and cut off |
//! | `http` | `http` | answers of HTTP, and a client that blocks |
//! | `certificates` | `certificates` | authorities, with certificates of servers and clients |
//! | `client` | `servers` | clients of HTTP/1 and HTTP/2 in tasks |
//! | `servers` | `servers` | servers of this process |
//! | `upstream` | `servers` | what a proxy sends its requests to |
//! | `schemathesis` | `servers` | random calls, held to a document of OpenAPI |

#[cfg(feature = "certificates")]
pub mod certificates;
#[cfg(feature = "servers")]
pub mod client;
#[cfg(feature = "engine")]
pub mod clocks;
pub mod faketime;
pub mod folder;
pub mod frames;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "engine")]
pub mod keys;
#[cfg(feature = "limits")]
pub mod limits;
#[cfg(feature = "logs")]
pub mod logs;
pub mod marked;
pub mod process;
pub mod random;
#[cfg(feature = "servers")]
pub mod schemathesis;
#[cfg(feature = "servers")]
pub mod servers;
#[cfg(feature = "stores")]
pub mod stores;
pub mod tools;
#[cfg(feature = "servers")]
pub mod upstream;
#[cfg(feature = "async")]
pub mod wait;
