//! Changes of limits while the layer serves.

use std::time::Duration;

use tollgate::{BuildError, FixedWindow, Inherit, LeakyBucket, ManualClock, Quota, Rate, TokenBucket};
use tollgate_tower::{Backend, OnBackendError, ReconfigureError, Rule, StoreReply, TollgateLayer};

use crate::support::{by_header, header, hourly_bucket, layer_with, request, send, status, statuses};

fn bucket(burst: u64) -> TokenBucket {
    hourly_bucket(burst)[0]
}

#[tokio::test]
async fn a_new_limit_applies_at_once_and_keeps_debt() {
    let clock = ManualClock::new();
    let layer = layer_with(Rule::new("api", hourly_bucket(3)).key(by_header("k")))
        .clock(clock.clone())
        .build()
        .unwrap();
    let serving = layer.clone();
    assert_eq!(statuses(&serving, 4, &[("k", "a")]).await, [200, 200, 200, 429]);
    layer.reconfigure("api", hourly_bucket(5), Inherit::Additive).unwrap();
    let response = send(&serving, request("/", &[("k", "a")])).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "ratelimit-policy")),
        (200, Some("\"api\";q=5;w=18000"))
    );
    assert_eq!(statuses(&serving, 2, &[("k", "a")]).await, [200, 429], "the debt of three counts");
    assert_eq!(statuses(&serving, 6, &[("k", "b")]).await, [200, 200, 200, 200, 200, 429]);
    layer.reconfigure("api", hourly_bucket(2), Inherit::AsIs).unwrap();
    assert_eq!(statuses(&serving, 1, &[("k", "a")]).await, [429]);
    assert_eq!(statuses(&serving, 3, &[("k", "c")]).await, [200, 200, 429]);
    clock.advance(Duration::from_secs(3_600));
    let response = send(&serving, request("/", &[("k", "a")])).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "ratelimit-policy")),
        (200, Some("\"api\";q=2;w=7200"))
    );
}

#[tokio::test]
async fn inherit_decides_what_a_key_has_left() {
    for (inherit, left) in [(Inherit::AsIs, 6), (Inherit::Additive, 16), (Inherit::Reset, 20)] {
        let rule = Rule::new("api", hourly_bucket(10)).cost(|head| if head.path() == "/" { 4 } else { 0 });
        let layer = layer_with(rule).clock(ManualClock::new()).build().unwrap();
        assert_eq!(status(&layer, "/", &[]).await, 200);
        layer.reconfigure("api", hourly_bucket(20), inherit).unwrap();
        let response = send(&layer, request("/free", &[])).await;
        assert!(
            header(&response, "ratelimit").unwrap().starts_with(&format!("\"api\";r={left};")),
            "{inherit:?}: {:?}",
            response.headers()
        );
    }
}

#[tokio::test]
async fn a_tier_and_a_key_change_separately() {
    let rule = Rule::new("api", hourly_bucket(1))
        .key(by_header("k"))
        .tier(|head| head.path() == "/gold", hourly_bucket(1));
    let layer = layer_with(rule.for_key("partner", hourly_bucket(1))).build().unwrap();
    layer.reconfigure_tier("api", 1, hourly_bucket(2), Inherit::Additive).unwrap();
    layer.reconfigure_key("api", "partner", hourly_bucket(3), Inherit::Additive).unwrap();
    assert_eq!(statuses(&layer, 2, &[("k", "a")]).await, [200, 429]);
    for expected in [200, 200, 429] {
        assert_eq!(status(&layer, "/gold", &[("k", "a")]).await, expected);
    }
    assert_eq!(statuses(&layer, 4, &[("k", "partner")]).await, [200, 200, 200, 429]);
}

#[tokio::test]
async fn several_limits_change_together_and_keep_debt() {
    let clock = ManualClock::new();
    let quotas = |burst, window| [Quota::from(bucket(burst)), FixedWindow::new(Rate::per_day(window)).into()];
    let rule = Rule::new("api", quotas(3, 9)).key(by_header("k"));
    let layer = layer_with(rule.for_key("partner", quotas(1, 2))).clock(clock.clone()).build().unwrap();
    assert_eq!(statuses(&layer, 4, &[("k", "a")]).await, [200, 200, 200, 429]);
    layer.reconfigure("api", quotas(5, 4), Inherit::Additive).unwrap();
    // The bucket has two left, the window one.
    let response = send(&layer, request("/", &[("k", "a")])).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "ratelimit-policy")),
        (200, Some("\"api/h\";q=5;w=18000, \"api/d\";q=4;w=86400"))
    );
    let response = send(&layer, request("/", &[("k", "a")])).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "ratelimit-policy")),
        (429, Some("\"api/h\";q=5;w=18000, \"api/d\";q=4;w=86400"))
    );
    assert!(header(&response, "ratelimit").unwrap().starts_with("\"api/d\";r=0;"), "only the window refuses");
    clock.advance(Duration::from_secs(86_400));
    assert_eq!(statuses(&layer, 5, &[("k", "a")]).await, [200, 200, 200, 200, 429]);
    layer.reconfigure_key("api", "partner", quotas(3, 3), Inherit::Additive).unwrap();
    assert_eq!(statuses(&layer, 4, &[("k", "partner")]).await, [200, 200, 200, 429]);
}

#[test]
fn a_change_that_is_impossible_is_an_error() {
    struct Hangs;
    impl Backend for Hangs {
        type Error = std::convert::Infallible;
        type Receipt = ();
        async fn decide(&self, _: &[u8], _: u64) -> Result<StoreReply, Self::Error> {
            std::future::pending().await
        }
    }
    let several = [Quota::from(bucket(1)), FixedWindow::new(Rate::per_hour(1)).into()];
    let layer: TollgateLayer = layer_with(Rule::new("one", hourly_bucket(1)))
        .rule(Rule::new("several", several))
        .rule(Rule::new("meter", [LeakyBucket::meter(Rate::per_second(1))]))
        .rule(Rule::backend("there", Hangs, OnBackendError::Refuse))
        .build()
        .unwrap();
    let change = |rule: &str, quota: Quota| layer.reconfigure(rule, [quota], Inherit::AsIs).unwrap_err();
    let rule = |name: &str| name.to_owned();
    assert_eq!(change("none", bucket(1).into()), ReconfigureError::UnknownRule { rule: rule("none") });
    let limits = |name: &str| ReconfigureError::Limit {
        rule: rule(name),
        error: BuildError::CannotInherit { field: "limits" },
    };
    assert_eq!(change("several", bucket(1).into()), limits("several"));
    assert_eq!(layer.reconfigure("one", [bucket(1); 2], Inherit::AsIs), Err(limits("one")));
    let swapped = layer.reconfigure("several", [several[1], several[0]], Inherit::AsIs);
    let error = BuildError::CannotInherit { field: "algorithm" };
    assert_eq!(swapped, Err(ReconfigureError::Limit { rule: rule("several"), error }));
    assert_eq!(change("there", bucket(1).into()), ReconfigureError::Backend { rule: rule("there") });
    assert!(matches!(change("one", bucket(0).into()), ReconfigureError::Limit { .. }));
    assert!(matches!(
        change("one", FixedWindow::new(Rate::per_hour(1)).into()),
        ReconfigureError::Limit { .. }
    ));
    let queue = LeakyBucket::queue(Rate::per_second(1)).into();
    let error = BuildError::CannotInherit { field: "mode" };
    assert_eq!(change("meter", queue), ReconfigureError::Limit { rule: rule("meter"), error });
    let tier = layer.reconfigure_tier("one", 1, hourly_bucket(1), Inherit::AsIs);
    assert_eq!(tier, Err(ReconfigureError::UnknownTier { rule: rule("one"), tier: 1 }));
    let key = layer.reconfigure_key("one", "k", hourly_bucket(1), Inherit::AsIs);
    assert_eq!(key, Err(ReconfigureError::UnknownKey { rule: rule("one") }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_during_changes_never_exceed_the_largest_limit() {
    let layer = layer_with(Rule::new("api", hourly_bucket(100))).clock(ManualClock::new()).build().unwrap();
    let serving = layer.clone();
    let requests = tokio::spawn(async move {
        let mut admitted = 0;
        for _ in 0..500 {
            admitted += usize::from(status(&serving, "/", &[]).await == 200);
            tokio::task::yield_now().await;
        }
        admitted
    });
    for burst in (100..=200).chain((150..200).rev()) {
        layer.reconfigure("api", hourly_bucket(burst), Inherit::Additive).unwrap();
        tokio::task::yield_now().await;
    }
    let admitted = requests.await.unwrap();
    assert!((100..=200).contains(&admitted), "{admitted}");
}
