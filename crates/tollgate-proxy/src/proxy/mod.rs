//! Requests that are limited on their way to an upstream.
//!
//! ```text
//!   head -> rules (tollgate-tower) -> forward -> upstreams -> dial
//!     \-> 400     \-> 429, a queue       \-> 502, 503, 504
//! ```
//!
//! | file | what |
//! |------|------|
//! | `service` | a connection's requests, from the head to the answer |
//! | `shared` | what the proxy has in common with the rest of the server |
//! | `head` | which heads are passed on; headers of one connection only |
//! | `marks` | which headers a head has of those that a proxy looks for |
//! | `forwarded` | what an upstream is told of the client |
//! | `forward` | one request to an upstream, and its response |
//! | `upstreams` | the upstreams: who is well, who serves the fewest |
//! | `failed` | why a request has no response |
//! | `address` | how a request names its host, in each version of HTTP |
//! | `pool` | connections to an upstream of HTTP/1, each for one request at a time |
//! | `plain` | plain requests and answers by such a connection |
//! | `by_hyper` | all others |
//! | `http2` | the connections to an upstream of HTTP/2, and their streams |
//! | `repeat` | requests that are sent once more |
//! | `dial` | new connections to an upstream |
//! | `upload`, `download` | bodies, with their timeouts |
//! | `patience` | how long the sender of a body is awaited |
//! | `parking` | requests that the rules refuse for a time: kept, and sent later |
//! | `parked_states` | what their clients may ask of them, and how often |
//! | `tunnel` | a connection after status 101 |
//! | `probe` | heads without their connections, for fuzz targets |

mod address;
mod by_hyper;
mod dial;
mod download;
mod failed;
mod forward;
mod forwarded;
mod head;
mod http2;
mod marks;
mod parked_states;
mod parking;
mod patience;
mod plain;
mod pool;
mod probe;
mod repeat;
mod service;
mod shared;
mod tunnel;
mod upload;
mod upstreams;

pub use dial::UpstreamError;
pub use parked_states::States;
pub use probe::{HeadProbe, PlainAnswerProbe};
pub use service::Proxy;
pub use shared::Shared;
