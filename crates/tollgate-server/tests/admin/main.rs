//! Administration, asked over HTTP.
//!
//! | file | what |
//! |------|------|
//! | `client` | a server with rules in a directory of its own, and a client |
//! | `access` | who may administer |
//! | `orders` | plans, reloads, keys |
//! | `logged` | everything that this process logs |
//! | `parked` | changes of parked requests |
//! | `secrets` | no key and no token where others read |
//! | `browser` | the live page in a real browser |
//! | `openapi` | a server that keeps its document |
//! | `monitoring` | the dashboard, the alerts and the page about metrics, against a live server |

mod access;
mod browser;
mod client;
mod logged;
mod monitoring;
mod openapi;
mod orders;
mod parked;
mod secrets;
