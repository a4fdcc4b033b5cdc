//! Published ways to make a proxy and its upstream disagree on where a request of HTTP/1 ends, with
//! their sources: what the client is told, and what the upstream saw.
//!
//! | short | source |
//! |-------|--------|
//! | Watchfire 2005 | Linhart, Klein, Heled, Orrin: HTTP Request Smuggling |
//! | Hosts 2016 | Chen, Jiang, Duan and others: Host of Troubles |
//! | Kettle 2019 | James Kettle: HTTP Desync Attacks |
//! | Klein 2020 | Amit Klein: HTTP Request Smuggling in 2020 |
//! | h2c 2020 | Jake Miller: h2c Smuggling |
//! | Kettle 2021 | James Kettle: HTTP/2: The Sequel is Always Worse |
//! | Kettle 2022 | James Kettle: Browser-Powered Desync Attacks |
//! | TE.0 2024 | Bugcrowd: Unveiling TE.0 HTTP Request Smuggling |
//! | Funky 2025 | Jeppe Bonde Weikop: Funky chunks |
//! | Kettle 2025 | James Kettle: HTTP/1.1 Must Die |

use super::support::start_with;
use tollgate_server::Settings;
use tollgate_testing::upstream::recorder;
use tollgate_testing::wait::eventually;

const RULES: &str = "rule = [{ name = 'each', key = 'client', limits = '1000/s' }]";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A request that must stay a part of a body, or unread.
const INNER: &str = "GET /smuggled HTTP/1.1\r\nhost: a.test\r\n\r\n";

/// No chunks, and behind them that request.
const ENDED: &str = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a.test\r\n\r\n";

/// What the upstream saw before the request that is sent after a case.
#[derive(Debug)]
enum Saw {
    /// The client is told 400.
    Nothing,
    /// These bytes, without what the proxy says of the client. The client is told 200.
    Exactly(String),
    /// A body that does not end. The client is told 400.
    NoEnd,
}

use Saw::{Exactly, NoEnd, Nothing};

type Case = (&'static str, String, Saw);

fn post(headers: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: a.test\r\n{headers}\r\n\r\n{body}")
}

fn chunked(body: &str) -> String {
    post("transfer-encoding: chunked", body)
}

/// Which end counts: that of the length, or that of the chunks.
fn two_ends() -> Vec<(&'static str, Vec<Case>)> {
    let length = INNER.len();
    let both = |coding: &str| post(&format!("content-length: {}\r\n{coding}", length + 5), ENDED);
    let nothing = || Exactly(chunked("0\r\n\r\n"));
    vec![
        (
            "Watchfire 2005; RFC 9112, 6.3",
            vec![
                ("CL.TE", both("transfer-encoding: chunked"), nothing()),
                (
                    "TE.CL",
                    post(
                        "transfer-encoding: chunked\r\ncontent-length: 4",
                        &format!("{length:x}\r\n{INNER}\r\n{ENDED}"),
                    ),
                    Exactly(chunked(&format!("{length:X}\r\n{INNER}\r\n0\r\n\r\n"))),
                ),
                (
                    "two lengths",
                    post(&format!("content-length: 0\r\ncontent-length: {length}"), INNER),
                    Nothing,
                ),
                ("a list of lengths", post(&format!("content-length: 0, {length}"), INNER), Nothing),
                (
                    "a body of a GET (also 0.CL, Kettle 2025)",
                    format!(
                        "GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{INNER}"
                    ),
                    Exactly(format!(
                        "GET / HTTP/1.1\r\nhost: a.test\r\ncontent-length: {length}\r\n\r\n{INNER}"
                    )),
                ),
            ],
        ),
        (
            "Kettle 2022 (CL.0)",
            vec![(
                "a body where none is expected",
                post(&format!("connection: close\r\ncontent-length: {length}"), INNER),
                Exactly(post(&format!("content-length: {length}"), INNER)),
            )],
        ),
        (
            "TE.0 2024",
            vec![(
                "chunks where none are expected",
                format!(
                    "OPTIONS / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{INNER}\r\n0\r\n\r\n"
                ),
                Exactly(format!(
                    "OPTIONS / HTTP/1.1\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\n{length:X}\r\n{INNER}\r\n0\r\n\r\n"
                )),
            )],
        ),
        (
            "Kettle 2025 (Expect)",
            vec![
                (
                    "an altered expectation",
                    post("connection: close\r\nexpect: y 100-continue\r\ncontent-length: 2", "ab"),
                    Exactly(post("content-length: 2", "ab")),
                ),
                (
                    "an expectation of nothing",
                    "GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\nexpect: 100-continue\r\n\r\n"
                        .into(),
                    Exactly("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n".into()),
                ),
            ],
        ),
        (
            "RFC 9112, 6.3; CVE-2021-32715 (hyper)",
            vec![("a signed length", post(&format!("content-length: +{length}"), INNER), Nothing)],
        ),
        (
            "RFC 9112, 6.3; CVE-2023-40225 (HAProxy)",
            vec![("an empty length", post("content-length:", INNER), Nothing)],
        ),
        (
            "RFC 9112, 6.1 and 6.3",
            vec![
                (
                    "a length with more behind it",
                    post(&format!("content-length: {length} 0"), INNER),
                    Nothing,
                ),
                (
                    "a coding of a client of HTTP/1.0",
                    format!("POST / HTTP/1.0\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\n{ENDED}"),
                    Nothing,
                ),
            ],
        ),
        (
            "Klein 2020",
            vec![
                ("a length with more in its name", post("content-length a: 0", INNER), Nothing),
                ("a bare CR before a length", post("\rcontent-length: 0", INNER), Nothing),
            ],
        ),
        (
            "RFC 9110, 17.10 (fields as variables of CGI)",
            vec![
                ("an underscore in the coding", both("transfer_encoding: chunked"), Nothing),
                ("an underscore in the length", post("content_length: 0", INNER), Nothing),
            ],
        ),
    ]
}

/// A coding that only one side reads.
fn codings() -> Vec<(&'static str, Vec<Case>)> {
    let coded = |line: &str| post(line, ENDED);
    vec![
        (
            "Kettle 2019",
            vec![
                ("an unknown coding", coded("transfer-encoding: xchunked"), Nothing),
                (
                    "a coding of its own line",
                    coded("transfer-encoding: chunked\r\ntransfer-encoding: x"),
                    Nothing,
                ),
                ("a blank before the colon", coded("transfer-encoding : chunked"), Nothing),
                ("a line end before the colon", coded("transfer-encoding\n : chunked"), Nothing),
                (
                    "a first line that begins with a blank",
                    format!("POST / HTTP/1.1\r\n transfer-encoding: chunked\r\nhost: a.test\r\n\r\n{ENDED}"),
                    Nothing,
                ),
                (
                    "a bare LF in a value",
                    post("x-a: b\ntransfer-encoding: chunked\r\nconnection: close", "0\r\n\r\n"),
                    Exactly(post("x-a: b\r\ntransfer-encoding: chunked", "0\r\n\r\n")),
                ),
                (
                    "a tab before the coding",
                    post("connection: close\r\ntransfer-encoding:\tchunked", "0\r\n\r\n"),
                    Exactly(chunked("0\r\n\r\n")),
                ),
                ("a quoted coding", coded("transfer-encoding: \"chunked\""), Nothing),
            ],
        ),
        (
            "CVE-2019-18277 (HAProxy), CVE-2019-16786 (Waitress)",
            vec![
                ("a vertical tab before the coding", coded("transfer-encoding: \x0bchunked"), Nothing),
                ("a form feed before the coding", coded("transfer-encoding: \x0cchunked"), Nothing),
            ],
        ),
        (
            "RFC 9112, 5.2; CVE-2022-32215 (llhttp)",
            vec![
                ("a folded coding", coded("transfer-encoding:\r\n chunked"), Nothing),
                ("a folded list of codings", coded("transfer-encoding: chunked,\r\n identity"), Nothing),
                ("a coding in a folded line", coded("x-a: b\r\n transfer-encoding: chunked"), Nothing),
            ],
        ),
        (
            "RFC 9112, 6.1 and 6.3",
            vec![
                ("chunked is not last", coded("transfer-encoding: chunked, identity"), Nothing),
                ("a coding before chunked", coded("transfer-encoding: gzip, chunked"), Nothing),
                ("a parameter of the coding", coded("transfer-encoding: chunked;a=b"), Nothing),
                ("an empty coding", coded("transfer-encoding:"), Nothing),
            ],
        ),
        (
            "CVE-2021-21299 (hyper)",
            vec![(
                "the coding twice",
                coded("transfer-encoding: chunked\r\ntransfer-encoding: chunked"),
                Nothing,
            )],
        ),
        (
            "Klein 2020; RFC 9112, 2.2",
            vec![
                ("a bare CR in a value", coded("x-a: b\rtransfer-encoding: chunked"), Nothing),
                ("a bare CR in a name", coded("x-a\rtransfer-encoding: chunked"), Nothing),
                (
                    "lines that end by a bare LF; CVE-2019-16785 (Waitress)",
                    "POST / HTTP/1.1\nhost: a.test\nconnection: close\ncontent-length: 2\n\nab".into(),
                    Exactly(post("content-length: 2", "ab")),
                ),
            ],
        ),
        (
            "RFC 9110, 5.1 and 5.5",
            vec![
                ("a tab in the name", coded("transfer\tencoding: chunked"), Nothing),
                ("a zero byte in a value", coded("x-a: b\0c"), Nothing),
                (
                    "an empty name; CVE-2023-25725 (HAProxy)",
                    coded(": x\r\ntransfer-encoding: chunked"),
                    Nothing,
                ),
            ],
        ),
    ]
}

/// Chunks that end in two ways.
fn chunks() -> Vec<(&'static str, Vec<Case>)> {
    let late = |body: &str| (chunked(&format!("1\r\na\r\n{body}{INNER}")), NoEnd);
    let with = |name: &'static str, body: &str| {
        let (bytes, saw) = late(body);
        (name, bytes, saw)
    };
    vec![
        (
            "RFC 9112, 7.1; CVE-2022-24761 (Waitress)",
            vec![
                with("a size with +", "+0\r\n\r\n"),
                with("a size with -", "-0\r\n\r\n"),
                with("a size with _", "0_0\r\n\r\n"),
                with("a size with 0x", "0x0\r\n\r\n"),
                with("a blank before the size", " 0\r\n\r\n"),
                with("a size without digits", ";a\r\n\r\n"),
                ("no size at all", chunked(&format!("x\r\n{INNER}")), Nothing),
                (
                    "a blank behind the size",
                    post("connection: close\r\ntransfer-encoding: chunked", "1 \r\na\r\n0\r\n\r\n"),
                    Exactly(chunked("1\r\na\r\n0\r\n\r\n")),
                ),
            ],
        ),
        (
            "RFC 9112, 7.1; CVE-2021-32714 (hyper)",
            vec![with("a size beyond 64 bits", "10000000000000000\r\n\r\n")],
        ),
        (
            "Funky 2025; CVE-2025-22871 (Go)",
            vec![
                with("a size ended by a bare LF", "0\n\r\n"),
                with("a size ended by a bare CR", "0\rx\r\n"),
                with("an extension ended by a bare LF", "0;a\nb\r\n\r\n"),
                with("an extension with a bare CR", "0;a\rb\r\n\r\n"),
                with("a chunk longer than its size", "1\r\nab\r\n0\r\n\r\n"),
                with("a chunk ended by a bare LF", "1\r\na\n0\r\n\r\n"),
                with("a chunk ended by a bare CR", "1\r\na\r0\r\n\r\n"),
            ],
        ),
        (
            "RFC 9112, 7.1.1; CVE-2021-22960 (llhttp)",
            vec![
                with("an overlong extension", &format!("0;{}\r\n\r\n", "a".repeat(16 << 10))),
                (
                    "an extension",
                    post("connection: close\r\ntransfer-encoding: chunked", "1;a=b\r\na\r\n0;c\r\n\r\n"),
                    Exactly(chunked("1\r\na\r\n0\r\n\r\n")),
                ),
            ],
        ),
        (
            "RFC 9110, 6.5.1",
            vec![(
                "forbidden trailers",
                post(
                    "connection: close\r\ntransfer-encoding: chunked\r\n\
                     trailer: x-a, transfer-encoding, content-length, host, x-forwarded-for",
                    "0\r\nx-a: b\r\ntransfer-encoding: x\r\ncontent-length: 9\r\nhost: b.test\r\n\
                     x-forwarded-for: 192.0.2.1\r\n\r\n",
                ),
                Exactly(post(
                    "trailer: x-a, transfer-encoding, content-length, host, x-forwarded-for\r\n\
                     transfer-encoding: chunked",
                    "0\r\nx-a: b\r\n\r\n",
                )),
            )],
        ),
    ]
}

/// Heads that name two requests.
fn heads() -> Vec<(&'static str, Vec<Case>)> {
    let get = |target: &str, headers: &str| format!("GET {target} HTTP/1.1\r\n{headers}\r\n\r\n{INNER}");
    vec![
        (
            "Hosts 2016; RFC 9112, 3.2",
            vec![
                ("two hosts", get("/", "host: a.test\r\nhost: b.test"), Nothing),
                ("no host", format!("GET / HTTP/1.1\r\n\r\n{INNER}"), Nothing),
                ("another host in the target", get("http://b.test/", "host: a.test"), Nothing),
                ("a user in the host", get("/", "host: a@b.test"), Nothing),
                ("a folded host", get("/", "host: a.test\r\n host: b.test"), Nothing),
            ],
        ),
        (
            "RFC 9112, 3.2.3 and 3",
            vec![
                (
                    "a tunnel",
                    format!("CONNECT b.test:80 HTTP/1.1\r\nhost: b.test:80\r\n\r\n{INNER}"),
                    Nothing,
                ),
                ("a blank in the target", get("/a HTTP/1.1 b", "host: a.test"), Nothing),
                (
                    "a version that is none; Klein 2020",
                    format!("GET / HTTP/1.2\r\nhost: a.test\r\n\r\n{INNER}"),
                    Nothing,
                ),
            ],
        ),
        (
            "h2c 2020",
            vec![(
                "HTTP/2 by upgrade",
                get(
                    "/",
                    "host: a.test\r\nconnection: upgrade, http2-settings, close\r\nupgrade: h2c\r\n\
                     http2-settings: AAMAAABkAAQAAP__",
                ),
                Exactly("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n".into()),
            )],
        ),
    ]
}

/// What the upstream saw, without what the proxy says of the client.
fn untold(seen: &str) -> String {
    let is_told =
        |line: &&str| ["x-forwarded-", "forwarded: ", "cdn-loop: "].iter().any(|told| line.starts_with(told));
    seen.split_inclusive("\r\n").filter(|line| !is_told(line)).collect()
}

/// The same request with the length of its body, which is known once all has come.
fn with_length(chunked: &str) -> String {
    let (head, mut rest) = chunked.split_once("\r\n\r\n").unwrap();
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n")
        && size != "0"
    {
        let size = usize::from_str_radix(size, 16).unwrap();
        body += &after[..size];
        rest = &after[size + 2..];
    }
    let head = head.replace("\r\ntransfer-encoding: chunked", "");
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn no_smuggled_request_reaches_the_upstream() {
    none_is_smuggled(64 << 10).await;
}

#[tokio::test]
async fn no_smuggled_request_is_streamed_to_the_upstream() {
    none_is_smuggled(0).await;
}

async fn none_is_smuggled(buffer: usize) {
    const KNOWN: &str = "GET /known HTTP/1.1\r\nhost: a.test\r\n\r\n";
    for (source, cases) in [two_ends(), codings(), chunks(), heads()].into_iter().flatten() {
        for (name, bytes, saw) in cases {
            let (url, record) = recorder(OK).await;
            let set = |settings: &mut Settings| settings.forward.buffer_requests = buffer;
            let proxy = start_with(RULES, &[url], set).await;
            let answer = proxy.raw(bytes.as_bytes()).await;
            let what = format!("{name} ({source}), buffer {buffer}: {saw:?}");
            let status = if matches!(saw, Exactly(_)) { 200 } else { 400 };
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer}");
            assert_eq!(answer.matches("HTTP/1.").count(), 1, "{what}: {answer}");
            // A request that comes late comes before this one.
            assert_eq!(proxy.status("/known").await, 200, "{what}");
            let seen = || untold(&String::from_utf8_lossy(&record.lock().unwrap()));
            eventually(|| seen().ends_with(KNOWN)).await;
            let seen = seen();
            let before = seen.strip_suffix(KNOWN).unwrap();
            match saw {
                Nothing => assert_eq!(before, "", "{what}"),
                // With trailers it stays in chunks.
                Exactly(expected) => {
                    let is_framed_anew =
                        buffer > 0 && expected.contains("chunked") && before == with_length(&expected);
                    assert!(is_framed_anew || before == expected, "{what}: {before}");
                }
                // The head and two chunks may be on their way when the next one is seen to be none.
                NoEnd if buffer > 0 => assert_eq!(before, "", "{what}"),
                NoEnd => {
                    let whole = chunked("1\r\na\r\n1\r\na\r\n");
                    assert!(whole.starts_with(before), "{what}: {before}");
                }
            }
        }
    }
}
