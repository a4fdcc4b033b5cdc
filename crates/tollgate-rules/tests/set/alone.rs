//! Tests that measure what their process takes.

/// Whether this process runs nothing else: other tests take memory, too. If not, the test is run
/// in a process of its own.
pub(crate) fn is_alone(test: &str) -> bool {
    const ALONE: &str = "TOLLGATE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let ended = std::process::Command::new(own).args([test, "--exact"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
    false
}
