//! Several upstreams, and what is answered if none is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tollgate_server::Settings;
use tollgate_testing::certificates::Authority;
use tollgate_testing::folder::Folder;
use tollgate_testing::servers::loopback;
use tollgate_testing::upstream::{Gate, by_hand, echo, full, recorder, upstream};
use tollgate_testing::wait::eventually;

use super::support::{start, start_with};

const ANY: &str = "rule = [{ name = 'each', key = 'client', limits = '1000/s' }]";

/// The address of an upstream that is not there.
async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn the_upstream_that_serves_the_fewest_is_asked() {
    let (one, other) = (Gate::new().await, Gate::new().await);
    let proxy = start(ANY, &[one.url.clone(), other.url.clone()]).await;
    let arrived = || [one.arrived.load(Relaxed), other.arrived.load(Relaxed)];
    let held = proxy.status("/held");
    let others = async {
        eventually(|| arrived().iter().sum::<usize>() == 1).await;
        let busy = arrived();
        for _ in 0..4 {
            assert_eq!(proxy.status("/free").await, 200);
        }
        let free = busy.map(|held| if held == 0 { 4 } else { held });
        assert_eq!(arrived(), free, "all go to the one that serves nothing");
        one.open();
        other.open();
    };
    assert_eq!(tokio::join!(held, others).0, 200);
    // Equals take turns.
    for _ in 0..4 {
        assert_eq!(proxy.status("/free").await, 200);
    }
    assert_eq!(arrived().iter().min(), Some(&3), "{:?}", arrived());
}

/// Between the proxy and itself is a relay, as its own address is refused at the start.
#[tokio::test]
async fn a_loop_of_proxies_is_answered_508() {
    let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = start(ANY, &[format!("http://{}", relay.local_addr().unwrap())]).await;
    let address = proxy.proxy();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = relay.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(address).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    assert_eq!(timeout(tollgate_testing::wait::LONG, proxy.status("/")).await.expect("it ends"), 508);
}

#[tokio::test]
async fn an_upstream_that_is_not_there_costs_no_request() {
    let proxy = start(ANY, &[nowhere().await, echo().await, nowhere().await]).await;
    for _ in 0..6 {
        let answer = proxy.call("POST", "/", &[], "body").await;
        assert_eq!(answer.status, 200);
        assert!(answer.body.ends_with(b"body"));
    }
}

/// The next one gets the request as the first one would have: the version of HTTP may be another.
#[tokio::test]
async fn an_absent_upstream_leaves_nothing_in_the_request() {
    let chunked = "POST /x HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                   4\r\nbody\r\n0\r\n\r\n";
    let there = echo().await;
    for (gone, there) in [
        (nowhere().await, there.replace("http:", "h2c:")),
        (nowhere().await.replace("http:", "h2c:"), there.clone()),
        (nowhere().await, there.clone()),
    ] {
        // The first is asked for the first request, and rests then.
        let proxy = start(ANY, &[gone, there.clone()]).await;
        let answers = [proxy.raw(chunked.as_bytes()).await, proxy.raw(chunked.as_bytes()).await];
        for answer in &answers {
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("body"), "{there}: {answer}");
            let names_host = match there.starts_with("h2c") {
                true => answer.contains("POST http://a.test/x HTTP/2.0"),
                false => answer.contains("POST /x HTTP/1.1") && answer.contains("\nhost: a.test"),
            };
            assert!(names_host, "{there}: {answer}");
            assert_eq!(answer.matches("forwarded: for=").count(), 1, "{there}: {answer}");
        }
    }
}

/// The request comes back from the connection that was closed, and again from the one that cannot
/// be made.
#[tokio::test]
async fn an_upstream_that_has_gone_costs_no_request() {
    let there = echo().await;
    for _ in 0..5 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let goes = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            assert!(stream.read(&mut head).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody").await.unwrap();
            // Until then it is kept.
            tokio::time::sleep(Duration::from_millis(20)).await;
        });
        let proxy = start(ANY, &[url, there.clone()]).await;
        for request in 0..4 {
            let answer = proxy.call("POST", "/", &[], "body").await;
            assert!(answer.status == 200 && answer.body.ends_with(b"body"), "{request}: {}", answer.status);
            if request == 0 {
                // It was asked first.
                eventually(|| goes.is_finished()).await;
            }
        }
    }
}

/// It could be taken for the answer to another client's request.
#[tokio::test]
async fn what_comes_behind_an_answer_reaches_no_client() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nevil",
    ] {
        let proxy = start(ANY, &[recorder(answer).await.0]).await;
        for body in ["", "body"] {
            for _ in 0..5 {
                let answer = proxy.call("POST", "/", &[], body).await;
                assert!(answer.status == 200 && answer.body[..] == *b"ok", "{:?}", answer.body);
            }
        }
    }
}

/// HAProxy and Apache say so before they close an idle connection.
#[tokio::test]
async fn a_connection_that_its_upstream_has_closed_costs_no_request() {
    for last_words in ["", "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"] {
        let upstream = by_hand(move |mut stream| async move {
            let mut head = [0; 4096];
            assert!(stream.read(&mut head).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            stream.write_all(last_words.as_bytes()).await.unwrap();
        })
        .await;
        let (closed, proxy) = (&upstream.ended, start(ANY, &[upstream.url()]).await);
        for request in 1..=5 {
            let answer = proxy.call("POST", "/", &[], "body").await;
            assert!(answer.status == 200 && answer.body[..] == *b"ok", "{last_words}: {}", answer.status);
            eventually(|| closed.load(Relaxed) == request).await;
        }
    }
}

/// It may have done what the request asks for, though its answer is none.
#[tokio::test]
async fn what_an_upstream_may_have_read_goes_to_no_other() {
    let (broken, record) = recorder(b"this is no answer\r\n\r\n").await;
    let gate = Gate::new().await;
    let proxy = start(ANY, &[broken, gate.url.clone()]).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(proxy.status("/free").await);
    }
    let read = String::from_utf8_lossy(&record.lock().unwrap()).matches("GET /free ").count();
    assert_eq!(statuses.iter().filter(|status| **status == 502).count(), read, "{statuses:?}");
    assert!(read > 0, "they take turns");
}

/// The address of an upstream whose connections are never made: its queue of them is full.
async fn black_hole() -> (String, Vec<TcpStream>, TcpListener) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        queued.push(stream);
    }
    (format!("http://{address}"), queued, listener)
}

/// Those that were tried have rested by then, and serve fewer.
#[tokio::test]
async fn no_upstream_is_tried_twice() {
    let gate = Gate::new().await;
    let (first, _held, _listener) = black_hole().await;
    let (second, _held, _listener) = black_hole().await;
    let set = |settings: &mut Settings| settings.forward.connect_timeout = Duration::from_millis(2100);
    let proxy = start_with(ANY, &[gate.url.clone(), first, second], set).await;
    let others = async {
        gate.arrivals(1).await;
        let status = proxy.status("/free").await;
        gate.open();
        status
    };
    assert_eq!(tokio::join!(proxy.status("/held"), others), (200, 200));
}

/// It serves the fewest because it fails fast.
#[tokio::test]
async fn a_broken_upstream_rests() {
    let (broken, record) = recorder(b"this is no answer\r\n\r\n").await;
    let proxy = start(ANY, &[broken, echo().await]).await;
    for _ in 0..10 {
        proxy.status("/").await;
    }
    let asked = String::from_utf8_lossy(&record.lock().unwrap()).matches("GET / ").count();
    assert_eq!(asked, 1);
}

/// A client could let all upstreams rest otherwise.
#[tokio::test]
async fn a_broken_body_lets_no_upstream_rest() {
    let (url, record) = recorder(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let other = Gate::new().await;
    let proxy = start(ANY, &[url, other.url.clone()]).await;
    let head = "POST / HTTP/1.1\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\nno chunk";
    assert!(proxy.raw(head.as_bytes()).await.starts_with("HTTP/1.1 400 "));
    for _ in 0..4 {
        assert_eq!(proxy.status("/free").await, 200);
    }
    let asked = String::from_utf8_lossy(&record.lock().unwrap()).matches("GET /free ").count();
    assert_eq!(asked, 2, "they take turns");
}

/// Requests that wait for one connection of HTTP/2 fail with it, not one after the other.
#[tokio::test]
async fn one_dial_fails_for_all_that_wait() {
    let (url, _held, _listener) = black_hole().await;
    let set = |settings: &mut Settings| settings.forward.connect_timeout = Duration::from_millis(1000);
    let proxy = start_with(ANY, &[url.replace("http", "h2c")], set).await;
    let began = Instant::now();
    let (first, second, third) = tokio::join!(proxy.status("/"), proxy.status("/"), proxy.status("/"));
    assert_eq!((first, second, third), (504, 504, 504));
    assert!(began.elapsed() < Duration::from_millis(2000), "{:?}", began.elapsed());
}

/// It says what failed, and not where, to its client and as a label of the metrics.
#[tokio::test(flavor = "multi_thread")]
async fn each_502_names_its_kind() {
    let (garbage, _) = recorder(b"this is no answer\r\n\r\n").await;
    let closing = by_hand(|mut stream| async move { drop(stream.read(&mut [0; 4096]).await) }).await;
    let resetting = by_hand(|stream| async {
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            respond.send_reset(h2::Reason::INTERNAL_ERROR);
        }
    });
    let resetting = resetting.await.url().replace("http", "h2c");
    let folder = Folder::new();
    let known = folder.write("known.pem", Authority::new().pem());
    for (url, kind, detail) in [
        (nowhere().await, "connect", "the upstream was not reached"),
        (nowhere().await.replace("http", "h2c"), "connect", "the upstream was not reached"),
        (garbage.replace("http", "h2c"), "connect", "the upstream was not reached"),
        (echo().await.replace("http", "https"), "tls", "TLS with the upstream failed"),
        (closing.url(), "closed", "the upstream closed the connection before it answered"),
        (resetting, "reset", "the upstream reset the request"),
        (garbage, "broken", "the upstream's answer is broken"),
    ] {
        let set = |settings: &mut Settings| {
            settings.admin.push(loopback());
            settings.forward.upstream_ca = Some(known.clone());
        };
        let proxy = start_with(ANY, std::slice::from_ref(&url), set).await;
        let answer = proxy.get("/", &[]).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("content-type")),
            (502, "application/problem+json")
        );
        let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(problem["detail"], detail, "{url}");
        let page = proxy.administer("GET", "/metrics", "");
        let counted =
            format!("tollgate_protocol_errors_total{{listener=\"proxy\",kind=\"upstream_{kind}\"}} 1\n");
        assert!(page.text().contains(&counted), "{url}: {counted}{}", page.text());
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_well_is_not_asked() {
    let is_well = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&is_well);
    let address = upstream(move |request: Request<Incoming>| {
        let is_well = shared.load(Relaxed) || request.uri().path() != "/health";
        async move { Response::builder().status(if is_well { 200 } else { 500 }).body(full("")).unwrap() }
    });
    let set = |settings: &mut Settings| {
        settings.forward.health_path = Some("/health".parse().unwrap());
        settings.forward.health_interval = Duration::from_millis(20);
    };
    let proxy = start_with(ANY, &[format!("http://{}", address.await)], set).await;
    proxy.until("/", 503).await;
    is_well.store(true, Relaxed);
    proxy.until("/", 200).await;
    is_well.store(false, Relaxed);
    proxy.until("/", 503).await;
}

#[tokio::test]
async fn connections_to_an_upstream_are_used_again() {
    let upstream = by_hand(|stream| answers(TokioIo::new(stream))).await;
    let proxy = start(ANY, &[upstream.url()]).await;
    let head = "HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n";
    for request in [
        format!("GET / {head}\r\n"),
        format!("HEAD / {head}\r\n"),
        format!("POST / {head}content-length: 4\r\n\r\nbody"),
        format!("POST / {head}transfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"),
        format!("POST / {head}transfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nx-a: b\r\n\r\n"),
        format!("GET / {head}\r\n"),
    ] {
        let answer = proxy.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{request}{answer}");
    }
    assert_eq!(upstream.accepted.load(Relaxed), 1);
    // It is closed although no request looks for one.
    eventually(|| upstream.ended.load(Relaxed) == 1).await;
}

async fn answers(stream: impl hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static) {
    let service = hyper::service::service_fn(async |request: Request<Incoming>| {
        let said = format!("{:?} {}", request.version(), request.uri().path());
        let _ = request.into_body().collect().await;
        Ok::<_, std::convert::Infallible>(Response::new(full(said)))
    });
    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    let _ = builder.serve_connection(stream, service).await;
}

#[tokio::test]
async fn upstreams_may_speak_tls() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let acceptor = authority.acceptor("localhost", &[b"h2", b"http/1.1"]);
    let serve = move |stream| {
        let accepting = acceptor.accept(stream);
        async {
            if let Ok(stream) = accepting.await {
                answers(TokioIo::new(stream)).await;
            }
        }
    };
    let port = by_hand(serve).await.address.port();
    let known = folder.write("known.pem", authority.pem());
    let another = folder.write("another.pem", Authority::new().pem());
    for (scheme, said) in [("https", "HTTP/1.1 /x"), ("h2", "HTTP/2.0 /x")] {
        let url = format!("{scheme}://localhost:{port}");
        let trusts = |file: &std::path::Path| {
            let file = file.to_owned();
            move |settings: &mut Settings| settings.forward.upstream_ca = Some(file)
        };
        let proxy = start_with(ANY, std::slice::from_ref(&url), trusts(&known)).await;
        assert_eq!(proxy.get("/x", &[]).await.body, said);
        let proxy = start_with(ANY, &[url], trusts(&another)).await;
        assert_eq!(proxy.status("/x").await, 502, "another authority");
    }
}

/// One proxy is the upstream of another: both sides of TLS are ours.
#[tokio::test]
async fn clients_may_speak_tls() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let files = authority.write(folder.path(), "localhost", None);
    let known = folder.write("ca.pem", authority.pem());
    let speaks = |settings: &mut Settings| settings.proxy_tls = Some(files.parse().unwrap());
    let inner = start_with(ANY, &[echo().await], speaks).await;
    for scheme in ["https", "h2"] {
        let url = format!("{scheme}://localhost:{}", inner.proxy().port());
        let trusts = |settings: &mut Settings| settings.forward.upstream_ca = Some(known.clone());
        let outer = start_with(ANY, std::slice::from_ref(&url), trusts).await;
        let said = String::from_utf8(outer.call("POST", "/x", &[], "body").await.body.to_vec()).unwrap();
        assert!(said.starts_with("POST /x HTTP/1.1\n") && said.ends_with("body"), "{said}");
        assert!(said.contains("x-forwarded-proto: https\n"), "{said}");
    }
    assert!(!inner.raw(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").await.starts_with("HTTP/1.1 200"));
}
