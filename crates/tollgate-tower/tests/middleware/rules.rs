//! The limits that apply to a request, all or nothing.

use std::time::Duration;

use http::Method;
use tollgate::{FixedWindow, ManualClock, Quota, Rate, SlidingLog, TokenBucket, WhenFull};
use tollgate_tower::{BuildError, MissingKey, Rule, TollgateLayer};

use crate::support::{
    by_header, by_peer, header, hourly_bucket, layer_with, request, send, status, statuses,
};

#[tokio::test]
async fn several_limits_of_a_rule_are_charged_all_or_nothing() {
    let clock = ManualClock::new();
    let quotas: [Quota; 2] =
        [TokenBucket::new(Rate::per_second(10)).into(), FixedWindow::new(Rate::per_hour(15)).into()];
    let layer = layer_with(Rule::new("api", quotas).key(by_peer())).clock(clock.clone()).build().unwrap();
    let alice = [("peer", "192.0.2.1")];
    assert_eq!(statuses(&layer, 12, &alice).await, [&[200; 10][..], &[429; 2]].concat());
    clock.advance(Duration::from_secs(1));
    // The two refused requests were not charged to the hour.
    assert_eq!(statuses(&layer, 6, &alice).await, [&[200; 5][..], &[429]].concat());
    let response = send(&layer, request("/", &alice)).await;
    assert_eq!(header(&response, "retry-after"), Some("3599"), "the limit per hour refuses");
    assert_eq!(header(&response, "ratelimit"), Some("\"api/h\";r=0;t=3599"));
}

#[tokio::test]
async fn a_refusal_by_a_later_rule_refunds_the_earlier_rules() {
    for last in [Rule::new("last", hourly_bucket(1)), Rule::new("last", [SlidingLog::new(Rate::per_hour(1))])]
    {
        let layer = layer_with(Rule::new("first", hourly_bucket(3)).key(by_peer()))
            .rule(Rule::new("watch", hourly_bucket(2)).shadow())
            .rule(last.key(by_header("api-key")))
            .build()
            .unwrap();
        assert_eq!(status(&layer, "/", &[("peer", "192.0.2.1"), ("api-key", "a")]).await, 200);
        for _ in 0..10 {
            assert_eq!(status(&layer, "/", &[("peer", "192.0.2.1"), ("api-key", "a")]).await, 429);
        }
        let response = send(&layer, request("/", &[("peer", "192.0.2.1"), ("api-key", "b")])).await;
        assert_eq!(header(&response, "ratelimit"), Some("\"first\";r=1;t=3600, \"last\";r=0;t=3600"));
    }
}

#[tokio::test]
async fn when_tier_and_for_key_select_the_limits() {
    let layer = layer_with(
        Rule::new("api", hourly_bucket(1))
            .key(by_header("api-key"))
            .tier(|head| head.header("x-plan") == Some(b"gold"), hourly_bucket(3))
            .tier(|head| head.header("x-plan").is_some(), hourly_bucket(2))
            .for_key("partner", hourly_bucket(4)),
    )
    .rule(Rule::new("writes", hourly_bucket(1)).when(|head| head.method() == Method::POST))
    .build()
    .unwrap();
    let admitted = |headers: &'static [(&str, &str)]| {
        let layer = layer.clone();
        async move { statuses(&layer, 6, headers).await.iter().filter(|status| **status == 200).count() }
    };
    assert_eq!(admitted(&[("api-key", "a")]).await, 1);
    assert_eq!(admitted(&[("api-key", "b"), ("x-plan", "gold")]).await, 3);
    assert_eq!(admitted(&[("api-key", "c"), ("x-plan", "silver")]).await, 2);
    assert_eq!(admitted(&[("api-key", "partner"), ("x-plan", "gold")]).await, 4, "a key's own limits win");
    assert_eq!(admitted(&[("api-key", "d"), ("method", "POST")]).await, 1);
    assert_eq!(admitted(&[("api-key", "e"), ("method", "POST")]).await, 0, "one write for all keys");
    assert_eq!(admitted(&[("api-key", "e")]).await, 1, "the refused write was not charged");
}

#[tokio::test]
async fn a_cost_is_charged_or_refused_if_above_the_limit() {
    let cost = |head: tollgate_tower::RequestHead<'_>| {
        head.header("x-cost").map_or(1, |cost| str::from_utf8(cost).unwrap().parse().unwrap())
    };
    let layer = layer_with(Rule::new("api", hourly_bucket(10)).cost(cost)).build().unwrap();
    assert_eq!(status(&layer, "/", &[("x-cost", "7")]).await, 200);
    assert_eq!(status(&layer, "/", &[("x-cost", "11")]).await, 400, "above the limit");
    assert_eq!(status(&layer, "/", &[("x-cost", "18446744073709551615")]).await, 400);
    assert_eq!(status(&layer, "/", &[("x-cost", "4")]).await, 429);
    assert_eq!(status(&layer, "/", &[("x-cost", "0")]).await, 200, "costs nothing");
    assert_eq!(status(&layer, "/", &[("x-cost", "3")]).await, 200, "the refused requests were not charged");
    assert_eq!(
        status(&layer, "/", &[("x-cost", "0")]).await,
        200,
        "cost 0 is admitted when the limit is spent"
    );
}

#[tokio::test]
async fn requests_without_a_key_share_skip_or_are_refused() {
    let layer = |missing| {
        layer_with(Rule::new("api", hourly_bucket(1)).key(by_header("api-key")).missing_key(missing))
            .build()
            .unwrap()
    };
    assert_eq!(statuses(&layer(MissingKey::Share), 2, &[]).await, [200, 429]);
    assert_eq!(statuses(&layer(MissingKey::Skip), 3, &[]).await, [200; 3]);
    assert_eq!(statuses(&layer(MissingKey::Refuse), 2, &[]).await, [400; 2]);
    assert_eq!(
        statuses(&layer(MissingKey::Refuse), 2, &[("api-key", "")]).await,
        [400; 2],
        "an empty key is a missing key"
    );
    assert_eq!(statuses(&layer(MissingKey::Refuse), 2, &[("api-key", "a")]).await, [200, 429]);
    // No key can spend the limit that requests without a key share.
    let share = layer(MissingKey::Share);
    for key in ["*", "anonymous", " ", "0"] {
        status(&share, "/", &[("api-key", key)]).await;
    }
    assert_eq!(status(&share, "/", &[]).await, 200);
    // By default requests without a key share a limit, so a server that attaches no address still
    // serves.
    let forgetful = layer_with(Rule::new("api", hourly_bucket(1)).key(by_peer())).build().unwrap();
    assert_eq!(statuses(&forgetful, 2, &[]).await, [200, 429]);
}

#[tokio::test]
async fn a_shadow_rule_reports_and_never_refuses() {
    let layer = layer_with(Rule::new("shadow", hourly_bucket(1)).key(by_peer()).shadow())
        .rule(
            Rule::new("refuses-nobody", hourly_bucket(1))
                .key(by_header("api-key"))
                .missing_key(MissingKey::Refuse)
                .shadow(),
        )
        .build()
        .unwrap();
    for _ in 0..3 {
        let response = send(&layer, request("/", &[("peer", "192.0.2.1")])).await;
        assert_eq!((response.status().as_u16(), header(&response, "ratelimit")), (200, None));
    }
}

#[tokio::test]
async fn clones_and_all_their_services_share_one_state() {
    let layer = layer_with(Rule::new("api", hourly_bucket(2))).build().unwrap();
    assert_eq!(status(&layer.clone(), "/", &[]).await, 200);
    assert_eq!(status(&layer, "/", &[]).await, 200);
    assert_eq!(status(&layer.clone(), "/", &[]).await, 429);
}

#[tokio::test]
async fn keys_of_any_length_are_distinct() {
    let layer = layer_with(Rule::new("api", hourly_bucket(1)).key(by_header("api-key"))).build().unwrap();
    let long = "k".repeat(8_000);
    for key in [format!("{long}a"), format!("{long}b"), long.clone(), "k".repeat(128), "k".repeat(129)] {
        assert_eq!(statuses(&layer, 2, &[("api-key", &key)]).await, [200, 429]);
    }
}

#[tokio::test]
async fn when_full_decides_about_a_new_key() {
    for (when_full, expected) in [(WhenFull::Deny, [429, 429]), (WhenFull::Allow, [200, 200])] {
        let rule = Rule::new("api", hourly_bucket(1)).key(by_header("k")).max_keys(1).when_full(when_full);
        let layer = layer_with(rule).build().unwrap();
        for key in 0..1_000 {
            status(&layer, "/", &[("k", &key.to_string())]).await;
        }
        assert_eq!(statuses(&layer, 2, &[("k", "new")]).await, expected, "{when_full:?}");
    }
}

#[test]
fn invalid_settings_are_errors() {
    let build = |rules: Vec<Rule>| {
        rules.into_iter().fold(TollgateLayer::builder(), |layer, rule| layer.rule(rule)).build().map(drop)
    };
    let rule = |name: &str| Rule::new(name, hourly_bucket(1));
    assert_eq!(build(vec![]), Err(BuildError::RuleCount { given: 0 }));
    assert_eq!(
        build((0..9).map(|number| rule(&number.to_string())).collect()),
        Err(BuildError::RuleCount { given: 9 })
    );
    assert_eq!(build((0..8).map(|number| rule(&number.to_string())).collect()), Ok(()));
    assert_eq!(build(vec![rule("a"), rule("a")]), Err(BuildError::DuplicateName { name: "a".into() }));
    let twice = rule("a")
        .for_key("k", hourly_bucket(2))
        .for_key("l", hourly_bucket(3))
        .for_key("k", hourly_bucket(4));
    assert_eq!(build(vec![twice]), Err(BuildError::DuplicateKey { rule: "a".into() }));
    let several = |name: &str| Rule::new(name, [Rate::per_hour(5), Rate::per_day(9)].map(TokenBucket::new));
    let same = Err(BuildError::DuplicateName { name: "a/h".into() });
    assert_eq!(build(vec![several("a"), rule("a/h")]), same);
    assert_eq!(build(vec![rule("a/h"), several("a")]), same);
    assert_eq!(build(vec![several("a"), rule("b/h")]), Ok(()));
    for name in ["", "two words", "quote\"", "back\\slash", "é", "line\n", &"n".repeat(65)] {
        assert_eq!(build(vec![rule(name)]), Err(BuildError::RuleName { given: name.into() }));
    }
    let none: [Quota; 0] = [];
    for bad in [
        Rule::new("api", none),
        Rule::new("api", [Quota::from(hourly_bucket(1)[0]); 9]),
        Rule::new("api", hourly_bucket(0)),
        Rule::new("api", hourly_bucket(1)).tier(|_| true, hourly_bucket(0)),
        Rule::new("api", hourly_bucket(1)).for_key("k", hourly_bucket(0)),
        Rule::new("api", hourly_bucket(1)).max_keys(0),
    ] {
        let error = build(vec![bad]).unwrap_err();
        assert!(matches!(&error, BuildError::Limit { rule, .. } if rule == "api"), "{error}");
    }
}
