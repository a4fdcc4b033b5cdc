//! Stores that take longer to connect to than a request may wait.

use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tollgate_testing::stores::{Server, Store};

use crate::check::request;
use crate::support::{Running, start};

/// The address of a way to the server that is open 200 ms after a client has taken it.
async fn slow_way(redis: &Server) -> String {
    let to = redis.url().trim_start_matches("redis://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let to = to.clone();
            tokio::spawn(async move {
                sleep(Duration::from_millis(200)).await;
                let mut server = TcpStream::connect(to).await.unwrap();
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    address.to_string()
}

fn rules(address: &str, deadline: &str) -> String {
    format!(
        "stores.redis = {{ url = 'redis://{address}', deadline = '{deadline}' }}
        rule = [{{ name = 'shared', key = 'client', limits = '100/h', store = 'redis', on_failure = 'refuse' }}]"
    )
}

async fn is_admitted(server: &Running) -> bool {
    server.post("/v1/check", request().to_string()).await.status == 200
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_open_before_the_first_request() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let address = slow_way(&redis).await;
    let server = start(&rules(&address, "100ms")).await;
    assert!(is_admitted(&server).await);
    // Another deadline is another connection.
    std::fs::write(server.rules(), format!("version = 1\n{}", rules(&address, "101ms"))).unwrap();
    server.server.reload().unwrap();
    assert!(is_admitted(&server).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_not_reached_holds_no_reload() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let server = start(&rules(&silent, "100ms")).await;
    assert!(!is_admitted(&server).await);
    std::fs::write(server.rules(), format!("version = 1\n{}", rules(&silent, "101ms"))).unwrap();
    assert_eq!(server.server.reload().unwrap(), 2);
}
