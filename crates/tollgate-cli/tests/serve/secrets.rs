//! The passwords of stores: no log, page, metric or error has four characters of one.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use tollgate_testing::folder::free_port;
use tollgate_testing::http;
use tollgate_testing::process::Process;

use super::{Folder, address_of, get, serve, tollgate};

/// Passwords of all shapes. Four characters of one are in no word, nor in the time of a log's line.
const PASSWORDS: [&str; 7] = [
    "Zq7WxKv9Jd",
    "Qv#Zk?Wq/Yx#Bj",
    "Xj@Vq:Kz%Wf@Gq",
    "Jq\"Vx'Zk\\Wp",
    "\u{17d}q\u{16f}\u{17e}\u{f6}\u{df}\u{119}Xw",
    "Kx+Vw&Jz=Qf+Bv",
    "Wq%Kx%Vk%Gz",
];

/// The password as an address has it.
fn encoded(password: &str) -> String {
    password.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() {
            text.push(byte.into());
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// A store that repeats what it is told as it refuses it.
fn repeating_store() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut bytes = [0; 4_096];
                while let Ok(read @ 1..) = stream.read(&mut bytes) {
                    let said = String::from_utf8_lossy(&bytes[..read]).into_owned();
                    let is_command = |line: &&str| line.starts_with('*');
                    let commands = said.split("\r\n").filter(is_command).count();
                    let words = said.replace(['\r', '\n'], " ");
                    let answers = format!("-ERR I do not know {words}\r\n").repeat(commands);
                    if stream.write_all(answers.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// A file whose addresses are in order: of a store that refuses, and of places where there is none.
fn right(port: u16) -> String {
    let (mut rules, mut stores) = ("version = 1\n".to_owned(), String::new());
    let closed = free_port();
    for (number, password) in PASSWORDS.into_iter().map(encoded).enumerate() {
        let addresses = [
            format!("redis://app:{password}@127.0.0.1:{port}"),
            format!("redis://app:{password}@127.0.0.1:{port}/1?protocol=3"),
            format!("redis://:{password}@127.0.0.1:{closed}"),
            format!("redis+unix:///no/such/socket?user=app&pass={password}"),
        ];
        for (at, address) in addresses.iter().enumerate() {
            let fields = "key = 'everyone'\nlimits = '5/s'\non_failure = 'allow'";
            let _ = writeln!(rules, "[[rule]]\nname = 'r{number}-{at}'\n{fields}\nstore = '{address}'");
        }
        for (name, at) in [("cluster", 0), ("sentinels", 2), ("env", 0)] {
            let fields = "key = 'client'\nlimits = '5/s'";
            let _ = writeln!(rules, "[[rule]]\nname = '{name}{number}'\n{fields}\nstore = '{name}{number}'");
            let url = match name {
                "env" => format!("url_env = 'TOLLGATE_SECRET_{number}'"),
                _ => format!("url = '{}'\n{name} = ['{}']", addresses[at], addresses[2]),
            };
            let _ = writeln!(stores, "[stores.{name}{number}]\n{url}");
        }
    }
    rules + &stores
}

/// A file whose addresses are none, each in another way, with the password as it is.
fn wrong(password: &str) -> String {
    let mut text = "version = 1\n".to_owned();
    let addresses = [
        format!("redis://app:{password}#@127.0.0.1:6379"),
        format!("redis://app:{password}"),
        format!("redis://{password}@"),
        format!("redis://h/{password}"),
        format!("redis://h?password={password}"),
        format!("redis+unix:///s?pass={password}&db=x"),
        format!("rediss://app:{password}@h#insecure"),
        format!("http://app:{password}@h"),
        format!("redis:app:{password}@h"),
    ];
    for (at, address) in addresses.iter().enumerate() {
        let rule = format!("[[rule]]\nname = 'r{at}'\nkey = 'everyone'\nlimits = '5/s'\n");
        let _ = writeln!(text, "{rule}store = {address:?}\n[stores.s{at}]\nurl = {address:?}");
    }
    // No TOML: a line without quotes, and one whose quote is not closed.
    let _ = writeln!(text, "x = redis://app:{password}@h\ny = \"redis://app:{password}@h");
    text
}

#[test]
fn nothing_that_is_said_has_four_characters_of_a_password() {
    let (folder, port) = (Folder::new(), repeating_store());
    let limit = "descriptors: [{ key: k, rate_limit: { unit: hour, requests_per_unit: 5 } }]";
    folder.write("shop.yaml", &format!("domain: shop\n{limit}\n"));
    let envoy = folder.path("shop.yaml");
    let mut said = Vec::new();
    let mut tell = |what: String, text: String| said.push((what, text));

    for (number, password) in PASSWORDS.into_iter().enumerate() {
        folder.write("wrong.toml", &wrong(password));
        let file = folder.path("wrong.toml");
        let [http, unencoded] =
            [format!("http://app:{password}@h"), format!("redis://app:{password}@h:0/{password}")];
        let of_files = ["serve", "--rules", "rules.toml", "--envoy", &*envoy, "--envoy-store"];
        let commands: [&[&str]; 6] = [
            &[&of_files[..], &[&*http]].concat(),
            &[&of_files[..], &[&*unencoded]].concat(),
            &["rules", "check", &file],
            &["rules", "check", "--json", &file],
            &["rules", "explain", &file, "GET /"],
            &["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules", &file],
        ];
        for arguments in commands {
            let run = tollgate().args(arguments).stdin(Stdio::null()).output().expect("it runs");
            assert!(!run.status.success(), "{arguments:?}");
            let text = [run.stdout, run.stderr].concat();
            tell(format!("{arguments:?} of {number}"), String::from_utf8_lossy(&text).into_owned());
        }
    }

    folder.write("rules.toml", &right(port));
    let of_files = ["--envoy", &*envoy, "--envoy-store", "env:TOLLGATE_SECRET_1"];
    let mut command = serve(&folder, &[&["--log", "debug"], &of_files[..]].concat());
    for (number, password) in PASSWORDS.into_iter().map(encoded).enumerate() {
        command.env(format!("TOLLGATE_SECRET_{number}"), format!("redis://app:{password}@127.0.0.1:{port}"));
    }
    let mut server = Process::start(command);
    let (asked, admin) = (address_of(&mut server, "http"), address_of(&mut server, "admin"));
    let ask = |address: &str, method, path: &str, body: &str| {
        let request = http::request(
            method,
            path,
            &[("host", "localhost"), ("connection", "close"), ("x-tollgate", "1")],
            body,
        );
        String::from_utf8_lossy(&http::talk(address, request.as_bytes())).into_owned()
    };
    for _ in 0..7 {
        tell("a check".into(), ask(&asked, "POST", "/v1/check", "{\"client\":\"203.0.113.9\"}"));
    }
    let call = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;
    let refused = ask(&asked, "POST", "/json", call);
    assert!(refused.starts_with("HTTP/1.1 429"), "the store refuses: {refused}");
    tell("a call of Envoy".into(), refused);
    for password in PASSWORDS {
        tell("a plan".into(), ask(&admin, "POST", "/admin/plan", &wrong(password)));
        folder.write("rules.toml", &wrong(password));
        let reloaded = ask(&admin, "POST", "/admin/reload", "");
        assert!(reloaded.starts_with("HTTP/1.1 422"), "{reloaded}");
        tell("a reload".into(), reloaded);
    }
    let pages = get(&admin, "/openapi.json");
    let paths: Vec<&str> =
        pages.split('"').filter(|word| word.starts_with('/') && !word.contains('{')).collect();
    assert!(paths.contains(&"/admin/rules") && paths.contains(&"/metrics"), "{paths:?}");
    for path in paths.into_iter().chain(["/"]) {
        tell(format!("GET {path}"), get(&admin, path));
    }
    server.signal("TERM");
    server.ends();
    let log = format!("{}{}", server.said, server.rest());
    assert!(log.contains("the store failed a request"), "it is the log of the stores, too: {log}");
    tell("the log".into(), log);

    for password in PASSWORDS {
        for text in [password.to_owned(), encoded(password)] {
            let letters: Vec<char> = text.chars().collect();
            for part in letters.windows(4).map(|part| part.iter().collect::<String>()) {
                let told = said.iter().find(|(_, text)| text.contains(&part));
                assert!(told.is_none(), "{part:?} of {password:?}: {told:?}");
            }
        }
    }
}
