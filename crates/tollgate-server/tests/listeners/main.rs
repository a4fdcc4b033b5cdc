//! All listeners of one server, side by side.
//!
//! | file | what |
//! |------|------|
//! | `support` | a server with all listeners, and clients over any stream |
//! | `metrics` | the counters of each |
//! | `tls` | certificates of servers and clients, and the protocol that is agreed on |
//! | `unix` | Unix sockets |
//! | `ends` | what clients of HTTP/2 are told when the server ends |
//! | `crowds` | idle connections beside other clients |
//! | `unfinished` | requests that do not end, beside other clients |
//! | `secrets` | no key and no password in the log |

#[path = "../../../tollgate-rules/tests/set/alone.rs"]
mod alone;
mod crowds;
mod ends;
#[path = "../admin/logged.rs"]
mod logged;
mod metrics;
#[path = "../../src/rls/proto/mod.rs"]
#[allow(unused_imports)]
mod proto;
mod secrets;
mod support;
mod tls;
mod unfinished;
mod unix;
