//! Random requests and answers, beside hyper.

use http::header::CONTENT_LENGTH;
use http::{HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;

use super::*;

/// After which time no answer is expected any more; and if the machine was busy.
const QUIET: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(3)];

/// A connection that hyper serves from here on.
async fn by_hyper() -> Connection {
    let mut connection = Connection::new().await;
    let first = b"GET / HTTP/1.1\r\nconnection: keep-alive, x\r\n\r\n";
    connection.exchange(first, Response::new(Given::bytes(""))).await;
    connection
}

/// Requests that are plain, apart from their bodies' length.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let names =
        ["x-forwarded-for", "X-Real-IP", "X-Forwarded-URI", "accept", "X-y_z", "Cookie", "x-", "x-realm-ip"];
    let header = (prop::sample::select(names.to_vec()), "[ -~]{0,12}")
        .prop_map(|(name, value)| [name, &value].join(": "));
    let method = prop::sample::select(&["GET", "POST", "PUT", "DELETE", "OPTIONS", "x"][..]);
    let body = prop::option::of(prop::collection::vec(any::<u8>(), 0..300));
    let parts = (method, "/[a-zA-Z0-9/?=&._~%:;@!$'()*+,-]{0,9}", prop::collection::vec(header, 0..9), body);
    parts.prop_map(|(method, target, headers, body)| {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n");
        headers.iter().for_each(|header| request += &format!("{header}\r\n"));
        if let Some(body) = &body {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        [request.as_bytes(), b"\r\n", &body.unwrap_or_default()].concat()
    })
}

#[derive(Clone, Debug)]
struct Plan {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<Vec<u8>>,
    /// Whether the body, and a header, say its length.
    says: [bool; 2],
}

impl Plan {
    fn answer(&self) -> Response<Given> {
        let length = self.body.iter().map(Vec::len).sum::<usize>() as u64;
        let parts = self.body.iter().cloned().map(|part| Part::Bytes(part.into())).collect();
        let mut answer = Response::new(Given { length: self.says[0].then_some(length), parts });
        *answer.status_mut() = StatusCode::from_u16(self.status).unwrap();
        let headers = self.headers.iter();
        answer.headers_mut().extend(
            headers.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
        );
        if self.says[1] {
            answer.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        answer
    }
}

fn plans() -> impl Strategy<Value = Plan> {
    let header = [
        ("content-type", "text/plain"),
        ("retry-after", "3"),
        ("x-a", ""),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("transfer-encoding", "chunked"),
    ];
    let header = prop::sample::select(header.to_vec());
    let body = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..2_000), 0..4);
    let status = prop::sample::select(&[200_u16, 201, 204, 299, 304, 403, 404, 429, 503][..]);
    let parts = (status, prop::collection::vec(header, 0..4), body, any::<[bool; 2]>());
    parts.prop_map(|(status, mut headers, mut body, mut says)| {
        headers.dedup();
        if matches!(status, 204 | 304) {
            body.clear();
        }
        // A response has one of both.
        says[1] &= !headers.iter().any(|(name, _)| *name == "transfer-encoding");
        Plan { status, headers, body, says }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn plain_requests_are_served_as_by_hyper(
        exchanges in prop::collection::vec((requests(), plans()), 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut plain, mut hyper) = (Connection::new().await, by_hyper().await);
            for (request, plan) in &exchanges {
                let own = plain.exchange(request, plan.answer()).await;
                let other = hyper.exchange(request, plan.answer()).await;
                assert_eq!(own, other, "{:?} {plan:?}", request.escape_ascii().to_string());
            }
        });
    }
}

/// All that handlers see of a connection that sends these bytes and no more, and how many answers
/// come. Those of status 400 do not count: hyper may wait for more of a broken request first.
async fn talk(bytes: &[u8], quiet: Duration) -> (Vec<Seen>, usize) {
    let Connection { mut client, mut asked, .. } = Connection::new().await;
    // The server may close it before all is sent.
    let _ = client.write_all(bytes).await;
    let (mut seen, mut heard) = (Vec::new(), Vec::new());
    let answers = async {
        while let Some((one, answer)) = asked.recv().await {
            seen.push(one);
            let _ = answer.send(Response::new(Given::bytes("done")));
        }
    };
    let reads = async {
        while timeout(quiet, client.read_buf(&mut heard))
            .await
            .is_ok_and(|read| read.is_ok_and(|count| count > 0))
        {}
        drop(client);
    };
    timeout(LONG, futures_util::future::join(answers, reads)).await.unwrap();
    let answers = heard.windows(12).filter(|bytes| bytes == b"HTTP/1.1 200").count();
    (seen, answers)
}

/// Bytes that mean something in a head.
const MARKS: &[u8] = b"\r\n\t :,;0123 +-\0\x7f\xffGPHTTP/1.1;=\"#%?*@[]kKcCtTeExX";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn broken_requests_are_read_as_by_hyper(
        requests in prop::collection::vec(requests(), 1..3),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(MARKS), 0..4_u8), 0..5),
    ) {
        let mut bytes = requests.concat();
        for (place, mark, change) in changes {
            let place = place.index(bytes.len());
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let first = b"GET / HTTP/1.1\r\nconnection: keep-alive, x\r\n\r\n";
            let forced = [&first[..], &bytes].concat();
            for quiet in QUIET {
                let ((own, heard), (mut other, told)) = tokio::join!(talk(&bytes, quiet), talk(&forced, quiet));
                other.remove(0);
                if (&own, heard + 1) == (&other, told) {
                    return;
                }
                assert!(quiet < QUIET[1], "{}: {own:?} beside {other:?}, {heard}, {told}", bytes.escape_ascii());
            }
        });
    }
}
