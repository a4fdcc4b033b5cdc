//! Plans, reloads, keys.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{RULES, start};

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_in_force_are_shown() {
    let server = start(RULES, |_, _| {}).await;
    let rules = server.administer("GET", "/admin/rules", "").json();
    assert_eq!(rules["generation"], 1);
    assert_eq!(rules["last_error"], Value::Null);
    let each = &rules["rules"][0];
    assert_eq!(
        (&each["name"], &each["mode"], &each["key"]),
        (&json!("each"), &json!("enforced"), &json!("client"))
    );
    assert_eq!(each["limits"], "fixed-window:10/h");
    assert_eq!(rules["sha256"].as_str().map(str::len), Some(64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_tells_what_a_reload_would_do() {
    let server = start(RULES, |_, _| {}).await;
    let new = RULES.replace("10/h", "20/h").replace("'try'", "'tried'").replace("1000/s", "5/s");
    let plan = server.administer("POST", "/admin/plan", &new);
    assert_eq!(plan.status, 200, "{}", plan.text());
    let plan = plan.json();
    let changes: Vec<_> =
        plan["rules"].as_array().unwrap().iter().map(|rule| rule["change"].clone()).collect();
    assert_eq!(
        changes,
        [
            "gets other numbers, and its keys keep their debts",
            "stays as it is",
            "is new, or comes back",
            "is gone, and its state kept for an hour"
        ]
    );
    let conflict =
        server.administer("POST", "/admin/plan", &RULES.replace("fixed-window:10/h", "sliding-log:10/h"));
    assert_eq!(conflict.status, 422);
    assert_eq!(conflict.json()["would_forget"][0]["rule"], "each");
    let wrong = server.administer("POST", "/admin/plan", "version = 1\nrul = 3\n");
    assert_eq!(wrong.status, 422);
    assert!(wrong.json()["error"].as_str().unwrap().contains("rul"), "{}", wrong.text());
    assert_eq!(server.administer("GET", "/admin/rules", "").json()["generation"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_reads_no_other_files() {
    let server = start(RULES, |_, _| {}).await;
    std::fs::write(server.folder.path().join("secret.txt"), "hunter2\n").unwrap();
    for list in ["{ file = 'secret.txt' }", "{ file = '/etc/hostname' }", "{ env = 'HOME' }"] {
        let text = format!(
            "version = 1\nlists.l = {list}\n[[rule]]\nname = 'r'\nmatch.client = '@l'\nkey = 'client'\nlimits = '1/s'\n"
        );
        let plan = server.administer("POST", "/admin/plan", &text);
        assert_eq!(plan.status, 422, "{list}: {}", plan.text());
        let home = std::env::var("HOME").unwrap_or_else(|_| "hunter2".into());
        assert!(!plan.text().contains("hunter2") && !plan.text().contains(&*home), "{}", plan.text());
    }
    let variable = "version = 1\nlists.l = { env = 'PATH' }\n";
    let told = server.administer("POST", "/admin/plan", variable).json()["error"].to_string();
    assert!(
        told.contains("`PATH` is not read: a plan reads only what the present rules file reads"),
        "{told}"
    );
    let include =
        "version = 1\ninclude = ['*.toml']\nrule = [{ name = 'r', key = 'client', limits = '1/s' }]\n";
    assert_eq!(server.administer("POST", "/admin/plan", include).status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_forgets_only_what_it_is_told_to() {
    let server = start(RULES, |_, _| {}).await;
    let body = json!({ "request": { "client": "203.0.113.9" }, "do": "peek" }).to_string();
    assert_eq!(server.administer("POST", "/admin/keys/each", &body).json()["state"]["limit"], 10);
    server.folder.write("rules.toml", RULES.replace("fixed-window:10/h", "sliding-log:7/h"));
    // Whether the watcher was faster or not: it is refused.
    let refused = server.administer("POST", "/admin/reload", "");
    assert_eq!((refused.status.as_u16(), &refused.json()["would_forget"][0]["rule"]), (422, &json!("each")));
    assert_eq!(server.administer("POST", "/admin/reload?forget=user", "").status, 422);
    let done = server.administer("POST", "/admin/reload?forget=user,each", "");
    assert_eq!((done.status.as_u16(), &done.json()["generation"]), (200, &json!(2)), "{}", done.text());
    assert_eq!(server.administer("POST", "/admin/keys/each", &body).json()["state"]["limit"], 7);
    let metrics = server.administer("GET", "/metrics", "");
    let page = metrics.text();
    assert!(page.contains("tollgate_rules_generation 2"), "{page}");
    assert!(page.contains("tollgate_rules_last_reload_successful 1"), "{page}");
    assert!(page.contains("tollgate_rules_reloads_total{result=\"success\"} 1"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_asked_for_by_its_request() {
    let server = start(RULES, |_, _| {}).await;
    let order = |request: Value, action: Value| json!({ "request": request, "do": action }).to_string();
    let ada = json!({ "headers": { "x-user": "ada" } });
    let peek = server.administer("POST", "/admin/keys/user", &order(ada.clone(), json!("peek")));
    assert_eq!(
        (peek.status.as_u16(), &peek.json()["state"]["remaining"]),
        (200, &json!(5)),
        "{}",
        peek.text()
    );
    let key = peek.json()["key"].as_str().unwrap().to_owned();
    assert!(key.len() == 12 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    let nothing = server.administer("POST", "/admin/keys/user", &order(ada.clone(), json!({ "refund": 3 })));
    assert_eq!((nothing.status.as_u16(), &nothing.json()["done"]), (200, &json!(0)));
    let reset = server.administer("POST", "/admin/keys/user", &order(ada.clone(), json!("reset")));
    assert_eq!((reset.status.as_u16(), &reset.json()["done"]), (200, &json!(false)));
    for (path, body, status) in [
        ("/admin/keys/user", order(json!({}), json!("peek")), 422),
        ("/admin/keys/nobody", order(ada.clone(), json!("peek")), 404),
        ("/admin/keys/user", order(json!({ "kye": 1 }), json!("peek")), 400),
        ("/admin/keys/user", order(ada.clone(), json!("forgive")), 400),
        ("/admin/keys/user", order(ada.clone(), json!({ "refund": -1 })), 400),
        ("/admin/keys/user", order(json!([null, null]), json!("peek")), 400),
        ("/admin/keys/user", json!([ada, "peek"]).to_string(), 400),
        ("/admin/keys/user", "{".into(), 400),
    ] {
        let answer = server.administer("POST", path, &body);
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_parameter_is_refused_with_those_there_are() {
    let server = start(RULES, |_, _| {}).await;
    let order = json!({ "request": { "client": "203.0.113.9" }, "do": "reset" }).to_string();
    for (method, path, body, has) in [
        ("POST", "/admin/reload?forgot=each", "", "`forgot`: this page has `forget`"),
        ("GET", "/admin/top?rule=each&most=3", "", "`most`: this page has `rule`"),
        ("GET", "/admin/parked?status=dead", "", "`rule`, `key`, `state`, `most`, `after`"),
        ("GET", "/admin/rules?rule=each", "", "`rule`: this page has no parameters"),
        ("GET", "/admin/live?most=3", "", "this page has no parameters"),
        ("GET", "/openapi.json?rule", "", "this page has no parameters"),
        ("POST", "/admin/plan?forget=each", RULES, "this page has no parameters"),
        ("POST", "/admin/keys/each?dry", &order, "`dry`: this page has no parameters"),
        ("DELETE", "/admin/parked/7?dry=1", "", "this page has no parameters"),
    ] {
        let answer = server.administer(method, path, body);
        assert_eq!(answer.status, 400, "{method} {path}: {}", answer.text());
        assert!(answer.json()["detail"].as_str().unwrap().contains(has), "{path}: {}", answer.text());
    }
    assert_eq!(server.administer("GET", "/metrics?name[]=up", "").status, 200, "pages for everyone");
    assert_eq!(server.administer("GET", "/admin/rules?", "").json()["generation"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_refuses_to_forget_an_unknown_rule() {
    let server = start(RULES, |_, _| {}).await;
    server.folder.write("rules.toml", RULES.replace("'try'", "'tried'"));
    for names in ["fvie", "each,fvie", "tried,fvie,try"] {
        let answer = server.administer("POST", &format!("/admin/reload?forget={names}"), "");
        assert_eq!(answer.status, 404, "{names}: {}", answer.text());
        assert!(answer.json()["detail"].as_str().unwrap().contains("`fvie`"), "{}", answer.text());
    }
    assert_eq!(server.administer("POST", "/admin/reload?forget=try,tried", "").status, 200, "old and new");
    server.folder.write("rules.toml", "nonsense");
    assert_eq!(server.administer("POST", "/admin/reload?forget=fvie", "").status, 422, "the file is wrong");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_answer_their_method_only() {
    let server = start(RULES, |_, _| {}).await;
    for (method, path, status) in [
        ("GET", "/healthz", 200),
        ("HEAD", "/readyz", 200),
        ("POST", "/metrics", 405),
        ("GET", "/nothing", 404),
        ("GET", "/admin/nothing", 404),
        ("GET", "/admin/", 404),
        ("GET", "/admin/rules/", 404),
        ("POST", "/admin/keys/", 404),
        ("POST", "/openapi.json", 405),
        ("GET", "/admin/plan", 405),
        ("POST", "/admin/rules", 405),
        ("GET", "/admin/top", 400),
        ("GET", "/admin/top?rule=none", 404),
        ("GET", "/admin/top?rule=%65ach", 200),
        ("GET", "/admin/keys/each", 405),
    ] {
        assert_eq!(server.administer(method, path, "").status, status, "{method} {path}");
    }
    let long = "x".repeat((1 << 20) + 1);
    assert_eq!(server.administer("POST", "/admin/plan", &long).status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_envoy_files_are_a_failed_reload_until_mended() {
    let files = |directory: &Path, text: &str| {
        let new = directory.join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, directory.join("envoy.yaml")).unwrap();
    };
    let server = start(RULES, |settings, directory| {
        files(directory, "domain: d\n");
        settings.envoy.push(directory.join("envoy.yaml"));
    })
    .await;
    let shows = |line: &str| {
        let metrics = server.administer("GET", "/metrics", "");
        let page = metrics.text();
        page.lines().any(|own| own.starts_with(line))
    };
    let becomes = async |line: &str| {
        for _ in 0..600 {
            if shows(line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{line} expected: {}", server.administer("GET", "/metrics", "").text());
    };
    // The server itself sees what becomes of the files.
    assert!(shows("tollgate_rules_last_reload_successful 1"));
    files(server.folder.path(), "domain: [\n");
    becomes("tollgate_rules_last_reload_successful 0").await;
    assert!(!shows("tollgate_rules_reloads_total{result=\"failure\"} 0"));
    let error = server.administer("GET", "/admin/rules", "").json()["last_error"].clone();
    assert!(error.as_str().is_some_and(|error| error.contains("envoy.yaml")), "{error}");
    assert_eq!(server.administer("GET", "/admin/live", "").json()["last_error"], error);
    // An administrator is told, though the rules themselves are in order.
    let told = server.administer("POST", "/admin/reload", "");
    assert_eq!((told.status.as_u16(), &told.json()["error"]), (422, &error), "{}", told.text());
    files(server.folder.path(), "domain: e\n");
    becomes("tollgate_rules_last_reload_successful 1").await;
    assert_eq!(server.administer("POST", "/admin/reload", "").status, 200);
    assert_eq!(server.administer("GET", "/admin/rules", "").json()["last_error"], Value::Null);
}
