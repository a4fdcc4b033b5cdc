//! The answer where there are too many connections.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::listen::Stream;

const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\ncontent-length: 82\r\nretry-after: 1\r\nconnection: close\r\n\r\n\
    {\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"there are too many clients\"}";

/// How long the client may take to read the answer.
const TIME: Duration = Duration::from_millis(500);

/// Answers that there are too many connections, and closes this one.
pub(crate) async fn refuse(mut stream: Stream) {
    let answer = async {
        stream.write_all(ANSWER).await?;
        stream.shutdown().await?;
        // Bytes that are not read would make the system take the answer back.
        let mut buffer = [0; 1024];
        while stream.read(&mut buffer).await? > 0 {}
        std::io::Result::Ok(())
    };
    // The client left, or takes its time: the connection is closed.
    let _ = tokio::time::timeout(TIME, answer).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_the_answer_is_right() {
        let answer = std::str::from_utf8(ANSWER).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}
