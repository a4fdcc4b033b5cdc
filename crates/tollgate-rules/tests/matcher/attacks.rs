//! Spellings of paths by which clients might slip past a rule, or into what frees them.

use super::*;

fn guarded() -> Names {
    Names::new(
        "rule = [{ name = 'login', match.path = '/login', key = 'everyone', limits = '1/s' },
                 { name = 'admin', match.path = '/admin/**', key = 'everyone', limits = 'block' },
                 { name = 'all', except.path = ['/static/**', '/health'], key = 'everyone', limits = '1/s' },
                 { name = 'free', match.path = '/static/**', key = 'everyone', limits = 'unlimited', replaces = ['*'] }]",
    )
}

#[test]
fn spellings_of_a_restricted_path_are_restricted() {
    let names = guarded();
    for target in [
        "/login",
        "/LOGIN",
        "/login/",
        "/login//",
        "//login",
        "///login///",
        "/./login",
        "/login/.",
        "/x/../login",
        "/%6cogin",
        "/%6C%6F%67%69%6E",
        "/x/%2e%2e/login",
        "/x/%2E./login",
        "/x/.%2e/login",
        "/%2e/login",
        "/login?",
        "/login#x",
        "/login?a=/../b",
        "http://h/login",
        "https://user@h:1/x/..//Login?q",
        "HTTP://h/login",
        "/x//../login",
        "/x//..//login",
        "/../../login",
        // Dot segments that only some servers see.
        "/static/..%2Flogin",
        "/static/..%2flogin",
        "/static%2F..%2Flogin",
        "/static/..%5Clogin",
        "/static\\..\\login",
        "/static/..;/login",
        "/static/..;x=1/login",
        "/static/.;/../login",
        "/static/%2e%2e%2flogin",
        "/static/%2e%2e;a/login",
        "/static/x/..;/..%2Flogin",
        "/a;b/..%2Flogin",
        // A dot segment takes what only some servers see as segments.
        "/login%2Fx/..",
        "/login%5Cx/../",
        "/static/../login%2fx/..",
        "/x//..%2Flogin/../../login",
        // Separators without dot segments.
        "/login%2F",
        "/login%5C",
        "/login\\",
        "/login;x",
        "/%2Flogin;x=1/",
        // A reference to another host: `new URL(target, base)`.
        "//x/login",
        "///x//login",
        "/\\x/login",
        "//x/%256Cogin",
        // Paths that are decoded twice, by two servers or by a rewrite.
        "/login%3Bx",
        "/login%3bx=1/",
        "/login%3F",
        "/login%23x",
        "/%256Cogin",
        "/%25%36%43ogin",
        "/%%36Cogin",
        "/login%252F",
        "/static/..%252Flogin",
        "/static/%252e%252e/login",
        "/static/%252e%252e%252flogin",
        "/static/..%3B/login",
        "/static/..%255Clogin",
        "/x%2Fy/../login%3Bz",
        "/x%252Fy%2F..%2Flogin%3Bz",
        "/static/y%3B/../../login%3Bx",
        // A line feed, before which `$` of PCRE and Python matches.
        "/login%0a",
        "/login\n",
        "/x/../login%0A",
        "/x/..;/login;y%0A",
        "/static/..%2Flogin%0a",
        "/login%250a",
        // Letters of ASCII in another case, to Caddy and Java.
        "/log%C4%B0n",
        "/log%c4%b1n/",
        "/log%25C4%25B0n",
        // Dots and blanks behind a part, which Windows cuts, and Caddy did.
        "/login.",
        "/login..",
        "/login%20",
        "/login.%20.",
        "/login%2E/",
        "/login./;x",
        "/login%252e",
    ] {
        let found = names.of(&get(target));
        assert!(found.contains(&"login"), "{target}: {found:?}");
        assert!(found.contains(&"all") && !found.contains(&"free"), "{target}: {found:?}");
    }
}

#[test]
fn other_paths_are_not_the_restricted_one() {
    let names = guarded();
    for target in [
        "/loginx",
        "/login/x",
        "/login%00",
        "/%25256Cogin",
        "/login%253Bx",
        "/login%2500",
        "/x/login",
        "",
        "?login",
        "*",
        "login.test:443",
        "/login%",
        "/%",
        "/%6",
        "/%%6Cogin",
        "/.login",
        "/..login",
        "/log%69%6E%2Fx",
        "/login%0ax",
        "/login%0a%0a",
        "/login%0d",
        "/login.x",
        "/login%09",
        "/.%20login",
        "/log%C3%8Dn",
    ] {
        let found = names.of(&get(target));
        assert_eq!(found, ["all"], "{target}");
    }
    // Without its slash a target is no path; what restricts reads it as one.
    assert_eq!(names.of(&get("login")), ["login", "all"]);
}

#[test]
fn segments_that_only_some_servers_see_are_blocked() {
    let names = guarded();
    for target in [
        "/admin%2Fusers",
        "/admin%5Cusers",
        "/admin;x/users",
        "/admin%2Fx/../users",
        "/admin%5Cx/../users",
        "/admin%2Fx/../static/y",
        "/admin;x/%2F../users",
        "/x;y%2Fz/..%2Fadmin/users",
        // Slashes decoded or parameters cut, but not merged.
        "/x/..%2Fadmin//..%2Fusers",
        "/x/..;/admin//..;/users",
    ] {
        assert_eq!(names.of(&get(target)), ["admin", "all"], "{target}");
    }
}

#[test]
fn only_the_plain_path_frees() {
    let names = guarded();
    for target in [
        "/static/x",
        "/static",
        "/static/",
        "/static/a/b?c",
        "http://h/static/x",
        "/static/%78",
        "/static/a%2Fb;c",
    ] {
        assert_eq!(names.of(&get(target)), ["free"], "{target}");
    }
    for target in [
        "/Static/x",
        "//static/x",
        "/static/../login",
        "/static/..%2F..%2Flogin",
        "/static/..;/admin/x",
        "/static%2Fx",
        "/x/..//static/x",
        "/static//../admin/x",
        "static/x",
        "/Health",
        "/health/",
        "/health;x",
        "/health%2F",
        "/health%0a",
        "/health.",
        "/health%20",
    ] {
        let found = names.of(&get(target));
        assert!(found.contains(&"all") && !found.contains(&"free"), "{target}: {found:?}");
    }
    assert!(names.of(&get("/health")).is_empty());
    assert_eq!(names.of(&get("/static//../admin/x")), ["admin", "all"], "slashes merged first or not");
}

#[test]
fn a_long_path_frees_nothing() {
    let names = guarded();
    let long =
        |start: &str, piece: &str, bytes: usize| format!("{start}{}", piece.repeat(bytes / piece.len()));
    for piece in ["a", "/a", "/../a", "%2e%2e%2F", "..;/", "//", "%41", "%", "\\..", "%3B", "/%25"] {
        let found = names.of(&get(long("/static/", piece, 100_000)));
        assert!(found.contains(&"all"), "{piece}: {found:?}");
        let found = names.of(&get(long("/admin/", piece, 100_000) + "/"));
        assert!(found.contains(&"all"), "{piece}: {found:?}");
    }
    assert_eq!(names.of(&get(long("/admin/", "a", 100_000))), ["admin", "all"], "what restricts does");
    assert_eq!(names.of(&get(long("/x/", "a/../", 100_000) + "../Login")), ["login", "all"]);
    // A path that is too long to be read as decoded twice may be any, behind dot segments, too.
    for target in [long("/", "a/../", 1_020) + "login%3B", long("/%252F", "a", 1_020)] {
        assert_eq!(names.of(&get(target.as_str())), ["login", "admin", "all"], "{target}");
    }
    let key = Names::new("rule = [{ name = 'r', key = 'path', limits = '1/s' }]");
    assert_eq!(key.key(&get(long("/", "a", 5_000))), b"", "a long path is missing in a key");
}

#[test]
fn any_bytes_are_a_path() {
    let names = guarded();
    for bytes in [&b"/\xff\xfe"[..], b"/\0", b"\0", b"/login\xff", b"/ login", b"/\xf0\x9f\x92\xa9"] {
        assert_eq!(names.of(&get(bytes)), ["all"], "{bytes:?}");
    }
    assert_eq!(names.of(&get(&b"/\xff/../login"[..])), ["login", "all"]);
    let key = Names::new("rule = [{ name = 'r', key = 'path', limits = '1/s' }]");
    assert_eq!(key.key(&get(&b"/\xff/%ff/%C3%A9"[..])), "/%ff/%ff/%c3%a9".as_bytes(), "one spelling");
}

#[test]
fn a_client_has_one_key_for_spellings_of_a_path() {
    let names = Names::new("rule = [{ name = 'r', key = 'path', limits = '1/s' }]");
    for same in [
        "/a/b",
        "/A//b/",
        "/a/./B",
        "/x/../a/b",
        "/a/%62",
        "/x/..%2Fa/b",
        "/x/..;/a/b",
        "/x//../a/b",
        "/a/b%0a",
        "/a./b%20",
    ] {
        assert_eq!(names.key(&get(same)), b"/a/b", "{same}");
    }
}

#[test]
fn methods_in_lower_case_relax_nothing() {
    let names = Names::new(
        "rule = [{ name = 'posts', match.method = 'POST', key = 'everyone', limits = '1/s' },
                 { name = 'others', except.method = 'POST', key = 'everyone', limits = '1/s' }]",
    );
    let of = |method: &str| names.of(&PlainRequest { method: Some(method.into()), ..get("/") }).join(" ");
    assert_eq!((of("POST"), of("post"), of("PUT")), ("posts".into(), "posts others".into(), "others".into()));
}

/// nginx takes any text behind a colon for a port.
#[test]
fn a_port_that_is_none_hides_no_host() {
    let names = Names::new(
        "rule = [{ name = 'r', match.host = 'a.test', key = 'host', limits = '1/s' },
                 { name = 'others', except.host = 'a.test', key = 'everyone', limits = '1/s' }]",
    );
    let of = |host: &str| names.of(&PlainRequest { host: Some(host.into()), ..get("/") }).join(" ");
    assert_eq!(of("a.test:80"), "r");
    for odd in ["a.test:x", "A.TEST.:80:80", "a.test:80 ", "u@a.test:x"] {
        assert_eq!(of(odd), "r others", "{odd}");
    }
}

/// Caddy takes brackets off any host.
#[test]
fn an_invalid_host_is_no_way_out_of_a_rule() {
    let names = Names::new(
        "lists.none = []
         rule = [{ name = 'a', match.host = 'a.test', key = 'host', missing = 'pass', limits = '1/s' },
                 { name = 'b', match.host = '*.b.test', key = 'everyone', limits = '1/s' },
                 { name = 'c', match.host = 'c*', key = 'everyone', limits = '1/s' },
                 { name = 'none', match.host = '@none', key = 'everyone', limits = '1/s' },
                 { name = 'free', match.host = 'a.test', key = 'everyone', limits = 'unlimited', replaces = ['b'] }]",
    );
    let host = |host: &str| PlainRequest { host: Some(host.into()), ..get("/") };
    for odd in
        ["[a.test]", "[::1]x", ":80", "a.test:x", "[a.test", "a.test]", "u@x", "a..test", "a%2etest", " "]
    {
        assert_eq!(names.of(&host(odd)), ["a", "b", "c"], "{odd:?}");
        let target = PlainRequest { host: Some("x.test".into()), ..get(format!("http://{odd}/")) };
        assert_eq!(names.of(&target), ["a", "b", "c"], "{odd:?}");
    }
    for (plain, found) in [("A.test.:80", "a free"), ("x.b.test", "b"), ("[::1]:80", ""), ("", "")] {
        assert_eq!(names.of(&host(plain)).join(" "), found, "{plain}");
    }
    let key = Names::new("rule = [{ name = 'r', key = 'host', limits = '1/s' }]");
    for same in ["a.test", "[a.test]", "A.TEST:x", "u@a.test.", "a.test..:80"] {
        assert_eq!(key.key(&host(same)), b"a.test", "{same}");
    }
}

#[test]
fn head_does_not_evade_a_rule_for_get() {
    let names = Names::new(
        "rule = [{ name = 'gets', match.method = ['GET', 'POST'], key = 'everyone', limits = '1/s' },
                 { name = 'some', match.method = 'G*', key = 'everyone', limits = '1/s' },
                 { name = 'heads', match.method = 'HEAD', key = 'everyone', limits = '1/s' },
                 { name = 'others', except.method = 'GET', key = 'everyone', limits = '1/s' },
                 { name = 'rest', except.method = 'HEAD', key = 'everyone', limits = '1/s' },
                 { name = 'free', match.method = 'GET', key = 'everyone', limits = 'unlimited', replaces = ['rest'] }]",
    );
    let of = |method: &str| names.of(&PlainRequest { method: Some(method.into()), ..get("/") }).join(" ");
    assert_eq!(of("GET"), "gets some free");
    assert_eq!(of("HEAD"), "gets some heads others", "what relaxes takes a GET only for itself");
    assert_eq!(of("head"), "gets some heads others rest");
    assert_eq!(of("POST"), "gets others rest");
    let cost = Names::new(
        "rule = [{ name = 'r', key = 'method', limits = '9/s',
                   cost = [{ match.method = 'GET', is = 2 }, { is = 5 }],
                   tier = [{ name = 't', match.method = 'GET', limits = '1/s' }] }]",
    );
    let (concerned, key) = cost.one(&PlainRequest { method: Some("HEAD".into()), ..get("/") });
    assert_eq!((concerned.cost, concerned.tier, key), (5, Some(0), b"GET".to_vec()), "no limit for each");
}
