//! What the compiler says of a mistake that users make.

use std::path::PathBuf;
use std::process::Command;

/// Returns the newest build of this crate that the tests may link.
fn library() -> (PathBuf, PathBuf) {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let libraries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("libtollgate_http-") && name.ends_with(".rlib")
    });
    let newest = libraries.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).unwrap();
    (folder, newest)
}

/// Compiles a file with this text. Returns whether it compiles, and what the compiler says.
fn compile(name: &str, text: &str) -> (bool, String) {
    let (folder, library) = library();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, text).unwrap();
    let output = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--out-dir"])
        .args([env!("CARGO_TARGET_TMPDIR").as_ref(), file.as_os_str()])
        .arg("-L")
        .arg(format!("dependency={}", folder.display()))
        .arg("--extern")
        .arg(format!("tollgate_http={}", library.display()))
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const CHECKS: &str = "
    use tollgate_http::{GrpcResponder, HttpResponder, Respond};
    pub struct Compressed;
    pub fn check<B, R: Respond<B>>(_: R) {}
";

#[test]
fn the_compiler_explains_a_body_that_a_responder_cannot_make() {
    let fits = "pub fn fits() { check::<String, _>(HttpResponder::json()); check::<(), _>(GrpcResponder) }";
    let (compiles, said) = compile("fits.rs", &format!("{CHECKS}{fits}"));
    assert!(compiles, "{said}");
    for responder in ["HttpResponder::json()", "GrpcResponder"] {
        let fails = format!("pub fn fails() {{ check::<Compressed, _>({responder}) }}");
        let (compiles, said) = compile("fails.rs", &format!("{CHECKS}{fails}"));
        assert!(!compiles, "{responder} makes any body");
        for part in
            ["cannot make a response with the body `Compressed`", "changes the body, such as compression"]
        {
            assert!(said.contains(part), "{responder}: {said}");
        }
    }
}
