//! How often a client may ask for the states of its parked requests.

use std::time::Instant;

use tokio::net::TcpSocket;
use tollgate_testing::client::talk;

use super::park::{Kept, Parking};

/// More than a client may ask at once.
const OFTEN: usize = 1_000;

/// How many of the answers to requests in one write have this status.
async fn answered(parking: &Parking, from: &str, requests: &str, status: u16) -> usize {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(from.parse().unwrap()).unwrap();
    let stream = socket.connect(parking.proxy.proxy()).await.unwrap();
    let said = talk(stream, requests.as_bytes()).await;
    String::from_utf8_lossy(&said).matches(&format!("HTTP/1.1 {status} ")).count()
}

/// The rules do not see these requests.
#[tokio::test(flavor = "multi_thread")]
async fn each_client_asks_for_states_so_often() {
    let parking = Parking::new(&Kept::File, "key = 'client', limits = '1/h'").await;
    assert_eq!(parking.post("/0", "").await.status, 200);
    let id = parking.parked("/1", "").await;
    let head = format!("GET /.well-known/tollgate/parked/{id} HTTP/1.1\r\nhost: a.test\r\n");
    let last = format!("{head}connection: close\r\n\r\n");
    let began = Instant::now();
    let all = format!("{head}\r\n").repeat(OFTEN - 1) + &last;
    let served = answered(&parking, "127.0.0.1:0", &all, 200).await;
    let most = 200.0 + 100.0 * began.elapsed().as_secs_f64();
    assert!((200..OFTEN).contains(&served) && served as f64 <= most, "{served} of {most}");
    assert_eq!(answered(&parking, "127.0.0.2:0", &last, 200).await, 1, "another client");
    let page = parking.ask("GET", "/metrics").await;
    let counted = "tollgate_protocol_errors_total{listener=\"proxy\",kind=\"park_state\"} ";
    let count = page.text().lines().find_map(|line| line.strip_prefix(counted)).unwrap();
    assert_eq!(count.parse::<usize>().unwrap(), OFTEN - served);
    // Each of them would have been refused, or parked.
    assert_eq!(parking.metric("event=\"parked").await, 1);
}
