//! Unix sockets.

use tokio::net::UnixStream;

use super::proto::Code;
use tollgate_testing::client::{ask, talk};

use super::support::{Grpc, request, start};

const RULES: &str = "rule = [{ name = 'each', key = 'client', limits = 'fixed-window:100/d' }]";

#[tokio::test]
async fn clients_ask_over_unix_sockets() {
    let server = start(RULES, |settings, folder| {
        let address = |name: &str| format!("unix:{}", folder.join(name).display()).parse().unwrap();
        settings.http = vec![address("http")];
        settings.admin = vec![address("admin")];
        settings.grpc = vec![address("grpc")];
        settings.proxy = vec![address("proxy")];
        // Over TCP no peer may name requests.
        settings.auth_trusted.clear();
    })
    .await;
    let connect = async |name: &str| UnixStream::connect(server.folder.path().join(name)).await.unwrap();
    let mut http = connect("http").await;
    let body = "{\"client\":\"192.0.2.1\"}";
    let answer = ask(&mut http, &request("POST", "/v1/check", "", body)).await;
    assert!(answer.contains("\"remaining\":99"), "{answer}");
    // The permissions of the socket say who may connect: its peer is trusted.
    let asked = "x-forwarded-method: GET\r\nx-forwarded-uri: /\r\nx-forwarded-for: 192.0.2.1\r\n";
    let answer = ask(&mut http, &request("GET", "/v1/auth", asked, "")).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(";r=98"), "{answer}");

    let mut admin = connect("admin").await;
    let order = "{\"request\":{\"client\":\"192.0.2.1\"},\"do\":\"peek\"}";
    let answer = ask(&mut admin, &request("POST", "/admin/keys/each", "x-tollgate: 1\r\n", order)).await;
    assert!(answer.contains("\"remaining\":98"), "{answer}");

    let call = Grpc::over(connect("grpc").await).await.call("d", &[("remote_address", "192.0.2.1")]).await;
    let answer = call.unwrap();
    assert_eq!((answer.overall_code(), answer.statuses[0].limit_remaining), (Code::Ok, 97));

    let closing = request("GET", "/", "connection: close\r\n", "");
    let answer = talk(connect("proxy").await, closing.as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 502 "), "{}", String::from_utf8_lossy(&answer));
}
