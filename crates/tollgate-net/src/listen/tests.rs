//! Crowds, failures, certificates.

mod crowds;
mod spread;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tollgate_testing::certificates::Authority;
use tollgate_testing::folder::Folder;

use super::*;
use crate::workers::{SHORT, Workers};

type Counted = Arc<Mutex<Vec<Mishap>>>;

/// A listener whose connections echo, until the drain is cancelled.
fn echo(tls: Option<Arc<Tls>>, bounds: Bounds, drain: &Drain) -> (SocketAddr, Counted, Arc<AtomicUsize>) {
    let listening = Listening::bind(&"127.0.0.1:0".parse().unwrap(), tls).unwrap();
    let ListenAddress::Tcp(address) = *listening.address() else { panic!("it is TCP") };
    let (counted, served) = (Counted::default(), Arc::new(AtomicUsize::new(0)));
    let (counts, serves, ends) = (Arc::clone(&counted), Arc::clone(&served), drain.ends.clone());
    let serve = move |mut connection: Connection| {
        let (serves, ends) = (Arc::clone(&serves), ends.clone());
        async move {
            let _engaged = connection.presence.engage();
            serves.fetch_add(1, SeqCst);
            let mut buffer = [0; 64];
            loop {
                let read = tokio::select! {
                    () = ends.cancelled() => return,
                    read = connection.stream.read(&mut buffer) => read,
                };
                match read {
                    Ok(read) if read > 0 => {
                        let _ = connection.stream.write_all(&buffer[..read]).await;
                        let _ = connection.stream.flush().await;
                    }
                    _ => return,
                }
            }
        }
    };
    let count = move |mishap, _| {
        counts.lock().unwrap().push(mishap);
        true
    };
    tokio::spawn(accept_all(
        listening,
        bounds,
        drain.clone(),
        Arc::new(Workers::start(2).unwrap()),
        Uses {
            serve,
            refuse: |stream| refuse(stream, RESP_REFUSAL),
            count,
            unfinished: Arc::default(),
            is_trusted: Box::new(|_| false),
        },
    ));
    (address, counted, served)
}

const FEW: Bounds =
    Bounds { room: Room { most: 2, refused: 256 }, of_client: None, handshake: Duration::from_millis(500) };

/// So many connections.
fn at_most(most: usize) -> Bounds {
    Bounds { room: Room { most, ..FEW.room }, ..FEW }
}

fn echoes(stream: &mut (impl Read + Write)) -> bool {
    let mut answer = [0; 4];
    stream.write_all(b"ping").is_ok() && stream.read_exact(&mut answer).is_ok() && answer == *b"ping"
}

fn soon(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_the_limit_are_answered_and_closed() {
    let drain = Drain::default();
    let (address, counted, _) = echo(None, FEW, &drain);
    tokio::task::spawn_blocking(move || {
        let mut kept: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(kept.iter_mut().all(echoes));
        for _ in 0..10 {
            let mut refused = TcpStream::connect(address).unwrap();
            // What the client sends meanwhile does not take the answer away.
            let _ = refused.write_all(b"PING\r\n");
            let mut answer = String::new();
            refused.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "-ERR max number of clients reached\r\n");
        }
        assert_eq!(*counted.lock().unwrap(), [Mishap::TooMany; 10]);
        // One that ends makes room.
        drop(kept.pop());
        soon("there is room", || echoes(&mut TcpStream::connect(address).unwrap()));
        assert!(kept.iter_mut().all(echoes));
    })
    .await
    .unwrap();
}

/// Asks a connection for the thread that serves it.
fn thread_of(stream: &mut TcpStream) -> u8 {
    let mut name = [0];
    stream.write_all(b"?").unwrap();
    stream.read_exact(&mut name).unwrap();
    name[0]
}

/// A listener whose connections tell their threads.
fn names_its_thread(drain: &Drain, workers: Arc<Workers>) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listening = Listening::bind(&"127.0.0.1:0".parse().unwrap(), None).unwrap();
    let ListenAddress::Tcp(address) = *listening.address() else { panic!("it is TCP") };
    let serve = |mut connection: Connection| async move {
        while connection.stream.read_u8().await.is_ok() {
            let name = std::thread::current().name().and_then(|name| name.bytes().last());
            let _ = connection.stream.write_u8(name.unwrap_or_default()).await;
        }
    };
    let bounds = at_most(1_000);
    let is_trusted = Box::new(|_: std::net::IpAddr| false);
    let unfinished = Arc::default();
    let uses = Uses {
        serve,
        refuse: |stream| refuse(stream, RESP_REFUSAL),
        count: |_, _| true,
        unfinished,
        is_trusted,
    };
    (address, tokio::spawn(accept_all(listening, bounds, drain.clone(), workers, uses)))
}

#[tokio::test]
async fn threads_end_although_the_listener_is_with_one() {
    let (drain, workers) = (Drain::default(), Arc::new(Workers::start(1).unwrap()));
    let threads = Arc::downgrade(&workers);
    let (address, accepting) = names_its_thread(&drain, workers);
    let talk = tokio::task::spawn_blocking(move || thread_of(&mut TcpStream::connect(address).unwrap()));
    assert_eq!(talk.await.unwrap(), b'0');
    accepting.abort();
    tokio::task::spawn_blocking(move || {
        soon("the threads are dropped", || threads.strong_count() == 0);
        soon("it listens no more", || TcpStream::connect(address).is_err());
    })
    .await
    .unwrap();
}

#[test]
fn a_process_without_descriptors_serves_again_later() {
    // A process of its own, which may open few files.
    if std::env::var_os("TOLLGATE_FEW_FILES").is_none() {
        let child = std::process::Command::new("sh")
            .args(["-c", "ulimit -n 64; exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "listen::tests::a_process_without_descriptors_serves_again_later"])
            .env("TOLLGATE_FEW_FILES", "1")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let drain = Drain::default();
    let (address, counted, _) = echo(None, at_most(1_000), &drain);
    let mut clients = Vec::new();
    while let Ok(client) = TcpStream::connect(address) {
        clients.push(client);
    }
    soon("an accept failed", || counted.lock().unwrap().contains(&Mishap::NotAccepted));
    // It does not turn in circles meanwhile: 20 tries a second at most.
    let before = counted.lock().unwrap().len();
    std::thread::sleep(Duration::from_millis(500));
    assert!(counted.lock().unwrap().len() - before <= 15);
    clients.clear();
    soon("it serves again", || TcpStream::connect(address).is_ok_and(|mut client| echoes(&mut client)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_closes_the_listener_and_waits() {
    let drain = Drain::default();
    let (address, ..) = echo(None, FEW, &drain);
    let mut kept = tokio::task::spawn_blocking(move || {
        let mut kept = TcpStream::connect(address).unwrap();
        assert!(echoes(&mut kept));
        kept
    })
    .await
    .unwrap();
    drain.ends.cancel();
    drain.connections.close();
    drain.connections.wait().await;
    assert_eq!(kept.read(&mut [0]).unwrap_or(0), 0, "the connection was closed");
    soon("the listener is closed", || TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn a_unix_socket_has_its_mode_and_replaces_dead_ones() {
    let folder = Folder::new();
    let path = folder.path().join("socket");
    let address: ListenAddress = format!("unix:{},mode=0600", path.display()).parse().unwrap();
    let listening = Listening::bind(&address, None).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(Listening::bind(&address, None).is_err(), "a socket in use stays");
    drop(listening);
    assert!(path.exists() && Listening::bind(&address, None).is_ok(), "a dead one is replaced");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "mine").unwrap();
    let error = Listening::bind(&address, None).map(drop).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"mine", "a file is left alone");
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert!(error.to_string().ends_with("a file is there that is no socket"), "{error}");
}

#[test]
fn only_loopback_and_unix_sockets_are_local() {
    for (text, is_local) in [
        ("127.0.0.1:1", true),
        ("127.9.9.9:1", true),
        ("[::1]:1", true),
        ("[::ffff:127.0.0.1]:1", true),
        ("unix:/x", true),
        ("0.0.0.0:1", false),
        ("[::]:1", false),
        (":1", false),
        ("localhost:1", true),
        ("192.0.2.1:1", false),
        ("fd:x", false),
    ] {
        assert_eq!(text.parse::<ListenAddress>().unwrap().is_local(), is_local, "{text}");
    }
    for text in [
        "",
        ":",
        ":+1",
        ":65536",
        "localhost",
        "localhost:",
        "example.com:1",
        "fd:",
        "fd:a:b",
        "unix:x",
        "unix:/x,mode=9",
        "127.0.0.1",
    ] {
        assert!(text.parse::<ListenAddress>().is_err(), "{text}");
    }
}

#[test]
fn a_port_alone_is_that_of_all_addresses() {
    for (text, address) in
        [(":8080", "[::]:8080"), ("localhost:8080", "127.0.0.1:8080"), ("[::1]:0", "[::1]:0")]
    {
        assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), address);
    }
    let wrong = "example.com:80".parse::<ListenAddress>().unwrap_err().to_string();
    assert!(
        wrong.contains("write 127.0.0.1:8080, :8080 for all addresses, unix:/path or fd:name"),
        "{wrong}"
    );
}

/// Whether a client of TLS gets its bytes back.
async fn echoes_in_tls(client: &TlsConnector, address: SocketAddr, name: &str) -> bool {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let Ok(mut stream) = client.connect(ServerName::try_from(name.to_owned()).unwrap(), stream).await else {
        return false;
    };
    let mut answer = [0; 4];
    stream.write_all(b"ping").await.is_ok()
        && stream.read_exact(&mut answer).await.is_ok()
        && answer == *b"ping"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_the_right_certificate_is_refused() {
    let (folder, drain) = (Folder::new(), Drain::default());
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let files: TlsFiles = servers.write(folder.path(), "localhost", Some(&clients)).parse().unwrap();
    let tls = Tls::watch(&files, &[], drain.ends.clone()).unwrap();
    let many = at_most(100);
    let (address, counted, served) = echo(Some(tls), many, &drain);
    assert!(echoes_in_tls(&servers.client(Some(&clients.sign("me"))), address, "localhost").await);
    assert!(!echoes_in_tls(&servers.client(None), address, "localhost").await);
    assert!(!echoes_in_tls(&servers.client(Some(&strangers.sign("me"))), address, "localhost").await);
    assert!(!echoes_in_tls(&strangers.client(Some(&clients.sign("me"))), address, "localhost").await);
    soon("three handshakes failed", || counted.lock().unwrap().len() == 3);
    assert_eq!(*counted.lock().unwrap(), [Mishap::Handshake; 3]);
    assert_eq!(served.load(SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_exchanged_and_a_broken_one_not() {
    let (folder, drain) = (Folder::new(), Drain::default());
    let authority = Authority::new();
    let files: TlsFiles = authority.write(folder.path(), "old.example", None).parse().unwrap();
    let tls = Tls::watch(&files, &[], drain.ends.clone()).unwrap();
    let many = at_most(1_000);
    let (address, ..) = echo(Some(tls), many, &drain);
    let client = authority.client(None);
    assert!(echoes_in_tls(&client, address, "old.example").await);
    std::fs::write(&files.certificate, "no certificate").unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(echoes_in_tls(&client, address, "old.example").await, "the old one stays in force");
    authority.write(folder.path(), "new.example", None);
    let begun = Instant::now();
    while !echoes_in_tls(&client, address, "new.example").await {
        assert!(begun.elapsed() < Duration::from_secs(20), "the new one came into force");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!echoes_in_tls(&client, address, "old.example").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_takes_too_long_is_ended() {
    let (folder, drain) = (Folder::new(), Drain::default());
    let files: TlsFiles = Authority::new().write(folder.path(), "localhost", None).parse().unwrap();
    let tls = Tls::watch(&files, &[], drain.ends.clone()).unwrap();
    let (address, counted, served) = echo(Some(tls), FEW, &drain);
    tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        let mut slow = TcpStream::connect(address).unwrap();
        slow.write_all(&[0x16, 3, 1]).unwrap();
        slow.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let ended = slow.read(&mut [0; 64]).map_err(|error| error.kind());
        assert!(matches!(ended, Ok(0) | Err(std::io::ErrorKind::ConnectionReset)), "{ended:?}");
        assert!(begun.elapsed() >= FEW.handshake);
        soon("it was counted", || *counted.lock().unwrap() == [Mishap::Handshake]);
        assert_eq!(served.load(SeqCst), 0);
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn wrong_tls_files_are_named() {
    let folder = Folder::new();
    let authority = Authority::new();
    let files: TlsFiles = authority.write(folder.path(), "localhost", None).parse().unwrap();
    let error = |files: &TlsFiles| {
        Tls::watch(files, &[], tokio_util::sync::CancellationToken::new()).map(drop).unwrap_err().to_string()
    };
    let other = authority.sign("localhost").1;
    std::fs::write(&files.key, other).unwrap();
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let both = format!("the certificate {certificate} and the key {key}: ");
    assert!(error(&files).starts_with(&both), "{}", error(&files));
    std::fs::write(&files.key, "").unwrap();
    assert!(error(&files).starts_with(&format!("the key {key}: ")), "{}", error(&files));
    std::fs::write(&files.certificate, "").unwrap();
    assert_eq!(error(&files), format!("the certificate {certificate}: it has no certificate"));
    std::fs::remove_file(&files.certificate).unwrap();
    assert!(error(&files).contains("cert.pem cannot be read"), "{}", error(&files));
}
