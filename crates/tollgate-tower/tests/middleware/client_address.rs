//! Whose request it is, through the whole layer: nobody chooses another's key, nor a new one for every request.

use http::HeaderName;
use tollgate_tower::{BuildError, ClientAddress, KeyBy, RateLimitLayer, Rule};

use crate::support::{of, one, peer, status};

/// One request for each client.
fn layer(client: ClientAddress) -> RateLimitLayer {
    one(Rule::new("api", of(1)).key(KeyBy::client(client))).build().unwrap()
}

fn x_forwarded_for() -> RateLimitLayer {
    layer(peer().x_forwarded_for(["10.0.0.0/8", "fd00::/8"]).unwrap())
}

fn forwarded() -> RateLimitLayer {
    layer(peer().forwarded(["10.0.0.0/8", "fd00::/8"]).unwrap())
}

/// Sends both; the second is of the same client exactly when it is refused.
async fn same(layer: &RateLimitLayer, one: &[(&str, &str)], other: &[(&str, &str)]) -> bool {
    assert_eq!(status(layer, "/", one).await, 200, "the first of its client: {one:?}");
    status(layer, "/", other).await == 429
}

#[tokio::test]
async fn headers_from_untrusted_peers_are_ignored() {
    for client in [
        layer(peer()),
        x_forwarded_for(),
        forwarded(),
        layer(peer().header(HeaderName::from_static("x-real-ip"), ["10.0.0.0/8"]).unwrap()),
    ] {
        let spoof = [
            ("peer", "203.0.113.1"),
            ("x-forwarded-for", "192.0.2.7, 10.0.0.1"),
            ("forwarded", "for=192.0.2.7, for=10.0.0.1"),
            ("x-real-ip", "192.0.2.7"),
        ];
        assert!(same(&client, &[("peer", "203.0.113.1")], &spoof).await);
        assert_eq!(status(&client, "/", &[("peer", "192.0.2.7")]).await, 200, "nor was the other charged");
    }
}

#[tokio::test]
async fn headers_are_ignored_if_the_peer_is_unknown() {
    let layer = x_forwarded_for();
    let headers = |client| [("x-forwarded-for", client)];
    assert!(same(&layer, &headers("192.0.2.1"), &headers("192.0.2.2")).await, "both are of nobody known");
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
        "nobody spent that one's"
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
    // All behind this proxy whose address nobody knows share the proxy's own bucket, whatever they write.
    assert!(same(&layer, &[("peer", "10.0.0.2")], &proxy("unknown")).await);
    for unreadable in
        ["6.6.6.6, unknown", "6.6.6.6, ", "6.6.6.6, 1.2.3.4.5", "6.6.6.6, _hidden", "6.6.6.6 7.7.7.7"]
    {
        assert_eq!(status(&layer, "/", &proxy(unreadable)).await, 429, "{unreadable}");
    }
    assert!(same(&layer, &proxy("6.6.6.6, oops, 10.0.0.3"), &proxy("7.7.7.7, oops, 10.0.0.3")).await);
    let twice = forwarded();
    let proxy = |list| [("peer", "10.0.0.2"), ("forwarded", list)];
    assert!(
        same(&twice, &[("peer", "10.0.0.2")], &proxy("for=6.6.6.6;for=203.0.113.9")).await,
        "two for= are none"
    );
}

#[tokio::test]
async fn if_all_entries_are_trusted_the_leftmost_is_the_client() {
    let layer = x_forwarded_for();
    let headers = [("peer", "10.0.0.2"), ("x-forwarded-for", "10.1.1.1, 10.0.0.3")];
    assert!(same(&layer, &headers, &[("peer", "10.1.1.1")]).await);
}

#[tokio::test]
async fn a_named_header_is_read_from_trusted_proxies_only() {
    let layer = layer(peer().header(HeaderName::from_static("cf-connecting-ip"), ["10.0.0.2"]).unwrap());
    let client = [("peer", "10.0.0.2"), ("cf-connecting-ip", "2001:db8::1")];
    let again =
        [("peer", "10.0.0.2"), ("cf-connecting-ip", "2001:db8::ffff"), ("x-forwarded-for", "6.6.6.6")];
    assert!(same(&layer, &client, &again).await, "one /64, and no other header");
    let neighbour = [("peer", "10.0.0.3"), ("cf-connecting-ip", "2001:db8:1::1")];
    assert!(same(&layer, &[("peer", "10.0.0.3")], &neighbour).await, "10.0.0.3 is no proxy of ours");
}

#[tokio::test]
async fn ipv4_mapped_addresses_are_ipv4_clients() {
    let layer = x_forwarded_for();
    let mapped = [("peer", "::ffff:10.0.0.2"), ("x-forwarded-for", "::ffff:203.0.113.9")];
    assert!(same(&layer, &mapped, &[("peer", "203.0.113.9")]).await);
}

#[tokio::test]
async fn a_nat64_address_cannot_pass_for_a_private_proxy() {
    let layer = x_forwarded_for();
    let spoof = |client| [("peer", "64:ff9b::10.0.0.2"), ("x-forwarded-for", client)];
    assert!(same(&layer, &spoof("6.6.6.6"), &spoof("7.7.7.7")).await);
}

#[tokio::test]
async fn ipv6_clients_are_grouped_by_64_bits_by_default() {
    let layer = layer(peer());
    assert!(same(&layer, &[("peer", "2001:db8:1:200::1")], &[("peer", "2001:db8:1:200:ffff::2")]).await);
    assert_eq!(
        status(&layer, "/", &[("peer", "2001:db8:1:201::1")]).await,
        200,
        "the next /64 is another one"
    );
}

#[tokio::test]
async fn ipv6_clients_are_grouped_by_the_chosen_prefix() {
    let wide = layer(peer().ipv6_prefix(48).unwrap());
    assert!(same(&wide, &[("peer", "2001:db8:1:1::1")], &[("peer", "2001:db8:1:ffff::1")]).await);
    let narrow = layer(peer().ipv6_prefix(128).unwrap());
    assert!(!same(&narrow, &[("peer", "2001:db8:1:1::1")], &[("peer", "2001:db8:1:1::2")]).await);
    for bits in [0, 129] {
        assert_eq!(peer().ipv6_prefix(bits).unwrap_err(), BuildError::Ipv6Prefix { given: bits });
    }
    assert_eq!(
        peer().forwarded(["0.0.0.0/0"]).unwrap_err(),
        BuildError::TrustsEveryone { given: "0.0.0.0/0".into() }
    );
}

#[tokio::test]
async fn one_address_may_have_limits_of_its_own() {
    let client = peer().x_forwarded_for(["10.0.0.0/8"]).unwrap();
    let office = client.key_of("::ffff:192.0.2.1".parse().unwrap());
    let rule = Rule::new("api", of(1)).key(KeyBy::client(client)).for_key(office, of(3));
    let layer = one(rule).build().unwrap();
    for expected in [200, 200, 200, 429] {
        let headers = [("peer", "10.0.0.2"), ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(status(&layer, "/", &headers).await, expected);
    }
    assert!(same(&layer, &[("peer", "192.0.2.2")], &[("peer", "192.0.2.2")]).await);
}
