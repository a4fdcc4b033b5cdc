//! The explanation of each rule.

use serde_json::json;

use super::*;

fn said(names: &Names, request: &PlainRequest) -> serde_json::Value {
    serde_json::to_value(names.matcher.explain(request)).unwrap()
}

#[test]
fn each_rule_says_why_it_concerns_or_not() {
    let names = Names::new(
        "lists = { office = ['192.0.2.0/24'] }
         rule = [{ name = 'plan', match.path = '/v2/**', key = 'client', limits = '1/s' },
                 { name = 'office', match.client = '@office', key = 'everyone', limits = 'unlimited' },
                 { name = 'log-ins', match = { method = 'POST', path = '/login' }, key = ['client', 'header.k'], limits = '1/s',
                   cost = 3, tier = [{ name = 't', match.label.x = 'y', limits = '2/s' }], replaces = ['all'] },
                 { name = 'all', key = 'everyone', limits = '1/s' },
                 { name = 'quiet', except.path = ['/login', '/health'], key = 'everyone', limits = '1/s' },
                 { name = 'off', key = 'everyone', limits = '1/s', mode = 'off' },
                 { name = 'known', key = 'label.user', missing = 'pass', limits = '1/s' }]",
    );
    let request = PlainRequest {
        method: Some("POST".into()),
        client: Some("2001:db8::1".parse().unwrap()),
        labels: pairs(&[("x", "y")]),
        ..get("/login")
    };
    assert_eq!(
        said(&names, &request),
        json!([
            { "rule": 0, "name": "plan", "why": "unmatched", "reasons": [
                { "attribute": "path", "seen": ["/login"], "wanted": ["/v2/**"], "wanted_more": 0, "is_strict": false }] },
            { "rule": 1, "name": "office", "why": "unmatched", "reasons": [
                { "attribute": "client", "seen": ["2001:db8::1"], "wanted": ["192.0.2.0/24"], "wanted_more": 0, "is_strict": true }] },
            { "rule": 2, "name": "log-ins", "why": "concerns", "tier": 0, "tier_name": "t", "cost": 3,
              "is_refused_without_key": false, "key": [
                { "attribute": "client", "value": "2001:db8::/64" }, { "attribute": "header.k", "value": null }] },
            { "rule": 3, "name": "all", "why": "replaced", "by": "log-ins" },
            { "rule": 4, "name": "quiet", "why": "excepted", "reasons": [
                { "attribute": "path", "seen": ["/login"], "wanted": ["/health", "/login"], "wanted_more": 0, "is_strict": true }] },
            { "rule": 5, "name": "off", "why": "off" },
            { "rule": 6, "name": "known", "why": "without_key", "key": [{ "attribute": "label.user", "value": null }] },
        ])
    );
}

#[test]
fn a_reason_is_the_first_condition_that_fails() {
    let names = Names::new(
        "rule = [{ name = 'r', key = 'everyone', limits = '1/s', match = [
                     { method = 'GET', label.plan = ['b', 'a*', 'c'], path = '/no' }, { header.k = '*' }] }]",
    );
    let reasons = said(&names, &labels(&[("plan", "d"), ("plan", "e")]))[0]["reasons"].clone();
    let reason = |index: usize, field: &str| reasons[index][field].clone();
    assert!(["label.plan", "path"].contains(&reason(0, "attribute").as_str().unwrap()));
    let names = Names::new(
        "rule = [{ name = 'r', key = 'everyone', limits = '1/s', match = { method = 'GET', label.plan = ['b', 'a*', 'c'] } }]",
    );
    let reasons = said(&names, &labels(&[("plan", "d"), ("plan", "e")]))[0]["reasons"].clone();
    assert_eq!(reasons[0]["seen"], json!(["d", "e"]));
    assert_eq!(reasons[0]["wanted"], json!(["b", "c", "a*"]));
    assert_eq!(reason(1, "wanted"), json!(["*"]));
}

#[test]
fn long_lists_are_said_in_part() {
    let paths: Vec<String> = (10..50).map(|number| format!("'/p{number}'")).collect();
    let names = Names::new(&format!(
        "rule = [{{ name = 'r', match.path = [{}], key = 'everyone', limits = '1/s' }}]",
        paths.join(", ")
    ));
    let reason = &said(&names, &get("/x"))[0]["reasons"][0];
    assert_eq!((reason["wanted"].as_array().unwrap().len(), &reason["wanted_more"]), (16, &json!(24)));
    assert_eq!(names.of(&get("/P33/")), ["r"], "many patterns are found by their trie");
}
