//! What it says when it does not start; the commands beside it.

use std::io::{Read, Write};
use std::net::TcpListener;
#[cfg(target_os = "linux")]
use std::process::Command;
use std::thread;
#[cfg(target_os = "linux")]
use std::time::Duration;
use std::time::Instant;

use tollgate_testing::http;
use tollgate_testing::process::Process;

use crate::{Folder, address_of, fails, get, serve, tollgate};

#[test]
fn listeners_beyond_loopback_need_authentication_or_open() {
    let folder = Folder::new();
    for listener in ["http", "admin", "grpc", "resp"] {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let option = format!("--{listener}");
            let (code, said) = fails(serve(&folder, &[&option, address]));
            assert_eq!(code, Some(2), "{said}");
            let parts = [&format!("the {listener} listener"), address, &format!("{option}-tls"), "--open"];
            assert!(parts.iter().all(|part| said.contains(*part)), "{said}");
        }
    }
    let mut server = Process::start(serve(&folder, &["--http", "0.0.0.0:0", "--open"]));
    server.says("serving");
    let (secret, empty) = (folder.path("secret"), folder.path("empty"));
    folder.write("secret", "open sesame\n");
    folder.write("empty", "\n");
    let password = ["--resp", "0.0.0.0:0", "--resp-password-file", &secret];
    Process::start(serve(&folder, &password)).says("serving");
    let (code, said) = fails(serve(&folder, &["--resp", "0.0.0.0:0", "--resp-password-file", &empty]));
    assert!(code == Some(2) && said.contains("is empty"), "{said}");
    Process::start(serve(&folder, &["--admin", "0.0.0.0:0", "--admin-token-file", &secret])).says("serving");
}

#[test]
fn errors_say_what_to_do() {
    let folder = Folder::new();
    let (state, missing) = (folder.path("no/state"), folder.path("missing.pem"));
    let tls = format!("{missing},{missing}");
    let held = TcpListener::bind("127.0.0.1:0").expect("a port");
    let held = (held.local_addr().expect("it is bound").to_string(), held);
    let cases: [(&[&str], &[&str]); 10] = [
        (&["--http", "8080"], &["127.0.0.1:8080, :8080 for all addresses, unix:/path or fd:name"]),
        (&["--http", &held.0], &["--http", &held.0, "choose another port"]),
        (&["--resp", "fd:resp"], &["fd:resp", "socket unit"]),
        (&["--state", &state], &["create it"]),
        (&["--strict-state"], &["--state"]),
        (&["--state-interval", "10s"], &["--state <FILE>"]),
        (&["--http-tls", &tls], &["--http-tls", "missing.pem cannot be read"]),
        (&["--grpc-tls", &tls], &["no --grpc listens"]),
        (&["--http", "off"], &["nothing would be served"]),
        (&["--state-interval", "0s"], &["longer than nothing"]),
    ];
    for (options, parts) in cases {
        let (code, said) = fails(serve(&folder, options));
        assert_eq!(code, Some(2), "{options:?}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{options:?}: {said}");
    }
    folder.write("rules.toml", "version = 1\nrule = [{ name = 'each', kye = 'client' }]");
    // The mistakes of the file are told before those of the listeners.
    let (code, said) = fails(serve(&folder, &["--http", &held.0]));
    let parts = ["did you mean `key`?", "tollgate rules check"];
    assert!(code == Some(2) && parts.iter().all(|part| said.contains(part)), "{said}");
}

#[test]
fn the_start_tells_who_keeps_the_counts_of_files() {
    let folder = Folder::new();
    folder.write(
        "shop.yaml",
        "domain: shop\ndescriptors: [{ key: k, rate_limit: { unit: hour, requests_per_unit: 5 } }]\n",
    );
    let envoy = folder.path("shop.yaml");
    let said = Process::start(serve(&folder, &["--envoy", &envoy])).says("counts of --envoy files");
    assert!(said.contains("this process's") && said.contains("--envoy-store"), "{said}");
    let url = format!("redis://app:hunter2@127.0.0.1:{}", tollgate_testing::folder::free_port());
    let mut command = serve(&folder, &["--envoy", &envoy, "--envoy-store", "env:TOLLGATE_TEST_STORE"]);
    command.env("TOLLGATE_TEST_STORE", &url);
    let mut server = Process::start(command);
    let said = server.says("counts of --envoy files");
    assert!(said.contains("store=\"redis:") && said.contains("on_failure=Refuse"), "{said}");
    assert!(!server.said.contains("hunter2"), "{}", server.said);
}

#[test]
fn a_wrong_store_of_files_is_named_without_its_password() {
    let folder = Folder::new();
    let envoy = folder.path("shop.yaml");
    let cases: [(&[&str], &str); 10] = [
        (&["--envoy-store", "redis://app:hunter2#x@10.0.0.7"], "write %2F, %3F, %23"),
        (&["--envoy-store", "redis://app:hunter2@10.0.0.7:0"], "the port of the store's address"),
        (&["--envoy-store", "http://app:hunter2@10.0.0.7"], "another scheme"),
        (&["--envoy-store", "app:hunter2@10.0.0.7"], "no scheme: write redis://"),
        (&["--envoy-store", "env:redis://app:hunter2@10.0.0.7"], "another scheme"),
        (&["--envoy-store", "env:TOLLGATE_NO_SUCH"], "the variable `TOLLGATE_NO_SUCH` is not set"),
        (&["--envoy-store-failure", "allow"], "--envoy-store <URL>"),
        (
            &["--envoy-store", "redis://:hunter2@h", "--envoy-store-failure", "local"],
            "refuse, allow or local=3",
        ),
        (&["--envoy-store", "redis://:hunter2@h", "--envoy-store-failure", "local=0"], "1 to 4294967295"),
        (&["--envoy-store", "redis://:hunter2@h", "--envoy-store-deadline", "2min"], "1ms to 1min"),
    ];
    for (options, part) in cases {
        let (code, said) = fails(serve(&folder, &[&["--envoy", &*envoy], options].concat()));
        assert_eq!(code, Some(2), "{options:?}: {said}");
        assert!(said.contains(part) && said.contains("--envoy-store"), "{options:?}: {said}");
        assert!(!said.contains("hunter2"), "{options:?}: {said}");
    }
    let (code, said) = fails(serve(&folder, &["--envoy-store", "redis://:hunter2@10.0.0.7"]));
    assert!(code == Some(2) && said.contains("--envoy <PATH>") && !said.contains("hunter2"), "{said}");
}

#[cfg(target_os = "linux")]
fn names_of_threads(process: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        let name = std::fs::read_to_string(task.expect("an entry").path().join("comm"));
        name.unwrap_or_default().trim().to_owned()
    };
    tasks.map(name).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn so_many_threads_serve_connections_as_are_said() {
    let folder = Folder::new();
    for count in [1, 3] {
        let mut server = Process::start(serve(&folder, &["--threads", &count.to_string()]));
        server.says("serving");
        // A thread that has just begun has not taken its name.
        let begun = Instant::now();
        loop {
            let names = names_of_threads(server.child.id());
            let serves = |name: &&String| {
                name.strip_prefix("tollgate-").is_some_and(|number| number.parse::<u8>().is_ok())
            };
            if names.iter().filter(serves).count() == count {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{names:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }
    let (code, said) = fails(serve(&folder, &["--threads", "0"]));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("from 1 to 1024"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn more_threads_than_the_system_starts_end_the_start() {
    let folder = Folder::new();
    // The address space has room for the stacks of all threads but those that serve connections.
    let others = thread::available_parallelism().expect("it is known").get() + 32;
    let serve = serve(&folder, &["--threads", "1024"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -v {}; exec \"$@\"", others << 20), "sh"]);
    shell.arg(serve.get_program()).args(serve.get_args()).env("RUST_MIN_STACK", (1_u64 << 30).to_string());
    let (code, said) = fails(shell);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the threads that serve connections cannot be started"), "{said}");
}

#[test]
fn the_start_warns_of_rules_that_a_listener_cannot_keep() {
    let folder = Folder::new();
    let rules = "version = 1
        rule = [{ name = 'exports', key = 'client', limits = 'in-flight:2' }]";
    folder.write("rules.toml", rules);
    let mut server = Process::start(serve(&folder, &["--resp", "127.0.0.1:0"]));
    let warned = server.says("WARN resp: ");
    assert!(["`exports`", "W11", "hint="].iter().all(|part| warned.contains(part)), "{warned}");
    server.says("serving");
}

#[test]
fn the_start_and_a_reload_tell_the_files_warnings() {
    let folder = Folder::new();
    let rules = |limit: &str| {
        format!("version = 1\nrule = [{{ name = 'a', key = 'client', limits = '{limit}', mode = 'off' }}]")
    };
    folder.write("rules.toml", &rules("5/s"));
    let mut server = Process::start(serve(&folder, &[]));
    let warning = "no enforced rule limits every request: what no rule limits is admitted";
    let warned = server.says(warning);
    assert!(["WARN", "W2", "rules.toml:1: "].iter().all(|part| warned.contains(part)), "{warned}");
    server.says("serving");
    folder.write("rules.toml", &rules("6/s"));
    server.says(warning);
}

#[test]
fn health_is_what_the_server_answers() {
    for (answer, code) in [("200 OK", Some(0)), ("503 Service Unavailable", Some(1))] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            let mut request = [0; 256];
            let read = client.read(&mut request).expect("a request");
            write!(client, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n").expect("it is sent");
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        let run = tollgate().args(["health", "--ready", "--admin", &address]).output().expect("it runs");
        assert_eq!(run.status.code(), code, "{run:?}");
        assert!(server.join().expect("it ends").starts_with("GET /readyz HTTP/1.1\r\nhost: localhost\r\n"));
    }
    let run = tollgate().args(["health", "--admin", "127.0.0.1:1"]).output().expect("it runs");
    assert_eq!(run.status.code(), Some(1));
    for wrong in ["9080", "fd:admin"] {
        let run = tollgate().args(["health", "--admin", wrong]).output().expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.code() == Some(2) && said.contains("is no address of a server"), "{said}");
    }
}

#[test]
fn completions_and_manual_pages_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let run = tollgate().args(["completions", shell]).output().expect("it runs");
        assert!(String::from_utf8_lossy(&run.stdout).contains("drain-delay"), "{shell}");
    }
    let run = tollgate().arg("man").output().expect("it runs");
    assert!(run.stdout.starts_with(b".ie") || String::from_utf8_lossy(&run.stdout).contains(".TH tollgate"));
    let folder = Folder::new();
    let run = tollgate().args(["man", "--all", &folder.path("")]).output().expect("it runs");
    assert!(run.status.success(), "{run:?}");
    let page = std::fs::read_to_string(folder.path("tollgate-serve.1")).expect("it is written");
    assert!(page.contains("drain") && page.contains("SIGHUP"), "{page}");
}

/// A client may send what it likes: other crates log much of it.
#[test]
fn other_crates_log_only_if_they_are_named() {
    let folder = Folder::new();
    for (log, names_h2) in [("debug", false), ("info,h2=debug", true)] {
        let mut server = Process::start(serve(&folder, &["--log", log, "--drain-delay", "0s"]));
        let address = address_of(&mut server, "http");
        for _ in 0..3 {
            // Data of a stream that there cannot be.
            let frame = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\0\0\0\0\0\0x";
            http::talk(&address, frame);
        }
        server.signal("TERM");
        assert_eq!(server.ends(), Some(0));
        let said = server.said.clone() + &server.rest();
        assert_eq!(said.contains("h2::"), names_h2, "{log}: {said}");
        assert!(!said.contains("hyper"), "{log}: {said}");
    }
    for log in ["loud", "info,h2", "info,h2=loud", "info,=debug", ""] {
        let (code, said) = fails(serve(&folder, &["--log", log]));
        assert!(code == Some(2) && said.contains("--log"), "{said}");
    }
}

/// How often a client sends nonsense is its own choice.
#[test]
fn hostile_connections_are_one_line_of_the_log() {
    const MOST: usize = 300;
    let folder = Folder::new();
    let listeners = ["--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--drain-delay", "0s"];
    let mut server = Process::start(serve(&folder, &listeners));
    let [web, admin, grpc, resp] =
        ["http", "admin", "grpc", "resp"].map(|listener| address_of(&mut server, listener));
    server.says("serving");
    let begun = Instant::now();
    // A header `A`, where all are small, and settings of six bytes less one.
    let broken =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x05\x01\x05\0\0\0\x01\0\x01A\x01x";
    let calls = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x05\x04\0\0\0\0\0hello";
    let wrong: [(&str, &str, &str, &[u8]); 5] = [
        ("http", &web, "http2", broken),
        ("http", &web, "head", b"GET / HTTP/9.9\r\n\r\n"),
        ("admin", &admin, "head", b"GET / HTTP/9.9\r\n\r\n"),
        ("grpc", &grpc, "http2", calls),
        ("resp", &resp, "array_length", b"*x\r\n"),
    ];
    for _ in 0..MOST {
        for (_, address, _, bytes) in wrong {
            http::talk(address, bytes);
        }
    }
    let labels = wrong.map(|(listener, _, kind, _)| format!("listener=\"{listener}\" kind=\"{kind}\""));
    while !labels.iter().all(|labels| server.said.contains(labels)) {
        server.says("protocol errors");
    }
    let page = get(&admin, "/metrics");
    let minutes = 1 + begun.elapsed().as_secs() as usize / 60;
    server.signal("TERM");
    assert_eq!(server.ends(), Some(0));
    let said = server.said.clone() + &server.rest();
    for ((listener, _, kind, _), labels) in wrong.into_iter().zip(&labels) {
        let lines: Vec<_> = said.lines().filter(|line| line.contains(labels)).collect();
        assert!((1..=minutes).contains(&lines.len()), "{said}");
        assert!(lines.iter().all(|line| line.contains(" count=") && line.ends_with(" client=127.0.0.1")));
        let counted =
            format!("tollgate_protocol_errors_total{{listener=\"{listener}\",kind=\"{kind}\"}} {MOST}\n");
        assert!(page.contains(&counted), "{counted}{page}");
    }
    assert!(said.lines().count() < MOST / 3, "{said}");
}

#[test]
fn the_option_or_the_memory_bounds_the_tickets() {
    let folder = Folder::new();
    folder.write(
        "small.toml",
        &format!("{}memory_budget_mib = 64\n{}", &crate::RULES[..12], &crate::RULES[12..]),
    );
    for (rules, options, most) in [
        ("rules.toml", &[][..], 131_072),
        ("small.toml", &[], 8_192),
        ("small.toml", &["--max-tickets", "640"], 640),
    ] {
        folder.write("rules.toml", &std::fs::read_to_string(folder.path(rules)).unwrap());
        let mut server = Process::start(serve(&folder, options));
        let page = get(&address_of(&mut server, "admin"), "/metrics");
        for kind in ["check", "acquire"] {
            let line = format!("tollgate_tickets_max{{kind=\"{kind}\"}} {most}\n");
            assert!(page.contains(&line), "{line}{page}");
        }
    }
}
