//! The same service as JSON over HTTP: `POST /json` with the messages as proto3 writes them.
//!
//! | file | what |
//! |------|------|
//! | `read` | a call |
//! | `number` | integers as numbers or as texts, and units by name |
//! | `write` | a response |

mod number;
mod read;
mod write;

use http::StatusCode;
use tollgate_net::listen::Peer;
use tollgate_net::web::{Answer, json as answer, problem};

use super::decide::decide;
use super::proto::Code;
use crate::core::Core;
use crate::metrics::Listener;

/// Answers a call: 200, 429 if it is over the limit, or 400 if it means nothing.
pub(crate) async fn json(core: &Core, peer: Peer, body: &[u8]) -> Answer {
    let call = match read::call(body) {
        Ok(call) => call,
        Err(refused) => return *refused,
    };
    let response = match decide(core, (Listener::Http, peer), &call).await {
        Ok(response) => response,
        Err(error) => return problem(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let status = match response.overall_code() {
        Code::Ok => StatusCode::OK,
        Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        // Never: a mistake of ours.
        Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    };
    answer(status, &write::response(&response))
}
