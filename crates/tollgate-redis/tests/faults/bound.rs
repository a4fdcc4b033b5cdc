//! Load on a limiter, and the count of what it admitted over every interval.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tollgate_redis::{Answer, CentreLimiter, Failed, FailureKind, Limiter};

/// When an admitted request of cost 1 was sent and answered. It was charged between the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) sent: Duration,
    pub(crate) answered: Duration,
}

/// What one key's requests met.
#[derive(Default)]
pub(crate) struct Met {
    pub(crate) admitted: Vec<Admission>,
    pub(crate) refused: u64,
    pub(crate) failed: Vec<(Failed, Duration)>,
}

impl Met {
    pub(crate) fn failures(&self, kind: FailureKind) -> usize {
        self.failed.iter().filter(|(failed, _)| failed.kind == kind).count()
    }

    /// The longest half-way failure of a kind: half of them were faster.
    pub(crate) fn median(&self, kind: FailureKind) -> Duration {
        let mut times: Vec<_> = self.failed.iter().filter(|(failed, _)| failed.kind == kind).collect();
        times.sort_by_key(|(_, took)| *took);
        times.get(times.len() / 2).unwrap_or_else(|| panic!("no {kind:?}")).1
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.admitted.extend(other.admitted);
        self.refused += other.refused;
        self.failed.extend(other.failed);
    }
}

/// A limiter that the load asks.
pub(crate) trait Check: Clone + Send + Sync + 'static {
    fn ask(&self, key: &'static str) -> impl Future<Output = Result<Answer, Failed>> + Send;
}

impl Check for Limiter {
    async fn ask(&self, key: &'static str) -> Result<Answer, Failed> {
        self.check(key).await
    }
}

impl Check for CentreLimiter {
    async fn ask(&self, key: &'static str) -> Result<Answer, Failed> {
        self.check(key).await
    }
}

/// Load that runs until it is stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Met>>,
}

impl Load {
    /// Starts tasks that check a key, each every 2 ms. `start` is the zero of the times.
    pub(crate) fn start(limiter: &impl Check, key: &'static str, tasks: usize, start: Instant) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..tasks).map(|_| tokio::spawn(check(limiter.clone(), key, start, stop.clone())));
        Self { tasks: tasks.collect(), stop }
    }

    pub(crate) async fn stop(self) -> Met {
        self.stop.store(true, Relaxed);
        let mut met = Met::default();
        for task in self.tasks {
            met.add(task.await.unwrap());
        }
        met
    }
}

async fn check(limiter: impl Check, key: &'static str, start: Instant, stop: Arc<AtomicBool>) -> Met {
    let mut met = Met::default();
    while !stop.load(Relaxed) {
        let sent = start.elapsed();
        let answer = limiter.ask(key).await;
        let answered = start.elapsed();
        match answer {
            Ok(answer) if answer.is_allowed() => met.admitted.push(Admission { sent, answered }),
            Ok(_) => met.refused += 1,
            Err(failed) => met.failed.push((failed, answered - sent)),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    met
}

/// Counts every interval that begins with one admission and ends with another, and compares it
/// with the bound of its length in seconds.
pub(crate) fn assert_bound(admitted: &[Admission], bound: impl Fn(f64) -> f64) {
    let mut by_answer = admitted.to_vec();
    by_answer.sort_by_key(|admission| admission.answered);
    for &Admission { sent: from, .. } in admitted {
        let mut count = 0_u32;
        for &Admission { sent, answered } in &by_answer {
            if sent < from {
                continue;
            }
            count += 1;
            // All that were counted were charged between `from` and `answered`.
            let most = bound((answered - from).as_secs_f64());
            assert!(f64::from(count) <= most + 1e-6, "{count} from {from:?} to {answered:?}: at most {most}");
        }
    }
}

#[test]
#[should_panic(expected = "at most")]
fn one_admission_above_the_bound_is_found() {
    let at =
        |millis| Admission { sent: Duration::from_millis(millis), answered: Duration::from_millis(millis) };
    assert_bound(&[at(0), at(900), at(950), at(1_000)], |seconds| 2.0 + 2.0 * seconds);
}
