//! Spellings of a path and their readings.

use super::*;

/// Returns the exact and the folded form of each reading.
fn readings(target: &[u8]) -> Vec<(String, String)> {
    let (mut buffer, mut forms, mut readings) = (Vec::new(), Forms::default(), Vec::new());
    assert!(read(target, &mut buffer, &mut forms, &mut readings));
    let text = |range: &Range<usize>| String::from_utf8(buffer[range.clone()].to_vec()).unwrap();
    readings.iter().map(|reading| (text(&reading.exact), text(&reading.lower))).collect()
}

fn one(target: &str) -> (String, String) {
    let all = readings(target.as_bytes());
    assert_eq!(all.len(), 1, "{target}: {all:?}");
    all[0].clone()
}

#[test]
fn spellings_of_a_path_fold_to_one() {
    for same in ["/login", "/Login/", "/%6Cogin", "/a/../login", "/login?x", "http://h/login#f", "/./login"] {
        assert_eq!(one(same).1, "/login", "{same}");
    }
    for other in ["/loginx", "/login%256", "/login%09", "/login%00"] {
        assert!(readings(other.as_bytes()).iter().all(|(_, folded)| folded != "/login"), "{other}");
    }
    assert_eq!(one("/%40me").1, "/@me");
    assert_eq!(one("/lo\u{130}\u{131}%C5%BF%e2%84%aa%C3%89").1, "/loiisk%c3%89");
    for root in ["", "/", "?x", "http://h", "/..", "/a/.."] {
        assert_eq!(one(root).1, "/", "{root}");
    }
}

#[test]
fn exact_readings_keep_case_and_slashes() {
    for exact in ["/Health", "/health/", "/a//health"] {
        assert_eq!(one(exact).0, exact);
    }
    assert_eq!(one("/a/b/..").0, "/a/");
}

#[test]
fn servers_that_disagree_give_several_readings() {
    let folded = |target: &[u8]| readings(target).into_iter().map(|(_, folded)| folded).collect::<Vec<_>>();
    assert_eq!(folded(b"/a//../b"), ["/b", "/a/b"]);
    assert_eq!(folded(b"/users/4%2f2"), ["/users/4/2", "/users/4%2f2"]);
    assert_eq!(folded(b"/login;x=1"), ["/login", "/login;x=1"]);
    assert_eq!(folded(b"/a%2Fx/../b"), ["/a/b", "/b"]);
    assert_eq!(folded(b"/a//..%2Fb"), ["/b", "/a/b", "/a/..%2fb", "/a/..%2fb"]);
    assert_eq!(folded(b"/a;x%2Fb/..%2Fc"), ["/a/c", "/c", "/a;x/c", "/a/..%2fc", "/a;x%2fb/..%2fc"]);
    assert_eq!(folded(b"/static/..%2Flogin"), ["/login", "/static/..%2flogin"]);
    assert_eq!(folded(b"/static/..;/login"), ["/login", "/static/..;/login"]);
    assert_eq!(folded(b"/static/..%5clogin"), ["/login", "/static/..%5clogin"]);
}

#[test]
fn ends_that_some_servers_cut_give_two_readings() {
    let folded = |target: &[u8]| readings(target).into_iter().map(|(_, folded)| folded).collect::<Vec<_>>();
    assert_eq!(folded(b"/login%0A"), ["/login", "/login%0a"]);
    assert_eq!(folded(b"/login\n"), ["/login", "/login%0a"]);
    assert_eq!(folded(b"/login%0a%0a"), ["/login%0a", "/login%0a%0a"], "only the last");
    assert_eq!(folded(b"/login%0a/x"), ["/login%0a/x"]);
    assert_eq!(folded(b"/login."), ["/login", "/login."]);
    assert_eq!(folded(b"/a.%20/b.. ?x"), ["/a/b", "/a.%20/b..%20"]);
    assert_eq!(folded(b"/a.b/..c"), ["/a.b/..c"]);
    assert_eq!(folded(b"/..."), ["/", "/..."]);
    assert_eq!(folded(b"/a/.../b"), ["/a/b", "/a/.../b"]);
}

#[test]
fn two_slashes_may_begin_a_host() {
    let folded = |target: &[u8]| readings(target).into_iter().map(|(_, folded)| folded).collect::<Vec<_>>();
    assert_eq!(folded(b"//login"), ["/", "/login"]);
    assert_eq!(folded(b"//x/login"), ["/login", "/x/login"]);
    assert_eq!(folded(b"///x/login"), ["/login", "/x/login"]);
    assert_eq!(folded(b"/\\x\\login"), ["/login", "/x/login", "/%5cx%5clogin"]);
    assert_eq!(folded(b"//"), ["/", "/"], "`/`, and `//` where it is compared exactly");
}

#[test]
fn a_path_is_also_read_as_decoded_twice() {
    let folded = |target: &[u8]| readings(target).into_iter().map(|(_, folded)| folded).collect::<Vec<_>>();
    // `;x` and `%3Bx` differ where the path is compared exactly.
    assert_eq!(folded(b"/login%3Bx"), ["/login", "/login;x", "/login;x"]);
    assert_eq!(folded(b"/login%3Fx"), ["/login", "/login%3fx"]);
    assert_eq!(folded(b"/%256Cogin"), ["/login", "/%256cogin"]);
    assert_eq!(folded(b"/%%36Cogin"), ["/login", "/%%36cogin"]);
    assert_eq!(folded(b"/a%252Fb"), ["/a/b", "/a%2fb", "/a%252fb"]);
    assert_eq!(folded(b"/x/%252e%252e/a"), ["/a", "/x/%252e%252e/a"]);
    assert_eq!(folded(b"/100%25"), ["/100%", "/100%25"]);
    // The first server removes dot segments before it passes the path on, or does not.
    let both = folded(b"/p/..%3B/q/../../login%3Bx");
    assert!(["/p/login", "/login"].iter().all(|path| both.iter().any(|other| other == path)), "{both:?}");
    assert_eq!(folded(b"/caf%C3%A9/%40%2B"), ["/caf%c3%a9/@+"]);
    assert_eq!(folded(b"/a%25252Fb").iter().filter(|path| *path == "/a/b").count(), 0, "not three times");
}

#[test]
fn a_broken_escape_is_decoded_in_no_later_pass() {
    // The last reading is that of one decoding.
    let last = |target: &str| readings(target.as_bytes()).pop().expect("there is one");
    for broken in ["/%", "/%4", "/%%36%35", "/%4%31", "/%zz", "/%%%34%31%"] {
        let (exact, folded) = last(broken);
        assert_eq!(last(&exact).0, exact, "{broken}");
        assert_eq!(last(&folded).1, folded, "{broken}");
    }
}

proptest::proptest! {
    #[test]
    fn folding_any_bytes_again_changes_nothing(bytes: Vec<u8>, ascii in "[/.%;2Ff5c?a-bA]{0,24}") {
        for target in [&bytes[..], ascii.as_bytes(), &[b"/", ascii.as_bytes()].concat()] {
            for (_, folded) in readings(target) {
                let again = readings(folded.as_bytes());
                proptest::prop_assert!(again.iter().any(|(_, same)| *same == folded), "{:?}: {:?}", folded, again);
            }
        }
    }
}
