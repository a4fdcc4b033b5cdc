//! Client addresses through the whole layer: a client can choose neither another client's key nor a
//! new key for each request.

use http::HeaderName;
use tollgate_tower::{AddressError, ClientAddress, KeyBy, Rule, TollgateLayer};

use crate::support::{by_header, by_peer, hourly_bucket, layer_with, peer_address, status, statuses};

/// Admits one request of each client.
fn layer(client: ClientAddress) -> TollgateLayer {
    layer_with(Rule::new("api", hourly_bucket(1)).key(KeyBy::client(client))).build().unwrap()
}

fn x_forwarded_for() -> TollgateLayer {
    layer(peer_address().x_forwarded_for(["10.0.0.0/8", "fd00::/8"]).unwrap())
}

fn forwarded() -> TollgateLayer {
    layer(peer_address().forwarded(["10.0.0.0/8", "fd00::/8"]).unwrap())
}

/// Sends two requests. The second is refused exactly if it has the same client.
async fn is_same_client(layer: &TollgateLayer, one: &[(&str, &str)], other: &[(&str, &str)]) -> bool {
    assert_eq!(status(layer, "/", one).await, 200, "the first of its client: {one:?}");
    status(layer, "/", other).await == 429
}

#[tokio::test]
async fn headers_from_untrusted_peers_are_ignored() {
    for client in [
        layer(peer_address()),
        x_forwarded_for(),
        forwarded(),
        layer(peer_address().header(HeaderName::from_static("x-real-ip"), ["10.0.0.0/8"]).unwrap()),
    ] {
        let spoof = [
            ("peer", "203.0.113.1"),
            ("x-forwarded-for", "192.0.2.7, 10.0.0.1"),
            ("forwarded", "for=192.0.2.7, for=10.0.0.1"),
            ("x-real-ip", "192.0.2.7"),
        ];
        assert!(is_same_client(&client, &[("peer", "203.0.113.1")], &spoof).await);
        assert_eq!(
            status(&client, "/", &[("peer", "192.0.2.7")]).await,
            200,
            "the forged address was not charged"
        );
    }
}

#[tokio::test]
async fn headers_are_ignored_if_the_peer_is_unknown() {
    let layer = x_forwarded_for();
    let headers = |client| [("x-forwarded-for", client)];
    assert!(
        is_same_client(&layer, &headers("192.0.2.1"), &headers("192.0.2.2")).await,
        "both have no client address"
    );
}

#[tokio::test]
async fn spoofed_entries_on_the_left_make_no_new_client() {
    let layer = x_forwarded_for();
    let first = [("peer", "10.0.0.2"), ("x-forwarded-for", "203.0.113.9")];
    assert_eq!(status(&layer, "/", &first).await, 200);
    for spoofed in [
        "6.6.6.6, 203.0.113.9",
        "10.0.0.9, 203.0.113.9",
        "6.6.6.6, 203.0.113.9, 10.0.0.7",
        "6.6.6.6,203.0.113.9:1234,[fd00::1]:80",
        "unknown, 203.0.113.9",
        ", ,203.0.113.9",
        "\"6.6.6.6, 203.0.113.9",
        "6.6.6.6\t, ::ffff:203.0.113.9",
    ] {
        let headers = [("peer", "10.0.0.2"), ("x-forwarded-for", spoofed)];
        assert_eq!(status(&layer, "/", &headers).await, 429, "{spoofed}");
    }
    let lines = [
        ("peer", "10.0.0.2"),
        ("x-forwarded-for", "6.6.6.6"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-for", "10.0.0.7"),
    ];
    assert_eq!(status(&layer, "/", &lines).await, 429, "the last line is the nearest");
    let huge = format!("{}203.0.113.9", "6.6.6.6, ".repeat(7_000));
    assert_eq!(status(&layer, "/", &[("peer", "10.0.0.2"), ("x-forwarded-for", &huge)]).await, 429);
    assert_eq!(
        status(&layer, "/", &[("peer", "10.0.0.2"), ("x-forwarded-for", "6.6.6.6")]).await,
        200,
        "a new client"
    );
}

#[tokio::test]
async fn spoofed_elements_of_forwarded_make_no_new_client() {
    let layer = forwarded();
    assert_eq!(status(&layer, "/", &[("peer", "fd00::2"), ("forwarded", "for=203.0.113.9")]).await, 200);
    for spoofed in [
        "for=6.6.6.6, for=203.0.113.9",
        "for=\"6.6.6.6, for=203.0.113.9",
        "for=\", for=\"203.0.113.9:80\";proto=https;by=_p",
        "for=6.6.6.6, For=\"203.0.113.9\";host=\"for=7.7.7.7,for=8.8.8.8\", for=\"[fd00::9]:1\"",
        "host=\"\\\", for=203.0.113.9",
    ] {
        assert_eq!(
            status(&layer, "/", &[("peer", "fd00::2"), ("forwarded", spoofed)]).await,
            429,
            "{spoofed}"
        );
    }
    let lines = [("peer", "fd00::2"), ("forwarded", "for=\"6.6.6.6"), ("forwarded", "for=203.0.113.9")];
    assert_eq!(status(&layer, "/", &lines).await, 429);
}

#[tokio::test]
async fn an_unreadable_entry_ends_the_walk_at_the_last_proxy() {
    let layer = x_forwarded_for();
    let proxy = |list| [("peer", "10.0.0.2"), ("x-forwarded-for", list)];
    // Clients whose entry is unreadable share the bucket of the proxy.
    assert!(is_same_client(&layer, &[("peer", "10.0.0.2")], &proxy("unknown")).await);
    for unreadable in
        ["6.6.6.6, unknown", "6.6.6.6, ", "6.6.6.6, 1.2.3.4.5", "6.6.6.6, _hidden", "6.6.6.6 7.7.7.7"]
    {
        assert_eq!(status(&layer, "/", &proxy(unreadable)).await, 429, "{unreadable}");
    }
    assert!(
        is_same_client(&layer, &proxy("6.6.6.6, oops, 10.0.0.3"), &proxy("7.7.7.7, oops, 10.0.0.3")).await
    );
    let twice = forwarded();
    let proxy = |list| [("peer", "10.0.0.2"), ("forwarded", list)];
    assert!(
        is_same_client(&twice, &[("peer", "10.0.0.2")], &proxy("for=6.6.6.6;for=203.0.113.9")).await,
        "two `for` are ambiguous"
    );
}

#[tokio::test]
async fn if_all_entries_are_trusted_the_leftmost_is_the_client() {
    let layer = x_forwarded_for();
    let headers = [("peer", "10.0.0.2"), ("x-forwarded-for", "10.1.1.1, 10.0.0.3")];
    assert!(is_same_client(&layer, &headers, &[("peer", "10.1.1.1")]).await);
}

#[tokio::test]
async fn a_named_header_is_read_from_trusted_proxies_only() {
    let layer =
        layer(peer_address().header(HeaderName::from_static("cf-connecting-ip"), ["10.0.0.2"]).unwrap());
    let client = [("peer", "10.0.0.2"), ("cf-connecting-ip", "2001:db8::1")];
    let again =
        [("peer", "10.0.0.2"), ("cf-connecting-ip", "2001:db8::ffff"), ("x-forwarded-for", "6.6.6.6")];
    assert!(is_same_client(&layer, &client, &again).await, "the same /64, and no other header is read");
    let neighbour = [("peer", "10.0.0.3"), ("cf-connecting-ip", "2001:db8:1::1")];
    assert!(is_same_client(&layer, &[("peer", "10.0.0.3")], &neighbour).await, "10.0.0.3 is not trusted");
}

#[tokio::test]
async fn ipv4_mapped_addresses_are_ipv4_clients() {
    let layer = x_forwarded_for();
    let mapped = [("peer", "::ffff:10.0.0.2"), ("x-forwarded-for", "::ffff:203.0.113.9")];
    assert!(is_same_client(&layer, &mapped, &[("peer", "203.0.113.9")]).await);
}

#[tokio::test]
async fn a_nat64_address_cannot_pass_for_a_private_proxy() {
    let layer = x_forwarded_for();
    let spoof = |client| [("peer", "64:ff9b::10.0.0.2"), ("x-forwarded-for", client)];
    assert!(is_same_client(&layer, &spoof("6.6.6.6"), &spoof("7.7.7.7")).await);
}

#[tokio::test]
async fn ipv6_clients_are_grouped_by_64_bits_by_default() {
    let layer = layer(peer_address());
    assert!(
        is_same_client(&layer, &[("peer", "2001:db8:1:200::1")], &[("peer", "2001:db8:1:200:ffff::2")]).await
    );
    assert_eq!(
        status(&layer, "/", &[("peer", "2001:db8:1:201::1")]).await,
        200,
        "the next /64 is another one"
    );
}

#[tokio::test]
async fn ipv6_clients_are_grouped_by_the_chosen_prefix() {
    let wide = layer(peer_address().ipv6_prefix(48).unwrap());
    assert!(is_same_client(&wide, &[("peer", "2001:db8:1:1::1")], &[("peer", "2001:db8:1:ffff::1")]).await);
    let narrow = layer(peer_address().ipv6_prefix(128).unwrap());
    assert!(!is_same_client(&narrow, &[("peer", "2001:db8:1:1::1")], &[("peer", "2001:db8:1:1::2")]).await);
    for bits in [0, 129] {
        assert_eq!(peer_address().ipv6_prefix(bits).unwrap_err(), AddressError::Ipv6Prefix { given: bits });
    }
    assert_eq!(
        peer_address().forwarded(["0.0.0.0/0"]).unwrap_err(),
        AddressError::TrustsEveryone { given: "0.0.0.0/0".into() }
    );
}

#[tokio::test]
async fn one_address_may_have_limits_of_its_own() {
    let client = peer_address().x_forwarded_for(["10.0.0.0/8"]).unwrap();
    let office = client.key_of("::ffff:192.0.2.1".parse().unwrap());
    let rule =
        Rule::new("api", hourly_bucket(1)).key(KeyBy::client(client)).for_key(office, hourly_bucket(3));
    let layer = layer_with(rule).build().unwrap();
    for expected in [200, 200, 200, 429] {
        let headers = [("peer", "10.0.0.2"), ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(status(&layer, "/", &headers).await, expected);
    }
    assert!(is_same_client(&layer, &[("peer", "192.0.2.2")], &[("peer", "192.0.2.2")]).await);
}

#[tokio::test]
async fn clients_of_an_allowed_network_are_not_limited() {
    let client = peer_address().x_forwarded_for(["10.0.0.0/8"]).unwrap();
    let is_office = client.within(["192.0.2.0/24", "2001:db8::/32", "10.0.0.0/8"]).unwrap();
    let rule = Rule::new("api", hourly_bucket(1)).key(KeyBy::client(client)).skip(is_office);
    let layer = layer_with(rule).build().unwrap();
    let office: [&[(&str, &str)]; 4] = [
        &[("peer", "192.0.2.7")],
        &[("peer", "::ffff:192.0.2.7")],
        &[("peer", "10.0.0.2"), ("x-forwarded-for", "6.6.6.6, 2001:db8::1")],
        &[("peer", "10.0.0.2")],
    ];
    for headers in office {
        assert_eq!(statuses(&layer, 3, headers).await, [200; 3], "{headers:?}");
    }
    let others: [&[(&str, &str)]; 4] = [
        &[("peer", "192.0.3.7")],
        &[("peer", "10.0.0.2"), ("x-forwarded-for", "192.0.2.7, 6.6.6.6")],
        &[("peer", "203.0.113.1"), ("x-forwarded-for", "192.0.2.7")],
        &[("x-forwarded-for", "192.0.2.7")],
    ];
    for headers in others {
        assert_eq!(statuses(&layer, 2, headers).await, [200, 429], "{headers:?}");
    }
    let wrong = AddressError::InvalidNetwork { given: "office".into() };
    assert_eq!(peer_address().within(["office"]).err(), Some(wrong));
}

#[tokio::test]
async fn a_header_of_four_bytes_shares_no_addresss_limit() {
    let api_key = || by_header("x-api-key");
    let closure = KeyBy::request(|head, key| match (head.header("x-api-key"), peer_address().of(head)) {
        (Some(api_key), _) => key.push(api_key),
        (None, Some(address)) => key.push(peer_address().key_of(address)),
        (None, None) => {}
    });
    for by in [closure, api_key().or(by_peer()), by_peer().or(api_key())] {
        let layer = layer_with(Rule::new("api", hourly_bucket(1)).key(by)).build().unwrap();
        // The bytes of the address 97.98.99.100.
        assert!(!is_same_client(&layer, &[("x-api-key", "abcd")], &[("peer", "97.98.99.100")]).await);
        assert_eq!(status(&layer, "/", &[("x-api-key", "abcd")]).await, 429);
    }
}
