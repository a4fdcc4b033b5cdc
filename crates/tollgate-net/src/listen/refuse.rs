//! The answer to a connection above the limit.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::{Stream, close};

/// How long a refused client may take to read its answer.
const READ: Duration = Duration::from_secs(1);

/// For HTTP/1. A client that speaks HTTP/2 sees an error of the protocol.
pub const HTTP_REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
retry-after: 1\r\ncontent-length: 85\r\nconnection: close\r\n\r\n\
{\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"max number of clients reached\"}";

/// For Redis clients, as Redis says it.
pub const RESP_REFUSAL: &[u8] = b"-ERR max number of clients reached\r\n";

/// For HTTP/2: empty SETTINGS, and GOAWAY with ENHANCE_YOUR_CALM.
pub const GRPC_REFUSAL: &[u8] = &[
    0, 0, 0, 4, 0, 0, 0, 0, 0, // SETTINGS
    0, 0, 8, 7, 0, 0, 0, 0, 0, // GOAWAY
    0, 0, 0, 0, 0, 0, 0, 0xb, // No stream was served; the reason.
];

/// Writes the answer and closes the connection.
pub async fn refuse(mut stream: Stream, answer: &[u8]) {
    let answered = async {
        stream.write_all(answer).await?;
        close(&mut stream, false).await;
        std::io::Result::Ok(())
    };
    // A client that has gone needs no answer.
    let _ = tokio::time::timeout(READ, answered).await;
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_refusal_has_the_length_that_it_says() {
        let text = std::str::from_utf8(super::HTTP_REFUSAL).expect("it is text");
        let (head, body) = text.split_once("\r\n\r\n").expect("it has a head");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}
