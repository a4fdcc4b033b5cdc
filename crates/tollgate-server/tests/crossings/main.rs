//! Everything at once: all verbs of the server over the same keys.
//!
//! | file | what |
//! |------|------|
//! | `rooms` | a server without sockets, which restarts with its state |
//! | `rules` | the rules files that programs use |
//! | `mirror` | the same rules, asked directly |
//! | `counts` | naive models of `CL.THROTTLE` and of files of envoyproxy/ratelimit |
//! | `program` | random programs of one thread, answer by answer |
//! | `threads` | several threads, and what no key may pass |
//! | `quotas` | several threads, and limits of `quota_mode` in files of envoyproxy/ratelimit |
//! | `table` | which verbs follow which: each follows each |

mod counts;
mod mirror;
mod program;
mod quotas;
mod rooms;
mod rules;
mod table;
mod threads;
