//! Random header lines: the parsers never panic, and never return an address that an untrusted
//! client wrote.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderValue, Request};
use proptest::prelude::*;
use tollgate_http::{ClientAddress, RequestHead};

/// Random sequences of header fragments and single bytes.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "for=", "For=", "by=", "host=", "\"", "\\", "\\\"", ",", ";", "=", " ", "\t", "[", "]", ":", "_x", "unknown",
            "1.2.3.4", "10.0.0.1", "10.9.9.9", "::1", "fd00::7", "2001:db8::1", ":80", "for=10.0.0.3", "for=\"[fd00::1]\"",
        ]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => any::<u8>().prop_filter("a legal header byte", |byte| *byte >= 32 && *byte != 127).prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// The client address of a request with these header lines on a connection from `from`.
fn client(address: &ClientAddress, header: &str, from: &str, lines: &[Vec<u8>]) -> Option<IpAddr> {
    let peer = SocketAddr::new(from.parse().unwrap(), 1);
    let mut request = Request::builder().extension(peer);
    for line in lines {
        request = request.header(header, HeaderValue::from_bytes(line).unwrap());
    }
    address.of(RequestHead::of(&request.body(()).unwrap()))
}

fn peer_address() -> ClientAddress {
    ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()))
}

fn both() -> [(ClientAddress, &'static str); 2] {
    let trusted = ["10.0.0.0/8", "fd00::/8"];
    [
        (peer_address().x_forwarded_for(trusted).unwrap(), "x-forwarded-for"),
        (peer_address().forwarded(trusted).unwrap(), "forwarded"),
    ]
}

proptest! {
    #[test]
    fn a_trusted_proxys_entry_wins_over_any_forged_header(lines in prop::collection::vec(any_line(), 0..4), joined: bool) {
        for (address, header) in both() {
            let appended: &[u8] = if header == "forwarded" { b"for=203.0.113.9;proto=https, for=\"[fd00::5]:80\"" } else { b"203.0.113.9:4711, fd00::5" };
            let mut lines = lines.clone();
            match lines.last_mut() {
                // A proxy appends to the last line, or adds a line.
                Some(last) if joined => { last.extend(b", "); last.extend(appended) }
                _ => lines.push(appended.to_vec()),
            }
            prop_assert_eq!(client(&address, header, "10.0.0.2", &lines), Some(IpAddr::from([203, 0, 113, 9])));
        }
    }

    #[test]
    fn an_untrusted_peer_is_the_client_with_any_header(lines in prop::collection::vec(any_line(), 0..4)) {
        for (address, header) in both() {
            prop_assert_eq!(client(&address, header, "203.0.113.9", &lines), Some(IpAddr::from([203, 0, 113, 9])));
        }
    }

    #[test]
    fn an_unreadable_entry_hides_the_entries_left_of_it(line in any_line()) {
        for (address, header) in both() {
            let mut line = line.clone();
            line.extend(b", garbage!, ");
            line.extend(if header == "forwarded" { &b"for=10.0.0.3"[..] } else { b"10.0.0.3" });
            prop_assert_eq!(client(&address, header, "10.0.0.2", &[line]), Some(IpAddr::from([10, 0, 0, 3])));
        }
    }
}
