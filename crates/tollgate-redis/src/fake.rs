//! A server that answers scripts by a function: what no real one can be made to do.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tollgate_rules::StoreAddress;

/// Starts a server on a port of its own and returns its address. The function is given the words
/// of each `EVALSHA`, `EVAL` and `CLUSTER`; all other commands are answered `OK`.
pub(crate) async fn serve(answer: impl Fn(&[String]) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(talk(BufReader::new(stream), Arc::clone(&answer)));
        }
    });
    format!("redis://{address}")
}

/// The address of such a server.
pub(crate) fn address(url: &str) -> StoreAddress {
    StoreAddress::parse(url).expect("a store's address")
}

async fn talk(mut stream: BufReader<TcpStream>, answer: Arc<impl Fn(&[String]) -> String>) -> Option<()> {
    loop {
        let mut words = vec![String::new(); number(&mut stream).await?];
        for word in &mut words {
            let mut bytes = vec![0; number(&mut stream).await? + 2];
            stream.read_exact(&mut bytes).await.ok()?;
            word.push_str(String::from_utf8_lossy(&bytes).trim_end());
        }
        let is_told = words[0].starts_with("EVAL") || words[0] == "CLUSTER";
        let said = if is_told { answer(&words) } else { "+OK\r\n".to_owned() };
        stream.write_all(said.as_bytes()).await.ok()?;
    }
}

/// Reads the number of a line such as `*3` or `$5`.
async fn number(stream: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.get(1..)?.trim_end().parse().ok()
}
