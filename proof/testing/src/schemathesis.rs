//! Random calls by schemathesis, which holds every answer to a document of OpenAPI.

use std::process::Command;

use serde_json::Value;

use crate::folder::Folder;
use crate::tools::python;

/// A call that schemathesis made, and the status of its answer.
#[derive(Debug)]
pub struct Called {
    /// Such as `GET`.
    pub method: String,
    /// Without the query.
    pub path: String,
    /// The status of the answer.
    pub status: u64,
}

/// Has schemathesis call a server at random, with these arguments beside, and hold every answer to
/// a document of OpenAPI. Returns the calls.
pub async fn calls(address: &str, document: &str, arguments: &[&str]) -> Option<Vec<Called>> {
    let (python, folder) = (python(&["schemathesis"])?, Folder::new());
    folder.write("openapi.json", document);
    let (url, calls) = (format!("http://{address}"), folder.path().join("calls.har"));
    let mut command = Command::new(python.with_file_name("st"));
    command
        .arg("run")
        .arg(folder.path().join("openapi.json"))
        .args(["--url", &url])
        .args(["--max-examples", "15", "--seed", "19", "--phases", "examples,coverage,fuzzing,stateful"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"])
        .args(["--checks", "response_schema_conformance,response_headers_conformance"])
        .args(["--checks", "negative_data_rejection,allow_header_conformance"])
        .args(["--suppress-health-check", "all", "--no-color", "--report-har-path"])
        .arg(&calls)
        .args(arguments)
        .current_dir(folder.path());
    let run = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    let read: Value = serde_json::from_slice(&std::fs::read(&calls).unwrap()).unwrap();
    let called = |entry: &Value| {
        let (request, url_text) = (&entry["request"], entry["request"]["url"].as_str()?);
        let path = url_text.strip_prefix(&url)?.split(['?', '#']).next()?;
        Some(Called {
            method: request["method"].as_str()?.into(),
            path: path.into(),
            status: entry["response"]["status"].as_u64()?,
        })
    };
    Some(read["log"]["entries"].as_array().unwrap().iter().filter_map(called).collect())
}
