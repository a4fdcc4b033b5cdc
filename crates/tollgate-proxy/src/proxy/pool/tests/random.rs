//! Random exchanges, by a plain connection and by one that hyper drives.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

fn requests() -> impl Strategy<Value = (String, Vec<(&'static str, String)>, Vec<u8>)> {
    let header = (select(&["accept", "x-a", "cookie", "x-forwarded-for", "forwarded"][..]), "[!-~]{1,12}");
    let method = select(&["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"][..]);
    let body = prop::collection::vec(any::<u8>(), 0..300);
    let parts =
        (method, "/[a-zA-Z0-9/?=&._~%-]{0,9}", prop::collection::vec(header, 0..6), body, any::<bool>());
    parts.prop_map(|(method, target, mut headers, body, says)| {
        if says {
            headers.push(("content-length", body.len().to_string()));
        }
        (format!("{method} {target}"), headers, body)
    })
}

fn request((line, headers, body): &(String, Vec<(&'static str, String)>, Vec<u8>)) -> Request<Upload> {
    let (method, target) = line.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(target).header("host", "a.test");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    request.body(Upload::whole(body.clone().into())).unwrap()
}

/// An answer to any method but HEAD, and whether its end shows without that of the connection.
fn answers() -> impl Strategy<Value = (Vec<u8>, bool)> {
    let line = [
        "200 OK",
        "200 Fine",
        "201 Created",
        "204 No Content",
        "304 Not Modified",
        "404 Not Found",
        "429 Too Many Requests",
        "503 Service Unavailable",
        "299 ",
    ];
    let header =
        ["server: x", "date: now", "Connection: keep-alive", "x-a:", "set-cookie: a=b", "connection: close"];
    let framing =
        select(&["length", "length", "length", "chunked", "none", "both", "twice", "short", "long"][..]);
    let headers = prop::collection::vec(select(header.to_vec()), 0..5);
    let body = prop::collection::vec(any::<u8>(), 0..3_000);
    (select(line.to_vec()), headers, framing, body, prop::bool::weighted(0.1)).prop_map(
        |(line, headers, framing, mut body, hints)| {
            if line.starts_with("204") || line.starts_with("304") {
                body.clear();
            }
            let mut head = if hints { "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" } else { "" }.to_owned();
            head += &format!("HTTP/1.1 {line}\r\n");
            headers.iter().for_each(|header| head += &format!("{header}\r\n"));
            let length = match framing {
                "short" => body.len().saturating_sub(1),
                "long" => body.len() + 1,
                _ => body.len(),
            };
            let is_chunked = matches!(framing, "chunked" | "both") && !body.is_empty();
            if is_chunked {
                head += "Transfer-Encoding: chunked\r\n";
                body = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
            }
            let lines = match framing {
                "none" | "chunked" => 0,
                "twice" => 2,
                _ => 1,
            };
            head += &format!("Content-Length: {length}\r\n").repeat(lines);
            let ends = is_chunked || matches!(framing, "length" | "twice");
            ([head.as_bytes(), b"\r\n", &body].concat(), ends)
        },
    )
}

/// Cuts bytes into parts.
fn cut(bytes: &[u8], places: &[Index]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    let begins = [0].into_iter().chain(places.clone());
    let ends = places.iter().copied().chain([bytes.len()]);
    begins.zip(ends).map(|(begin, end)| bytes[begin..end].to_vec()).filter(|part| !part.is_empty()).collect()
}

/// Bytes that mean something in a head.
const MARKS: &[u8] = b"\r\n\t :,;0123 +-\0\x7f\xffHTTP/1.1;=\"kKcCtTeExX";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn plain_answers_are_read_as_by_hyper(
        exchanges in prop::collection::vec(
            (requests(), answers(), prop::collection::vec(any::<Index>(), 0..3), any::<bool>()),
            1..4,
        ),
    ) {
        let plans: Vec<Plan> = exchanges
            .iter()
            .map(|((line, ..), (bytes, ends), cuts, closes)| {
                let is_head = line.starts_with("HEAD");
                let head = bytes.windows(4).rposition(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
                let bytes = if is_head && *ends { &bytes[..head] } else { &bytes[..] };
                Plan { parts: cut(bytes, cuts), closes: *closes || !ends || is_head }
            })
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (plain, hyper) = (Server::new(&plans).await, Server::by_hyper(&plans).await);
            for ((exchange, ..), plan) in exchanges.iter().zip(&plans) {
                let (own, other) = (plain.ask(request(exchange)).await, hyper.ask(request(exchange)).await);
                assert_eq!(own, other, "{exchange:?} {plans:?}");
                if plan.closes {
                    plain.closed().await;
                    hyper.closed().await;
                }
            }
            assert_eq!(plain.script().read, hyper.script().read, "{plans:?}");
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn broken_answers_are_read_as_by_hyper(
        answer in answers(),
        changes in prop::collection::vec((any::<Index>(), select(MARKS), 0..4_u8), 0..5),
        cuts in prop::collection::vec(any::<Index>(), 0..2),
    ) {
        let (mut bytes, _) = answer;
        for (place, mark, change) in changes {
            // Mostly in the head.
            let place = place.index(bytes.len().min(200));
            match change {
                0 => bytes[place] = mark,
                1 => bytes.insert(place, mark),
                2 => drop(bytes.remove(place)),
                _ => {
                    // A part comes twice.
                    let part = bytes[place..bytes.len().min(place + 30)].to_vec();
                    bytes.splice(place..place, part);
                }
            }
        }
        let plans = [Plan { parts: cut(&bytes, &cuts), closes: true }];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (plain, hyper) = (Server::new(&plans).await, Server::by_hyper(&plans).await);
            let (own, other) = (plain.ask(get()).await, hyper.ask(get()).await);
            assert_eq!(own, other, "{}", bytes.escape_ascii());
            assert_eq!(plain.script().read, hyper.script().read);
        });
    }
}
