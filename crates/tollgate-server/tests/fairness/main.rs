//! Honest clients beside attackers, at each door of the server: nothing that clients share can be
//! used up by one of them (`docs/why/shared.md`).
//!
//! Eight clients ask one request after the other, first alone, then beside an attacker of another
//! address. None of their requests may be lost, and the slowest hundredth may take twice as long as
//! before, or a time that a machine with other work needs. The attacker may not grow the process,
//! which is that of the clients, too.
//!
//! `cargo xtask soak --fairness` takes ten minutes, in an optimized build with nothing beside it,
//! and allows 5 ms.

mod attacks;
mod honest;
mod house;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::sleep;
use tollgate_testing::wait::eventually;

use attacks::Attack;
use house::{Door, House};

/// One pair at a time: others would use the time of its threads.
static ALONE: Mutex<()> = Mutex::const_new(());

/// How long honest clients ask in each state, and how long the slowest hundredth may take.
fn bounds() -> (Duration, Duration) {
    let pairs: usize = Door::ALL.iter().map(|door| Attack::at(*door).len()).sum();
    match std::env::var("TOLLGATE_FAIRNESS_SECONDS") {
        Ok(seconds) => {
            let all = Duration::from_secs(seconds.parse().expect("a number of seconds"));
            (all / u32::try_from(2 * pairs).expect("they are few"), Duration::from_millis(5))
        }
        Err(_) => (Duration::from_millis(400), Duration::from_millis(500)),
    }
}

/// How many bytes an attack may add to the process.
const GROWTH: usize = 64 << 20;

/// The resident memory of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

async fn is_fair(door: Door) {
    let _alone = ALONE.lock().await;
    let (time, slowest) = bounds();
    for &attack in Attack::at(door) {
        let house = Arc::new(House::start(door).await);
        let alone = honest::ask(&house, time).await;
        let (before, done) = (resident(), Arc::new(AtomicUsize::new(0)));
        let attacking = tokio::spawn(attack.run(Arc::clone(&house), Arc::clone(&done)));
        eventually(|| done.load(Relaxed) >= attack.enough()).await;
        let grown = resident().saturating_sub(before);
        sleep(time / 4).await;
        let beside = honest::ask(&house, time).await;
        attacking.abort();
        if let Err(ended) = attacking.await
            && ended.is_panic()
        {
            std::panic::resume_unwind(ended.into_panic());
        }
        println!(
            "{door:?}, {attack:?} ({}): {} asked, p99 {:?}; alone {}, {:?}; {} MiB more",
            done.load(Relaxed),
            beside.asked,
            beside.p99,
            alone.asked,
            alone.p99,
            grown >> 20
        );
        assert_eq!(alone.lost, Vec::<String>::new(), "{door:?} alone");
        assert_eq!(beside.lost, Vec::<String>::new(), "{door:?}, {attack:?}");
        assert!(beside.p99 <= slowest.max(2 * alone.p99), "{door:?}, {attack:?}: {:?}", beside.p99);
        assert!(grown < GROWTH, "{door:?}, {attack:?}: {grown} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_stop_no_client_of_the_proxy() {
    is_fair(Door::Proxy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_stop_no_client_of_the_proxy_by_http2() {
    is_fair(Door::ProxyHttp2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_stop_no_client_of_the_proxy_by_tls() {
    is_fair(Door::ProxyTls).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_stop_no_client_beside_them_in_a_connection() {
    is_fair(Door::ProxyShared).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_stop_no_client_of_the_http_api() {
    is_fair(Door::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_stop_no_call_of_grpc() {
    is_fair(Door::Grpc).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_stop_no_redis_client() {
    is_fair(Door::Resp).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_stop_no_administrator() {
    is_fair(Door::Admin).await;
}
