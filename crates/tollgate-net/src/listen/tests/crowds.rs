//! Idle connections make room, and no client has all.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};

use socket2::{Domain, Socket, Type};

use super::*;

/// A listener whose connections echo, and are idle between two messages. It ends a connection as
/// the protocols do.
fn idle_between(bounds: Bounds, drain: &Drain) -> (SocketAddr, Counted) {
    let listening = Listening::bind(&"127.0.0.1:0".parse().unwrap(), None).unwrap();
    let ListenAddress::Tcp(address) = *listening.address() else { panic!("it is TCP") };
    let serve = |mut connection: Connection| async move {
        let presence = Arc::clone(&connection.presence);
        let mut buffer = [0; 4];
        loop {
            let read = tokio::select! {
                () = presence.ends().cancelled() => return,
                read = connection.stream.read_exact(&mut buffer) => read,
            };
            let _engaged = presence.engage();
            if read.is_err() || connection.stream.write_all(&buffer).await.is_err() {
                return;
            }
        }
    };
    let counted = Counted::default();
    let counts = Arc::clone(&counted);
    let count = move |mishap, _| {
        counts.lock().unwrap().push(mishap);
        true
    };
    let is_trusted = Box::new(|address: IpAddr| address == IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3)));
    let unfinished = Arc::default();
    let uses = Uses { serve, refuse: |stream| refuse(stream, RESP_REFUSAL), count, unfinished, is_trusted };
    let workers = Arc::new(Workers::start(2).unwrap());
    tokio::spawn(accept_all(listening, bounds, drain.clone(), workers, uses));
    (address, counted)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// From another address of this machine.
fn connect_from(from: [u8; 4], address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    socket.into()
}

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_idle_longest_is_closed_for_a_new_one() {
    let drain = Drain::default();
    let (address, counted) = idle_between(at_most(20), &drain);
    tokio::task::spawn_blocking(move || {
        let new = || {
            let mut stream = connect(address);
            assert!(echoes(&mut stream), "it is served");
            stream
        };
        // Time is counted in milliseconds.
        let passes = || std::thread::sleep(Duration::from_millis(3));
        let mut first = new();
        passes();
        let mut second = new();
        passes();
        assert!(echoes(&mut first));
        passes();
        let mut others: Vec<_> = (0..18).map(|_| new()).collect();
        others.push(new());
        assert!(is_closed(&mut second));
        others.push(new());
        assert!(is_closed(&mut first));
        assert!(others.iter_mut().all(echoes));
        assert_eq!(*counted.lock().unwrap(), [Mishap::ClosedIdle; 2]);
    })
    .await
    .unwrap();
}

/// A crowd of connections that do nothing, beside clients that come and go.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_keep_no_client_out() {
    let drain = Drain::default();
    let (address, counted) = idle_between(at_most(100), &drain);
    tokio::task::spawn_blocking(move || {
        let mut idle: Vec<_> = (0..100).map(|_| connect(address)).collect();
        assert!(idle.iter_mut().all(echoes));
        let mut steady = connect(address);
        for round in 0..300 {
            assert!(echoes(&mut steady), "round {round}");
            assert!(echoes(&mut connect(address)), "round {round}");
            idle.push(connect(address));
        }
        let counted = counted.lock().unwrap();
        assert!(!counted.contains(&Mishap::TooMany) && counted.contains(&Mishap::ClosedIdle));
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_closed_for_another_cannot_stay() {
    let drain = Drain::default();
    let listening = Listening::bind(&"127.0.0.1:0".parse().unwrap(), None).unwrap();
    let ListenAddress::Tcp(address) = *listening.address() else { panic!("it is TCP") };
    // It writes on to a client that may not read.
    let serve = |mut connection: Connection| async move {
        while connection.stream.write_all(&[b'x'; 1 << 16]).await.is_ok() {}
    };
    let (is_trusted, workers) = (Box::new(|_: IpAddr| false), Arc::new(Workers::start(1).unwrap()));
    let unfinished = Arc::default();
    let uses = Uses {
        serve,
        refuse: |stream| refuse(stream, RESP_REFUSAL),
        count: |_, _| true,
        unfinished,
        is_trusted,
    };
    tokio::spawn(accept_all(listening, at_most(1), drain.clone(), workers, uses));
    tokio::task::spawn_blocking(move || {
        let _stuck = connect(address);
        soon("it is served", || drain.connections.len() == 1);
        let mut other = connect(address);
        let mut first = [0; 1];
        other.read_exact(&mut first).unwrap();
        assert_eq!(first, *b"x", "it is served, not refused");
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_no_more_connections_than_it_may() {
    let drain = Drain::default();
    let (address, counted) = idle_between(Bounds { of_client: Some(2), ..at_most(100) }, &drain);
    tokio::task::spawn_blocking(move || {
        let mut own: Vec<_> = (0..2).map(|_| connect(address)).collect();
        assert!(own.iter_mut().all(echoes));
        let mut refused = String::new();
        connect(address).read_to_string(&mut refused).unwrap();
        assert_eq!(refused, "-ERR max number of clients reached\r\n");
        assert_eq!(*counted.lock().unwrap(), [Mishap::TooManyOfClient]);
        // Others may have as many, and one that is trusted any number.
        assert!(echoes(&mut connect_from([127, 0, 0, 2], address)));
        let mut trusted: Vec<_> = (0..5).map(|_| connect_from([127, 0, 0, 3], address)).collect();
        assert!(trusted.iter_mut().all(echoes));
        // One that ends gives its place back.
        drop(own.pop());
        soon("there is room", || echoes(&mut connect(address)));
        assert!(own.iter_mut().all(echoes));
    })
    .await
    .unwrap();
}

/// It does not read why it is refused, on any of its connections.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_refused_leaves_others_their_answers() {
    let drain = Drain::default();
    let bounds = Bounds { room: Room { most: 1, refused: 8 }, ..FEW };
    let (address, counted, _) = echo(None, bounds, &drain);
    tokio::task::spawn_blocking(move || {
        let mut served = connect(address);
        assert!(echoes(&mut served));
        let _refused: Vec<_> = (0..40).map(|_| connect_from([127, 0, 0, 2], address)).collect();
        soon("all were refused", || counted.lock().unwrap().len() == 40);
        let mut answer = String::new();
        connect(address).read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "-ERR max number of clients reached\r\n");
        assert!(echoes(&mut served));
    })
    .await
    .unwrap();
}
