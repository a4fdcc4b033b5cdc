//! The document, and a server that keeps it: random requests by schemathesis.

use std::process::Command;

use super::support::start;
use super::tools;

#[tokio::test]
async fn the_document_is_served() {
    let server = start("rule = [{ name = 'all', key = 'everyone', limits = '1/h' }]").await;
    let answer = server.call("GET", "/openapi.json", &[], "").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"));
    assert_eq!(answer.json()["openapi"], "3.1.0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_calls_are_answered_as_the_document_says() {
    let Some(python) = tools::python(&["schemathesis"]) else { return };
    let rules = "rule = [{ name = 'each', key = 'client', limits = '5/s,burst=100' },
        { name = 'at-once', key = 'header.k', limits = 'in-flight:2,ttl=1s' }]";
    let server = start(rules).await;
    let mut command = Command::new(python.with_file_name("st"));
    command
        .args(["run", &format!("http://{}/openapi.json", server.address)])
        .args(["--max-examples", "15", "--seed", "19", "--phases", "examples,coverage,fuzzing"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"])
        .args(["--checks", "response_schema_conformance,negative_data_rejection"])
        .args(["--suppress-health-check", "all", "--no-color"])
        .current_dir(tools::folder());
    let run = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
}
