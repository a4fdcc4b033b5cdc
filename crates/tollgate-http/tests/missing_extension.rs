//! A server that does not attach the connection's address is told so, also without any feature.

use std::net::SocketAddr;
use std::process::Command;

use http::Request;
use tollgate_http::{ClientAddress, KeyBy, RequestHead};

const CHILD: &str = "TOLLGATE_TEST_CHILD";

#[derive(Clone)]
struct ConnectInfo(SocketAddr);

/// Two rules, each of which gets three requests without the extension, and a request whose
/// connection has no address.
fn forget_the_address() {
    let rule = || ClientAddress::connection(|info: &ConnectInfo| Some(info.0.ip()));
    for client in [rule(), rule()] {
        let key = KeyBy::client(client.clone());
        for _ in 0..3 {
            assert!(key.of(RequestHead::of(&Request::new(()))).is_empty());
        }
        assert_eq!(client.of(RequestHead::of(&Request::new(()))), None);
    }
    let unix = ClientAddress::connection(|(): &()| None);
    assert_eq!(unix.of(RequestHead::of(&Request::builder().extension(()).body(()).unwrap())), None);
}

#[test]
fn a_missing_address_is_said_once_for_each_rule() {
    if std::env::var_os(CHILD).is_some() {
        return forget_the_address();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_missing_address_is_said_once_for_each_rule", "--nocapture"]).env(CHILD, "1");
    let output = child.output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("tollgate: ")).collect();
    assert_eq!(lines.len(), 2, "{said}");
    for line in lines {
        assert!(line.contains("missing_extension::ConnectInfo"), "the extension is named: {line}");
        assert!(line.contains("into_make_service_with_connect_info"), "the remedy is named: {line}");
    }
}
