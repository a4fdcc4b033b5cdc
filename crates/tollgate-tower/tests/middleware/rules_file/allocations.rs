//! The allocations of admitted requests.

use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};

use tollgate_tower::{RequestHead, RulesLayer};
use tower::{Layer, Service};

use super::File;
use crate::allocations::{Roomy, roomy};
use crate::support::request;

#[derive(Clone)]
struct User(&'static str);

fn user(head: RequestHead<'_>) -> Option<std::borrow::Cow<'_, str>> {
    Some(head.extension::<User>()?.0.into())
}

#[test]
fn an_admitted_request_by_a_file_allocates_nothing() {
    let file = File::new(
        "clients.trusted_proxies = ['192.0.0.0/16']
         answer.styles = ['ietf', 'x-ratelimit', 'x-ratelimit-epoch', 'trio']
         rule = [
            { name = 'each', key = 'client', limits = ['1000000/s', 'fixed-window:1000000/d'] },
            { name = 'keyed', match.path = '/a/{id}', key = ['label.user', 'path.id', 'header.api-key'], limits = '1000000/s' },
            { name = 'all', except.path = '/health', key = 'everyone', limits = 'unlimited' },
            { name = 'trial', match.cookie.c = 'a*', key = 'query.q', limits = '1000000/s', mode = 'shadow' },
        ]",
    );
    // Each request by a service of its own, as axum's router does.
    let layer: RulesLayer = RulesLayer::builder(&file.0, |peer: &SocketAddr| Some(peer.ip()))
        .label("user", user)
        .on_decision(|_| {})
        .build()
        .unwrap();
    let requests: Vec<_> = (0..1_500_u16)
        .map(|number| {
            let [high, low] = number.to_be_bytes();
            let mut request = request(
                "/a/x?q=7&r",
                &[
                    ("peer", &format!("192.0.{high}.{low}")),
                    ("api-key", "a key of some length, as they are"),
                    ("x-forwarded-for", "6.6.6.6, 203.0.113.9"),
                    ("cookie", "b=1; c=abc"),
                ],
            );
            request.extensions_mut().insert(User("ada"));
            request
        })
        .collect();
    let service = layer.layer(Roomy);
    let serve = |request| {
        let mut service = service.clone();
        assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
        let mut future = std::pin::pin!(service.call(request));
        let Poll::Ready(response) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("an admitted request does not wait")
        };
        assert_eq!(response.unwrap().status(), 200);
    };
    let mut requests = requests.into_iter();
    requests.by_ref().take(500).for_each(serve);
    let bare = allocation_counter::measure(|| (0..1_000).for_each(|_| drop(roomy()))).count_total;
    assert_eq!(allocation_counter::measure(|| requests.for_each(serve)).count_total - bare, 0);
}
