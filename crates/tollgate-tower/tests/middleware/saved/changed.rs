//! A restore under other settings: debts stay where they have a meaning, or it is told.

use super::*;

const A: [(&str, &str); 1] = [("k", "a")];

fn api(limits: impl IntoIterator<Item = impl Into<Limit>>) -> Rule {
    Rule::new("api", limits).key(by_header("k"))
}

fn settings(rule: Rule) -> Builder {
    layer_with(rule).clock(clock(Duration::ZERO))
}

/// The file of a layer with this rule, after four requests.
async fn after_four(rule: Rule) -> Vec<u8> {
    let layer = settings(rule).build().unwrap();
    assert_eq!(statuses(&layer, 4, &A).await, [200; 4]);
    saved(&layer)
}

fn left(layer: &TollgateLayer) -> u64 {
    layer.handle("api").unwrap().key("a").unwrap().peek(0).remaining
}

#[tokio::test]
async fn debts_stay_under_limits_of_other_numbers() {
    let minute = Rate::per_minute;
    let changes: [(Quota, Quota, u64); 7] = [
        (hourly_bucket(10)[0].into(), hourly_bucket(20)[0].into(), 16),
        (hourly_bucket(10)[0].into(), TokenBucket::new(minute(7)).into(), 3),
        (hourly_bucket(10)[0].into(), hourly_bucket(4)[0].into(), 0),
        (FixedWindow::new(minute(10)).into(), FixedWindow::new(minute(15)).into(), 11),
        (SlidingWindow::new(minute(10)).into(), SlidingWindow::new(minute(15)).into(), 11),
        (SlidingLog::new(minute(10)).into(), SlidingLog::new(minute(7)).into(), 3),
        (LeakyBucket::meter(minute(10)).into(), LeakyBucket::meter(minute(12)).into(), 8),
    ];
    for (old, new, expected) in changes {
        let file = after_four(api([old])).await;
        let layer = restored(settings(api([new])), &file);
        assert_eq!(left(&layer), expected, "{old} to {new}");
        // The quotas of the new layer are those that it saves.
        let layer = restored(settings(api([new])), &saved(&layer));
        assert_eq!(left(&layer), expected, "{old} to {new}, and again");
        layer.reconfigure("api", [new], Inherit::Additive).unwrap();
        assert_eq!(left(&layer), expected);
    }
}

#[tokio::test]
async fn a_ban_of_another_duration_keeps_the_share_left() {
    let banning = |ban| settings(api([FixedWindow::new(Rate::per_second(1))]).ban(Duration::from_secs(ban)));
    let layer = banning(600).build().unwrap();
    assert_eq!(statuses(&layer, 2, &A).await, [200, 429]);
    let file = saved(&layer);
    for (duration, left) in [(600, 300), (3_600, 1_800), (10, 5)] {
        let later = banning(duration).clock(clock(Duration::from_secs(300)));
        let layer = restored(later, &file);
        let peek = layer.handle("api").unwrap().key("a").unwrap().peek(0);
        assert_eq!((peek.remaining, peek.reset.as_secs_f64().round() as u64), (0, left));
    }
}

#[tokio::test]
async fn debts_without_a_meaning_are_told() {
    let four = [hourly_bucket(4)[0].into(), FixedWindow::new(Rate::per_hour(4)).into()];
    // The ring of a log does not grow: `rate.count` is out of range.
    let log = |count| SlidingLog::new(Rate::per_hour(count));
    let file = after_four(api([log(4)])).await;
    let (_, forgotten) = settings(api([log(5)])).restore(&file[..]).unwrap();
    assert!(forgotten[0].to_string().contains("rate.count is 5"), "{forgotten:?}");
    let changes: [(&[Quota], &str); 4] = [
        (&[FixedWindow::new(Rate::per_hour(4)).into()], "algorithm"),
        (&four, "limits"),
        (&[SlidingLog::new(Rate::per_hour(4)).into()], "algorithm"),
        (&[FixedWindow::new(Rate::per_hour(4)).from_first_hit().into()], "algorithm"),
    ];
    let file = after_four(api(hourly_bucket(4))).await;
    for (new, field) in changes {
        let (layer, forgotten) = settings(api(new.iter().copied())).restore(&file[..]).unwrap();
        let [forgotten] = &forgotten[..] else { panic!("{forgotten:?}") };
        let text = forgotten.to_string();
        assert!(text.starts_with("rule `api`: its debts are forgotten: "), "{text}");
        assert!(text.contains(field), "{text}");
        assert_eq!((&*forgotten.rule, &forgotten.limits), ("api", &SavedLimits::Own));
        assert_eq!(left(&layer), 4, "it begins anew");
        assert_eq!(statuses(&layer, 5, &A).await, [200, 200, 200, 200, 429]);
    }
}

#[tokio::test]
async fn a_table_too_small_for_the_debts_is_told() {
    let roomy = settings(api(hourly_bucket(4)).max_keys(4_096)).build().unwrap();
    for key in 0..2_000 {
        assert_eq!(status(&roomy, "/", &[("k", &key.to_string())]).await, 200);
    }
    let file = saved(&roomy);
    let (_, forgotten) = settings(api(hourly_bucket(4)).max_keys(64)).restore(&file[..]).unwrap();
    let [forgotten] = &forgotten[..] else { panic!("{forgotten:?}") };
    assert!(forgotten.to_string().contains("max_keys is 64"), "{forgotten}");
    restored(settings(api(hourly_bucket(4)).max_keys(8_192)), &file);
}

#[tokio::test]
async fn what_the_layer_no_longer_has_is_told_by_name() {
    let rule = || {
        api(hourly_bucket(9))
            .tier(|head| head.path() == "/paid", hourly_bucket(9))
            .for_key("secret", hourly_bucket(9))
            .ban(BAN)
    };
    let by_claim = || Rule::per_request("plan", |_| None);
    let layer = settings(rule()).rule(by_claim()).build().unwrap();
    assert_eq!(statuses(&layer, 4, &A).await, [200; 4]);
    let file = saved(&layer);
    let told = |builder: Builder| {
        let (layer, forgotten) = builder.restore(&file[..]).unwrap();
        let mut told: Vec<_> = forgotten.iter().map(ToString::to_string).collect();
        told.sort();
        (layer, told)
    };
    let plan = "rule `plan`: its debts are forgotten: the limit that comes with each request is not kept, \
                but was in force when the limiter was saved";
    let gone = |whose, what| {
        format!("rule `api`{whose} are forgotten: {what} is gone, but was there when the limiter was saved")
    };
    let (bans, own) = (gone(": its bans", "its ban"), gone(": its debts", "the rule's own limits"));
    let tier = gone(", tier `1`: its debts", "the tier");
    let key = gone(", tier `of one key`: its debts", "the tier");

    let (layer, forgotten) = told(settings(rule()));
    assert_eq!(forgotten, [plan]);
    assert_eq!(left(&layer), 5);
    let (layer, forgotten) = told(settings(api(hourly_bucket(9))).rule(by_claim()));
    assert_eq!(forgotten, [tier.clone(), key.clone(), bans.clone(), plan.into()]);
    assert_eq!(left(&layer), 5, "the rule's own limits are restored");
    let renamed = Rule::new("requests", hourly_bucket(9)).key(by_header("k"));
    let (layer, forgotten) = told(settings(renamed));
    assert_eq!(forgotten, [gone(": its debts", "the rule"), plan.into()]);
    assert_eq!(layer.handle("requests").unwrap().key("a").unwrap().peek(0).remaining, 9);
    let backend = Rule::backend("api", crate::shadow::Everything, OnBackendError::Refuse);
    let (_, forgotten) = told(settings(backend));
    assert_eq!(forgotten, [tier, key, bans, own, plan.into()]);
}

#[tokio::test]
async fn a_rule_that_was_not_saved_begins_without_debts() {
    let file = after_four(api(hourly_bucket(9))).await;
    let new = Rule::new("new", hourly_bucket(3)).key(by_header("k"));
    let (layer, forgotten) =
        layer_with(new).rule(api(hourly_bucket(9))).clock(clock(Duration::ZERO)).restore(&file[..]).unwrap();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    assert_eq!((left(&layer), layer.handle("new").unwrap().key("a").unwrap().peek(0).remaining), (5, 3));
    assert_eq!(status(&layer, "/", &A).await, 200);
}
