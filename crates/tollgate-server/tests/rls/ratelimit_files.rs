//! Calls decided by unchanged files of envoyproxy/ratelimit.

use std::path::Path;
use std::time::Duration;

use tollgate_server::Settings;

use super::proto::{Code, DescriptorStatus, RateLimitOverride, RateLimitUnit, Unit};
use tollgate_rules::StoreServer;
use tollgate_testing::folder::Folder;
use tollgate_testing::stores::{Server, Store};

use super::{Running, call, client, loopback, short, start_with};

/// The reference's basic_config.yaml, as far as the cases need it.
const BASIC: &str = "\
domain: test-domain
descriptors:
  - key: key1
    value: value1
    descriptors:
      - key: subkey1
        rate_limit: { unit: second, requests_per_unit: 5 }
  - key: key2
    rate_limit: { unit: minute, requests_per_unit: 20 }
  - key: key2
    value: value2
    rate_limit: { unit: minute, requests_per_unit: 30 }
  - key: key2
    value: value3
  - key: key5
    value: value5
    descriptors:
      - key: subkey5
        value: subvalue5
        rate_limit: { unit: day, requests_per_unit: 15 }
  - key: key6
    rate_limit: { unlimited: true }
";

fn file(settings: &mut Settings, folder: &Path, text: &str) {
    let files = folder.join("ratelimit");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("config.yaml"), text).unwrap();
    settings.envoy.push(files);
}

async fn running(text: &str) -> Running {
    start_with("", |settings, folder| file(settings, folder, text)).await
}

/// Limit and unit of a status.
fn limit(status: &DescriptorStatus) -> Option<(u32, Unit)> {
    status.current_limit.as_ref().map(|limit| (limit.requests_per_unit, limit.unit()))
}

#[tokio::test]
async fn descriptors_have_the_limits_of_the_reference() {
    let server = running(BASIC).await;
    let mut client = client(&server).await;
    let cases: [(&[(&str, &str)], _, u32); 7] = [
        (&[("key1", "value1")], None, 0),
        (&[("key1", "value1"), ("subkey1", "x")], Some((5, Unit::Second)), 4),
        (&[("key2", "foo")], Some((20, Unit::Minute)), 19),
        (&[("key2", "value3")], None, 0),
        (&[("key2", "foo"), ("x", "y")], None, 0),
        (&[("key5", "value5"), ("subkey5", "other")], None, 0),
        (&[("key6", "a")], None, u32::MAX),
    ];
    for (entries, expected, remaining) in cases {
        let status = client.statuses(call("test-domain", &[entries])).await.remove(0);
        assert_eq!((status.code(), limit(&status), status.limit_remaining), (Code::Ok, expected, remaining));
        assert_eq!(status.duration_until_reset.is_some(), expected.is_some());
    }
    // All at once: a status each, in order.
    let all: Vec<_> = cases.iter().map(|case| case.0).collect();
    let limits: Vec<_> = client.statuses(call("test-domain", &all)).await.iter().map(limit).collect();
    assert_eq!(limits, cases.map(|case| case.1));
}

#[tokio::test]
async fn a_refused_descriptor_of_the_files_leaves_the_others_uncharged() {
    let text = "domain: d\ndescriptors:\n  - { key: one, rate_limit: { unit: day, requests_per_unit: 1 } }\n  \
        - { key: hundred, rate_limit: { name: big, unit: day, requests_per_unit: 100 } }\n";
    let server = running(text).await;
    let mut client = client(&server).await;
    let both = || call("d", &[&[("one", "1")], &[("hundred", "1")]]);
    assert_eq!(short(&client.statuses(both()).await), [(Code::Ok, 0), (Code::Ok, 99)]);
    let response = client.send(both()).await.unwrap();
    assert_eq!(short(&response.statuses), [(Code::OverLimit, 0), (Code::Ok, 99)]);
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(response.statuses[1].current_limit.as_ref().unwrap().name, "big");
    let [header] = &*response.response_headers_to_add else { panic!("retry-after alone") };
    let reset = response.statuses[0].duration_until_reset.as_ref().unwrap();
    assert_eq!((&*header.key, &*header.value), ("retry-after", &*reset.seconds.to_string()));
}

#[tokio::test]
async fn quota_mode_refuses_and_tells_a_wait_only_together() {
    let one = |key| {
        format!("  - {{ key: {key}, quota_mode: true, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}\n")
    };
    let server = running(&format!("domain: d\ndescriptors:\n{}{}", one("one"), one("two"))).await;
    let mut client = client(&server).await;
    client.statuses(call("d", &[&[("one", "1")]])).await;
    let both = || call("d", &[&[("one", "1")], &[("two", "1")]]);
    let response = client.send(both()).await.unwrap();
    assert_eq!(short(&response.statuses), [(Code::OverLimit, 0), (Code::Ok, 0)]);
    assert_eq!((response.overall_code(), response.response_headers_to_add.len()), (Code::Ok, 0));
    let response = client.send(both()).await.unwrap();
    assert_eq!(short(&response.statuses), [(Code::OverLimit, 0), (Code::OverLimit, 0)]);
    assert_eq!((response.overall_code(), response.response_headers_to_add.len()), (Code::OverLimit, 1));
}

#[tokio::test]
async fn domains_that_the_files_lack_are_the_rules() {
    let rules = "rule = [{ name = 'r', key = 'everyone', limits = 'fixed-window:3/d' }]";
    let server = start_with(rules, |settings, folder| file(settings, folder, BASIC)).await;
    let mut client = client(&server).await;
    let status = client.statuses(call("other", &[&[("key2", "foo")]])).await.remove(0);
    assert_eq!((limit(&status), status.limit_remaining), (Some((3, Unit::Day)), 2));
    let status = client.statuses(call("test-domain", &[&[("key2", "foo")]])).await.remove(0);
    assert_eq!(limit(&status), Some((20, Unit::Minute)));
    let status = client.statuses(call("other", &[&[("key2", "foo")]])).await.remove(0);
    assert_eq!(status.limit_remaining, 1, "the rules were not asked for the other domain");
}

#[tokio::test]
async fn a_descriptor_may_bring_its_limit() {
    let server = running(BASIC).await;
    let mut client = client(&server).await;
    let mut one = call("test-domain", &[&[("key2", "foo")]]);
    one.descriptors[0].limit =
        Some(RateLimitOverride { requests_per_unit: 2, unit: RateLimitUnit::Day.into() });
    for expected in [(Code::Ok, 1), (Code::Ok, 0), (Code::OverLimit, 0)] {
        let status = client.statuses(one.clone()).await.remove(0);
        assert_eq!(
            (limit(&status), (status.code(), status.limit_remaining)),
            (Some((2, Unit::Day)), expected)
        );
    }
}

#[tokio::test]
async fn metadata_of_limits_that_passed_is_told() {
    let text = "domain: d\ndescriptors:\n  - key: a\n    rate_limit: { unit: day, requests_per_unit: 1 }\n    \
        metadata: { plan: { name: gold, since: 2020 }, tags: [x, true, null] }\n  - key: b\n    \
        rate_limit: { unit: day, requests_per_unit: 9 }\n    metadata: { plan: { name: tin, by: b } }\n";
    let server = running(text).await;
    let mut client = client(&server).await;
    let told = |response: super::RateLimitResponse| {
        response.dynamic_metadata.map(|metadata| format!("{:?}", metadata.fields["metadata"]))
    };
    let both = || call("d", &[&[("a", "1")], &[("b", "1")]]);
    let first = told(client.send(both()).await.unwrap()).unwrap();
    for part in ["gold", "2020", "tags", "NullValue", "\"by\""] {
        assert!(first.contains(part), "{part} of {first}");
    }
    assert!(!first.contains("tin"), "of two values the first stays: {first}");
    let second = told(client.send(both()).await.unwrap()).unwrap();
    assert!(second.contains("tin") && !second.contains("gold"), "{second}");
    assert_eq!(told(client.send(call("d", &[&[("c", "1")]])).await.unwrap()), None);
}

#[tokio::test]
async fn files_are_read_again_when_they_change_and_counts_stay() {
    let config = |count: u32, more: &str| {
        let limit = format!("{{ unit: day, requests_per_unit: {count} }}");
        format!("domain: d\ndescriptors:\n  - {{ key: a, rate_limit: {limit} }}\n{more}")
    };
    let server = running(&config(5, "")).await;
    let path = server.folder.path().join("ratelimit/config.yaml");
    let mut client = client(&server).await;
    let mut look = call("d", &[&[("a", "1")]]);
    assert_eq!(short(&client.statuses(look.clone()).await), [(Code::Ok, 4)]);
    look.descriptors[0].hits_addend = Some(0);

    std::fs::write(&path, config(5, "  - { key: a, oops: 1 }\n")).unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(short(&client.statuses(look.clone()).await), [(Code::Ok, 4)], "a broken file is not taken");
    let new = path.with_extension("new");
    std::fs::write(&new, config(100, "")).unwrap();
    std::fs::rename(&new, &path).unwrap();
    let changed = async {
        while short(&client.statuses(look.clone()).await) != [(Code::Ok, 99)] {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), changed).await.expect("the new file is in force");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_with_a_store_share_a_files_limit() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let text = "domain: d\ndescriptors: [{ key: k, rate_limit: { unit: year, requests_per_unit: 10 } }]";
    let start = || {
        start_with("", |settings, folder| {
            file(settings, folder, text);
            let mut store = StoreServer::parse(&redis.url()).unwrap();
            store.deadline = Duration::from_secs(20);
            settings.envoy_store = Some(store);
        })
    };
    let servers = [start().await, start().await];
    let mut clients = [client(&servers[0]).await, client(&servers[1]).await];
    for number in 0..14 {
        let told = clients[number % 2].statuses(call("d", &[&[("k", "v")]])).await;
        let code = if number < 10 { Code::Ok } else { Code::OverLimit };
        assert_eq!(short(&told), [(code, 9_u32.saturating_sub(number as u32))]);
    }
}

#[tokio::test]
async fn a_server_does_not_start_with_broken_files() {
    let folder = Folder::new();
    let mut settings = Settings::new(folder.write("rules.toml", "version = 1"));
    file(&mut settings, folder.path(), "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: days } }]");
    let error = tollgate_server::Server::start(settings).await.unwrap_err().to_string();
    assert!(error.contains("\"days\" is no unit of time") && error.contains("config.yaml:2"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_files_are_shown_to_operators() {
    let text = "domain: d\ndescriptors:\n  - { key: two, rate_limit: { unit: day, requests_per_unit: 2 } }\n  \
        - { key: dark, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 1 } }\n  \
        - { key: free, rate_limit: { unlimited: true } }\n";
    let server = start_with("", |settings, folder| {
        file(settings, folder, text);
        settings.admin.push(loopback());
    })
    .await;
    let mut client = client(&server).await;
    for number in 0..4 {
        let secret = format!("customer-{number}");
        client.send(call("d", &[&[("two", "x")], &[("dark", "x")], &[("free", &secret)]])).await.unwrap();
    }
    let page = server.administer("GET", "/metrics", "");
    let page = page.text();
    for line in [
        "tollgate_envoy_hits_total{limit=\"d.two\",mode=\"enforced\"} 4",
        "tollgate_envoy_over_limit_total{limit=\"d.two\",mode=\"enforced\"} 2",
        "tollgate_envoy_near_limit_total{limit=\"d.two\",mode=\"enforced\"} 1",
        "tollgate_envoy_hits_total{limit=\"d.dark\",mode=\"shadow\"} 4",
        "tollgate_envoy_over_limit_total{limit=\"d.dark\",mode=\"shadow\"} 3",
        "tollgate_envoy_generation 1",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line} in {page}");
    }
    assert!(!page.contains("customer-"), "no value of a client is a label");
    for path in ["/admin/rules", "/admin/live"] {
        let answer = server.administer("GET", path, "").json();
        let envoy = &answer["envoy"];
        assert_eq!((&envoy["generation"], &envoy["limits_left_out"]), (&1.into(), &0.into()), "{path}");
        assert_eq!(envoy["sha256"].as_str().map(str::len), Some(64));
        let limits = envoy["limits"].as_array().unwrap();
        let told = |limit: &serde_json::Value| {
            ["limit", "mode", "limits", "over"].map(|field| limit[field].to_string().replace('"', ""))
        };
        let expected = [
            ["d.two", "enforced", "2/day", "2"],
            ["d.dark", "shadow", "1/day", "3"],
            ["d.free", "enforced", "unlimited", "0"],
        ];
        assert_eq!(limits.iter().map(told).collect::<Vec<_>>(), expected, "{path}");
        assert!(limits[0]["place"].as_str().unwrap().ends_with("config.yaml:3"), "{}", limits[0]);
    }
}
