//! How connections are spread over the threads.

use std::collections::BTreeMap;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_stays_on_a_thread_that_had_the_fewest() {
    let (drain, workers) = (Drain::default(), Arc::new(Workers::start(3).unwrap()));
    let (address, _) = names_its_thread(&drain, workers);
    tokio::task::spawn_blocking(move || {
        // Each stays for long, also on a machine with other work.
        let connect = || {
            std::thread::sleep(SHORT * 100);
            TcpStream::connect(address).unwrap()
        };
        let mut open: Vec<_> = (0..6).map(|_| connect()).collect();
        let threads: Vec<_> = open.iter_mut().map(thread_of).collect();
        let at = |thread: u8| threads.iter().filter(|at| **at == thread).count();
        assert_eq!([at(b'0'), at(b'1'), at(b'2')], [2, 2, 2]);
        for _ in 0..10 {
            assert_eq!(open.iter_mut().map(thread_of).collect::<Vec<_>>(), threads);
        }
        // Those of one thread end. The listener may be with another, which takes one more.
        let mut all = threads.iter();
        open.retain(|_| all.next() != Some(&b'1'));
        soon("they have ended", || drain.connections.len() == 4);
        let mut next: Vec<_> = (0..3).map(|_| connect()).collect();
        let next: Vec<_> = next.iter_mut().map(thread_of).collect();
        assert!(next.iter().filter(|at| **at == b'1').count() >= 2, "{next:?}");
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_is_spread_over_the_threads() {
    let (drain, workers) = (Drain::default(), Arc::new(Workers::start(3).unwrap()));
    let (address, _) = names_its_thread(&drain, workers);
    tokio::task::spawn_blocking(move || {
        let mut open: Vec<_> = (0..90).map(|_| TcpStream::connect(address).unwrap()).collect();
        let threads: Vec<_> = open.iter_mut().map(thread_of).collect();
        let at = |thread: u8| threads.iter().filter(|at| **at == thread).count();
        let (most, fewest) = (at(b'0').max(at(b'1')).max(at(b'2')), at(b'0').min(at(b'1')).min(at(b'2')));
        assert!(most <= fewest + fewest / 2 + 2, "{fewest} and {most}");
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_stay_are_spread_after_a_short_one() {
    let (drain, workers) = (Drain::default(), Arc::new(Workers::start(4).unwrap()));
    let (address, _) = names_its_thread(&drain, workers);
    tokio::task::spawn_blocking(move || {
        drop(TcpStream::connect(address).unwrap());
        soon("it has ended", || drain.connections.is_empty());
        let mut open: Vec<_> = (0..16).map(|_| TcpStream::connect(address).unwrap()).collect();
        let threads: Vec<_> = open.iter_mut().map(thread_of).collect();
        let most = (b'0'..=b'3').map(|thread| threads.iter().filter(|at| **at == thread).count()).max();
        assert!(most <= Some(8), "{threads:?}");
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_spread_over_the_threads() {
    let (drain, workers) = (Drain::default(), Arc::new(Workers::start(4).unwrap()));
    let listening = Listening::bind(&"127.0.0.1:0".parse().unwrap(), None).unwrap();
    let ListenAddress::Tcp(address) = *listening.address() else { panic!("it is TCP") };
    let threads = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let noted = Arc::clone(&threads);
    let refuse = move |stream: Stream| {
        let noted = Arc::clone(&noted);
        async move {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            *noted.lock().unwrap().entry(name).or_default() += 1;
            refuse(stream, RESP_REFUSAL).await;
        }
    };
    let serve = |mut connection: Connection| async move {
        let _engaged = connection.presence.engage();
        while connection.stream.read_u8().await.is_ok() {}
    };
    let uses = Uses {
        serve,
        refuse,
        count: |_, _| true,
        unfinished: Arc::default(),
        // One client has so many.
        is_trusted: Box::new(|_| true),
    };
    tokio::spawn(accept_all(listening, at_most(1), drain.clone(), workers, uses));
    tokio::task::spawn_blocking(move || {
        let _served = TcpStream::connect(address).unwrap();
        soon("it is served", || drain.connections.len() == 1);
        // Those that are refused stay until they have read why.
        let _refused: Vec<_> = (0..100)
            .map(|_| {
                std::thread::sleep(3 * SHORT);
                TcpStream::connect(address).unwrap()
            })
            .collect();
        let all = || threads.lock().unwrap().values().sum::<usize>();
        soon("all are refused", || all() == 100);
        let most = threads.lock().unwrap().values().copied().max();
        assert!(most <= Some(60), "{:?}", threads.lock().unwrap());
    })
    .await
    .unwrap();
}

/// The thread that has the listener is busy.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_connections_may_wait_to_be_accepted() {
    let listening = Listening::bind(&"127.0.0.1:0".parse().unwrap(), None).unwrap();
    let ListenAddress::Tcp(address) = *listening.address() else { panic!("it is TCP") };
    tokio::task::spawn_blocking(move || {
        // No thread accepts yet. A connection beyond the queue would wait for a second.
        let mut waiting = Vec::new();
        while waiting.len() < 400 {
            let connected = TcpStream::connect_timeout(&address, Duration::from_millis(900));
            waiting.push(connected.unwrap_or_else(|error| panic!("{error} after {}", waiting.len())));
        }
        drop(listening);
    })
    .await
    .unwrap();
}
