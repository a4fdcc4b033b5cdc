//! The document, and a server that keeps it: random requests by schemathesis.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use tollgate_testing::servers::Running;

use crate::client;
use tollgate_testing::schemathesis::{self, Called};

/// The rule of the document's examples, and one whose requests an upstream fails.
const RULES: &str = "version = 1
rule = [
    { name = 'client', key = 'client', limits = '60/min' },
    { name = 'later', match.path = '/later', key = 'everyone', limits = '10/s,burst=1',
      on_refusal = 'park', park.tries = 1 },
]
";

const TOKEN: &str = "s3cret";

/// An upstream that answers every request with 503.
fn failing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 503 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    format!("http://{address}")
}

/// A server with dead requests.
async fn start(token: Option<&str>) -> Running {
    let server = client::start(RULES, |settings, directory| {
        settings.proxy.push("127.0.0.1:0".parse().unwrap());
        settings.forward.upstreams.push(failing().parse().unwrap());
        settings.park = Some(directory.join("parked"));
        settings.admin_token = token.map(|token| {
            std::fs::write(directory.join("token"), token).unwrap();
            directory.join("token")
        });
    })
    .await;
    for _ in 0..20 {
        tollgate_testing::http::ask(server.proxy(), "POST", "/later", &[("host", "x")], "");
    }
    server
}

/// Holds that each operation of a document had an answer of the status that it must have.
fn each_operation_had(document: &Value, calls: &[Called], status: impl Fn(&Value) -> u64) {
    for (template, operations) in document["paths"].as_object().unwrap() {
        let (start, has_text) =
            template.split_once('{').map_or((&**template, false), |(start, _)| (start, true));
        let is_path = |path: &str| path.strip_prefix(start).is_some_and(|rest| rest.is_empty() != has_text);
        for (method, operation) in operations.as_object().unwrap() {
            let own =
                calls.iter().filter(|call| call.method.eq_ignore_ascii_case(method) && is_path(&call.path));
            let statuses: Vec<_> = own.map(|call| call.status).collect();
            let status = status(operation);
            assert!(statuses.contains(&status), "{method} {template}: {status} in {statuses:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_orders_are_answered_as_the_document_says() {
    let server = start(None).await;
    let document = server.administer("GET", "/openapi.json", "");
    let arguments = ["--header", "x-tollgate: 1", "--checks", "unsupported_method"];
    let calls = schemathesis::calls(&server.admin().to_string(), document.text(), &arguments).await;
    let Some(calls) = calls else { return };
    each_operation_had(&document.json(), &calls, |_| 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_rules_are_answered_as_the_document_says() {
    let server = start(Some(TOKEN)).await;
    // It would forget debts of a rule that the document's examples do not let forget them.
    server.folder.write("rules.toml", RULES.replace("10/s,burst=1", "sliding-log:10/s"));
    let right = [("authorization", &*format!("Bearer {TOKEN}"))];
    let reload = server.administer_with("POST", "/admin/reload", &right, "");
    assert_eq!(reload.json()["would_forget"][0]["rule"], "later");
    let document = server.administer_with("GET", "/openapi.json", &right, "");
    let header = format!("{}: {}", right[0].0, right[0].1);
    let calls =
        schemathesis::calls(&server.admin().to_string(), document.text(), &["--header", &header]).await;
    let Some(calls) = calls else { return };
    for path in ["/admin/reload", "/admin/plan"] {
        assert!(calls.iter().any(|call| call.path == path && call.status == 422), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_answered_as_the_document_says() {
    let (open, guarded) = (start(None).await, start(Some(TOKEN)).await);
    let document = open.administer("GET", "/openapi.json", "");
    let arguments = ["--max-examples", "3", "--generation-with-security-parameters", "false"];
    for (server, refusal) in [(&open, 403), (&guarded, 401)] {
        let calls = schemathesis::calls(&server.admin().to_string(), document.text(), &arguments).await;
        let Some(calls) = calls else { return };
        let reads = |operation: &Value| operation["security"][1] == json!({});
        each_operation_had(&document.json(), &calls, |operation| match &operation["security"] {
            Value::Null => 200,
            _ if refusal == 403 && reads(operation) => 200,
            _ => refusal,
        });
    }
}
