//! Processes of their own that share one limit, and are killed by a signal in the middle of it.
//!
//! A test runs itself again as each process. A process writes down each admission before it goes
//! on: a request whose admission is not written was not served.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::sleep;
use tollgate::{Rate, SlidingLog, TokenBucket};
use tollgate_redis::{Limiter, Mode, Redis};
use tollgate_testing::random::Random;

use crate::bound::{Admission, assert_bound};
use crate::{PATIENT, node, on_each_store, strict};

/// The address of the store, for a process that a test has started.
const URL: &str = "TOLLGATE_PROCESS_URL";
/// Which of the test's processes it is.
const ROLE: &str = "TOLLGATE_PROCESS_ROLE";
/// No process outlives its test by more than this.
const LONGEST: Duration = Duration::from_secs(120);

const TTL: Duration = Duration::from_millis(50);
/// Units a second, and the burst.
const SHARED: (u64, u64) = (400, 240);
/// Requests in any second.
const LOGGED: u64 = 100;

/// A process that a test started, and what it writes down: a limit's name and an admission.
struct Process {
    child: Child,
    admitted: Receiver<(String, Admission)>,
}

impl Process {
    fn start(test: &str, url: &str, role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", test, "--nocapture"]).env(URL, url).env(ROLE, role);
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let (sender, admitted) = mpsc::channel();
        // Read at once: a full pipe would hold the process up.
        std::thread::spawn(move || {
            lines.filter_map(|line| read(&line)).try_for_each(|line| sender.send(line))
        });
        Self { child, admitted }
    }

    /// Kills it by a signal that it cannot handle. Returns what else it has written.
    fn kill(mut self) -> Vec<(String, Admission)> {
        self.child.kill().unwrap();
        self.admitted.iter().collect()
    }
}

fn read(line: &str) -> Option<(String, Admission)> {
    let [limit, sent, answered] = line.strip_prefix("admitted ")?.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let [sent, answered] = [sent, answered].map(|micros| micros.parse().map(Duration::from_micros));
    Some((limit.to_owned(), Admission { sent: sent.ok()?, answered: answered.ok()? }))
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// What the process was started for. `None` in the test itself.
fn role() -> Option<(String, String)> {
    std::env::var(URL).ok().zip(std::env::var(ROLE).ok())
}

/// The time of all processes.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Checks a key again and again, and writes down each admission.
async fn load(limiter: Limiter, limit: &'static str, key: String, pause: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        let sent = now();
        if limiter.check(&key).await.is_ok_and(|answer| answer.is_allowed()) {
            // One write: a process that is killed has written a line or not.
            println!("admitted {limit} {} {}", sent.as_micros(), now().as_micros());
        }
        sleep(pause).await;
    }
}

/// One of three processes: strict, or with leases; and a log beside it, whose entries have names.
async fn serve(url: String, role: &str) {
    let quota = TokenBucket::new(Rate::per_second(SHARED.0)).burst(SHARED.1);
    let redis = Redis::builder(url).deadline(PATIENT).build().await.unwrap();
    let limiter = redis.limiter("api", [quota]);
    let limiter = match role {
        "strict" => limiter,
        _ => limiter.mode(Mode::Leased { ttl: TTL, nodes: 4 }),
    };
    let limiter = limiter.build().unwrap();
    let log = redis.limiter("log", [SlidingLog::new(Rate::per_second(LOGGED))]).build().unwrap();
    println!();
    let pause = Duration::from_millis(2);
    tokio::join!(
        load(limiter.clone(), "api", "alice".to_owned(), pause),
        load(limiter, "api", "alice".to_owned(), pause),
        load(log, "log", "alice".to_owned(), pause),
    );
}

fn run(process: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(process);
}

/// `TOLLGATE_PROCESSES_SECONDS=30` for the long form.
#[test]
fn three_processes_killed_in_turn_keep_the_bound() {
    if let Some((url, role)) = role() {
        return run(serve(url, &role));
    }
    let seconds = std::env::var("TOLLGATE_PROCESSES_SECONDS");
    let time = Duration::from_secs(seconds.map_or(5, |seconds| seconds.parse().unwrap()));
    on_each_store(|server| async move {
        let (url, test) = (server.url(), "processes::three_processes_killed_in_turn_keep_the_bound");
        let start = |role| (role, Process::start(test, &url, role));
        let mut processes = ["strict", "leased", "leased"].map(start);
        let (begun, mut random, mut kills, mut admitted) =
            (Instant::now(), Random::with_seed(1), 0, Vec::new());
        while begun.elapsed() < time {
            let (turn, millis) = (random.usize(..3), random.u64(..256));
            sleep(Duration::from_millis(100 + millis)).await;
            let again = start(processes[turn].0);
            admitted.extend(std::mem::replace(&mut processes[turn], again).1.kill());
            kills += 1;
        }
        processes.into_iter().for_each(|(_, process)| admitted.extend(process.kill()));
        let of = |limit: &str| -> Vec<Admission> {
            let of = admitted.iter().filter(|(its, _)| its == limit);
            of.map(|(_, admission)| *admission).collect()
        };
        let (api, log) = (of("api"), of("log"));
        println!("{kills} kills, {} admitted, {} by the log", api.len(), log.len());
        assert!(kills > 5 && api.len() as u64 > 2 * SHARED.1 && log.len() as u64 > 2 * LOGGED);
        let ttl = TTL.as_secs_f64();
        assert_bound(&api, |seconds| SHARED.1 as f64 + SHARED.0 as f64 * (seconds + ttl));
        assert_bound(&log, |seconds| LOGGED as f64 * (1.0 + seconds.floor()));
    });
}

/// The store has charged what the process admitted and what it held; others get all the rest, and
/// nothing else.
#[test]
fn a_killed_process_loses_at_most_its_leases() {
    let (burst, nodes) = (4_000, 4);
    let quota = TokenBucket::new(Rate::per_day(1)).burst(burst);
    if let Some((url, key)) = role() {
        return run(async {
            let limiter = node(url, quota, PATIENT, nodes).await;
            println!();
            load(limiter, "api", key, Duration::from_millis(1)).await;
        });
    }
    on_each_store(|server| async move {
        let (url, test) = (server.url(), "processes::a_killed_process_loses_at_most_its_leases");
        let direct = strict(server.url(), quota).await;
        let mut lost_by_all = 0;
        for round in 0..5 {
            let key = format!("k{round}");
            let process = Process::start(test, &url, &key);
            let mut admitted: u64 = 0;
            while admitted < 150 + 120 * round {
                process.admitted.recv().expect("the process admits");
                admitted += 1;
            }
            admitted += process.kill().len() as u64;
            // Its last trip may be on its way still.
            sleep(Duration::from_millis(100)).await;
            let left = direct.peek(&key, 0).await.unwrap().remaining();
            let lost = burst - admitted - left;
            // Half of a lease, the next one, and an admission that it had not written down.
            let lease = burst / (4 * u64::from(nodes));
            assert!(lost <= lease / 2 + lease + 1, "{lost} of {burst} are lost, {admitted} admitted");
            lost_by_all += lost;
            let rest = direct.take(&key, burst).await.unwrap();
            assert!(rest.is_allowed() && rest.cost() >= left, "others get the rest: {}", rest.cost());
            assert!(admitted + rest.cost() <= burst, "{admitted} and {}", rest.cost());
            assert!(!direct.check(&key).await.unwrap().is_allowed());
        }
        println!("{lost_by_all} lost in 5 kills");
        assert!(lost_by_all > 0, "it held leases");
    });
}
