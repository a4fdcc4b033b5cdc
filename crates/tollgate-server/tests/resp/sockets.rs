//! Redis clients over TLS and over a Unix socket.

use rustls_pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};

use super::clients::prints;
use tollgate_testing::certificates::Authority;
use tollgate_testing::folder::Folder;
use tollgate_testing::tools;

use super::{Client, connect, start};

#[tokio::test]
async fn redis_clients_ask_over_tls() {
    let folder = Folder::new();
    let authority = Authority::new();
    let files = authority.write(folder.path(), "localhost", None).parse().unwrap();
    let cert = folder.write("ca.pem", authority.pem()).into_os_string().into_string().unwrap();
    let running = start(|settings| settings.resp_tls = Some(files)).await;
    let stream = TcpStream::connect(running.resp()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = authority.client(None).connect(name, stream).await.unwrap();
    let mut client = Client { stream };
    client.hears("PING", "+PONG\r\n").await;
    client.throttles("a 15 30 60", [0, 16, 15, -1, 2]).await;
    // More than a record of TLS, in one go.
    client.say("CL.THROTTLE b 4999 1 1\r\n".repeat(5_000)).await;
    client.say("PING\r\n").await;
    let heard = client.until_pong().await;
    assert_eq!((heard.matches("*5\r\n:0\r\n").count(), heard.matches("*5\r\n").count()), (5_000, 5_000));

    // A client without TLS learns nothing, and is charged nothing.
    let mut plain = connect(&running).await;
    plain.say("CL.THROTTLE a 15 30 60\r\n").await;
    let heard = plain.rest().await;
    assert!(!heard.contains("*5"), "{heard:?}");

    let Some(cli) = tools::find("redis-cli") else { return };
    let port = running.resp().port().to_string();
    let connect = ["-h", "localhost", "-p", &port, "--tls", "--cacert", &cert];
    let asks = [&connect[..], &["CL.THROTTLE", "a", "15", "30", "60"]].concat();
    assert_eq!(prints(cli, &asks).await, "0\n16\n14\n-1\n4\n");
}

#[tokio::test]
async fn redis_clients_ask_over_a_unix_socket() {
    let folder = Folder::new();
    let path = folder.path().join("tollgate.sock").to_str().unwrap().to_owned();
    let address = format!("unix:{path}").parse().unwrap();
    let running = start(|settings| settings.resp.push(address)).await;
    let mut client = Client { stream: UnixStream::connect(&path).await.unwrap() };
    client.throttles("a 15 30 60", [0, 16, 15, -1, 2]).await;
    // Both listeners have the same keys.
    connect(&running).await.throttles("a 15 30 60", [0, 16, 14, -1, 4]).await;
    if let Some(cli) = tools::find("redis-cli") {
        let asks = ["-s", &path, "CL.THROTTLE", "a", "15", "30", "60"];
        assert_eq!(prints(cli, &asks).await, "0\n16\n13\n-1\n6\n");
    }
    drop(client);
    running.server.end().await.unwrap();
    assert!(UnixStream::connect(&path).await.is_err(), "nothing listens any more");
}
