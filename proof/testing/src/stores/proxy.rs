//! A TCP proxy between a client and a store, which delays, splits, cuts and loses what it carries.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::random::Random;

/// What the proxy does to the bytes.
#[derive(Default)]
struct Faults {
    /// The port of the store to which new connections lead.
    store: AtomicU16,
    /// Microseconds before each piece that the store sends goes on.
    delay: AtomicU64,
    /// Up to so many microseconds more, another number each time.
    jitter: AtomicU64,
    /// Whether each byte of the store is sent by itself.
    bytewise: AtomicBool,
    /// Whether what the store sends is read and dropped: the connection is open and silent.
    half_open: AtomicBool,
    /// Whether the connection is closed after the first byte of the next answer.
    cut_mid_answer: AtomicBool,
    /// Whether new connections are closed at once.
    down: AtomicBool,
    stopped: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// A running proxy. Dropping it closes its connections.
pub struct Proxy {
    port: u16,
    faults: Arc<Faults>,
}

impl Proxy {
    /// Listens on a port of its own and connects to the store at `port` for each connection.
    pub fn to(store: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("the listener has an address").port();
        let faults = Arc::new(Faults { store: store.into(), ..Faults::default() });
        let shared = faults.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.stopped.load(Relaxed) {
                    return;
                }
                if shared.down.load(Relaxed) {
                    continue;
                }
                // A store that is down: the client's connection closes.
                if let Ok(store) = TcpStream::connect(("127.0.0.1", shared.store.load(Relaxed))) {
                    carry(&shared, client, store);
                }
            }
        });
        Self { port, faults }
    }

    /// The port of 127.0.0.1 that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, as clients take it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How long each piece that the store sends is kept, and by how much longer at the most.
    pub fn delay(&self, delay: Duration, jitter: Duration) {
        self.faults.delay.store(delay.as_micros() as u64, Relaxed);
        self.faults.jitter.store(jitter.as_micros() as u64, Relaxed);
    }

    /// Whether each byte of the store is sent by itself.
    pub fn bytewise(&self, bytewise: bool) {
        self.faults.bytewise.store(bytewise, Relaxed);
    }

    /// Whether what the store sends is read and dropped.
    pub fn half_open(&self, half_open: bool) {
        self.faults.half_open.store(half_open, Relaxed);
    }

    /// Closes the connection after the first byte of the next answer.
    pub fn cut_mid_answer(&self) {
        self.faults.cut_mid_answer.store(true, Relaxed);
    }

    /// Closes all connections, and new ones at once until it is up again.
    pub fn down(&self, down: bool) {
        self.faults.down.store(down, Relaxed);
        if down {
            self.cut();
        }
    }

    /// Leads to the store at another port, as an address that moves to a new master.
    pub fn lead_to(&self, store: u16) {
        self.faults.store.store(store, Relaxed);
        self.cut();
    }

    /// Closes all connections. New ones are carried.
    pub fn cut(&self) {
        for stream in self.faults.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.faults.stopped.store(true, Relaxed);
        self.cut();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Starts the two threads of a connection.
fn carry(faults: &Arc<Faults>, client: TcpStream, store: TcpStream) {
    let clone = |stream: &TcpStream| stream.try_clone().expect("a socket can be cloned");
    let _ = (client.set_nodelay(true), store.set_nodelay(true));
    faults.streams.lock().unwrap().extend([clone(&client), clone(&store)]);
    let (mut from, mut to) = (clone(&client), clone(&store));
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
    let faults = faults.clone();
    thread::spawn(move || {
        answer(&faults, &store, &client);
        let _ = (store.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
    });
}

/// Carries what the store sends, with the faults. Returns when the connection is to be closed.
fn answer(faults: &Faults, mut store: &TcpStream, mut client: &TcpStream) -> Option<()> {
    let (mut bytes, mut random) = ([0; 4_096], Random::with_seed(1));
    loop {
        let length = store.read(&mut bytes).ok().filter(|&length| length > 0)?;
        let jitter = random.u64(..=faults.jitter.load(Relaxed));
        let pause = faults.delay.load(Relaxed) + jitter;
        if pause > 0 {
            thread::sleep(Duration::from_micros(pause));
        }
        if faults.half_open.load(Relaxed) {
            continue;
        }
        if faults.cut_mid_answer.swap(false, Relaxed) {
            client.write_all(&bytes[..1]).ok()?;
            return None;
        }
        let piece = if faults.bytewise.load(Relaxed) { 1 } else { length };
        for piece in bytes[..length].chunks(piece) {
            client.write_all(piece).ok()?;
        }
    }
}
