//! Who the client is, and what trusted layers say of it.

use std::net::SocketAddr;

use http::Request;
use tollgate_tower::RulesLayer;

use super::{File, X, layer, serve_by, status, statuses};
use crate::support::{Echo, request};

const BY_CLIENT: &str = "rule = [{ name = 'each', key = 'client', limits = '1/h' }]";

#[tokio::test]
async fn only_proxies_that_the_file_trusts_name_clients() {
    let rules = format!("clients.trusted_proxies = ['10.0.0.0/8']\n{BY_CLIENT}");
    let layer = layer(&rules);
    let behind = |chain| [("peer", "10.0.0.2"), ("x-forwarded-for", chain)];
    assert_eq!(statuses(&layer, 2, "/", &behind("6.6.6.6, 203.0.113.9, 10.0.0.7")).await, [200, 429]);
    assert_eq!(status(&layer, "/", &[X]).await, 429, "it is the same client");
    assert_eq!(status(&layer, "/", &behind("7.7.7.7, 203.0.113.9")).await, 429);
    assert_eq!(status(&layer, "/", &behind("203.0.113.10")).await, 200);
    let forged = |chain| [("peer", "198.51.100.7"), ("x-forwarded-for", chain)];
    assert_eq!(status(&layer, "/", &forged("6.6.6.6")).await, 200);
    assert_eq!(status(&layer, "/", &forged("6.6.6.7")).await, 429, "its header counts for nothing");
}

#[tokio::test]
async fn the_file_names_the_header_of_the_proxies() {
    for (header, value) in [("forwarded", "for=203.0.113.9;proto=https"), ("cf-connecting-ip", "203.0.113.9")]
    {
        let clients =
            format!("clients = {{ trusted_proxies = ['10.0.0.2'], header = '{header}' }}\n{BY_CLIENT}");
        let layer = layer(&clients);
        let other = ("x-forwarded-for", "6.6.6.6");
        assert_eq!(status(&layer, "/", &[("peer", "10.0.0.2"), (header, value), other]).await, 200);
        assert_eq!(status(&layer, "/", &[X]).await, 429, "{header}");
    }
}

#[tokio::test]
async fn an_allow_list_frees_and_a_block_list_refuses() {
    let layer = layer(
        "lists = { office = ['192.0.2.0/24'], banned = ['203.0.113.9'] }
         clients.trusted_proxies = ['10.0.0.2']
         rule = [
            { name = 'each', key = 'client', limits = '1/h' },
            { name = 'office', match.client = '@office', key = 'everyone', limits = 'unlimited', replaces = ['*'] },
            { name = 'banned', match.client = '@banned', key = 'everyone', limits = 'block', refuse.status = 403 },
        ]",
    );
    assert_eq!(statuses(&layer, 3, "/", &[("peer", "192.0.2.7")]).await, [200; 3]);
    assert_eq!(statuses(&layer, 2, "/", &[X]).await, [403; 2]);
    assert_eq!(statuses(&layer, 2, "/", &[("peer", "198.51.100.7")]).await, [200, 429]);
    let claims = [("peer", "198.51.100.8"), ("x-forwarded-for", "192.0.2.7")];
    assert_eq!(statuses(&layer, 2, "/", &claims).await, [200, 429], "a client does not free itself");
}

#[derive(Clone)]
struct User(&'static str, u64);

fn of(user: Option<User>) -> Request<String> {
    let mut request = request("/", &[("label", "ada"), ("user", "ada"), ("plan", "gold")]);
    request.extensions_mut().extend(
        user.map(|user| {
            let mut extensions = http::Extensions::new();
            extensions.insert(user);
            extensions
        })
        .unwrap_or_default(),
    );
    request
}

#[tokio::test]
async fn labels_are_what_the_layers_closures_say() {
    let file = File::new(
        "[[rule]]
         name = 'each'
         key = 'label.user'
         missing = 'refuse'
         limits = '1/h'
         tier = [{ name = 'gold', match.label.plan = 'gold', limits = '3/h' }]",
    );
    let layer: RulesLayer = RulesLayer::builder(&file.0, |peer: &SocketAddr| Some(peer.ip()))
        .label("user", |_| Some("all".into()))
        .label("user", |head| Some(head.extension::<User>()?.0.into()))
        .label("plan", |head| {
            Some((if head.extension::<User>()?.1 > 7 { "gold" } else { "free" }).to_owned().into())
        })
        .build()
        .unwrap();
    let mut served = Vec::new();
    for user in [None, Some(User("ada", 1)), Some(User("ada", 1)), Some(User("bob", 8)), Some(User("bob", 8))]
    {
        served.push(serve_by(&layer, Echo, of(user)).await.status().as_u16());
    }
    assert_eq!(served, [429, 200, 429, 200, 200]);
}
