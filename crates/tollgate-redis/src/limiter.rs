//! The limiter: its verbs, and the requests that they send.

mod in_shadow;
mod leased;
mod undo;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Cmd;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::answer::{self, Answer, Asked};
use crate::id::{CallId, ChargeId};
use crate::layers::Layers;
use crate::quota::{Kind, Limit, Resolution};
use crate::script::{Script, Scripts};
use crate::shared::{Shared, Time};
use crate::{Counts, Failed, ReserveError, name};

/// The most keys of one script. A script blocks all clients of the server: 32 keys take about
/// 0.1 ms.
const KEYS_A_SCRIPT: usize = 32;

/// The numbers of a request in the short script's answer.
const SHORT: usize = 7;

/// The short script's verdict of a request that it leaves to the other one.
const UNDECIDED: i64 = -2;

/// The range of a caller's time, in microseconds: until the year 2150. Later, sums of times would
/// not be exact.
const TIMES: (u64, u64) = (1, 5_680_000_000_000_000);

/// One limit, or several that decide together, for all processes that share the store.
///
/// Made by [`Redis::limiter`](crate::Redis::limiter). Clones share everything. A key is any bytes,
/// of any length.
///
/// **Guarantee.** That of the quota, over all callers, in the order in which the store decides. At
/// the callers, an answer is used within the [deadline](crate::RedisBuilder::deadline) of its
/// request, or not at all.
///
/// **Dropped futures.** A request whose future is dropped may still be executed: its charge stays.
#[derive(Clone)]
pub struct Limiter {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    layers: Arc<Layers>,
    /// Where refunds run that are begun outside of a runtime.
    runtime: Option<Handle>,
}

/// What a limiter is made of.
pub(crate) struct Settings {
    /// The limiter's number among all of this process.
    pub(crate) number: u64,
    pub(crate) limits: Vec<Limit>,
    /// For each limit, how the names of its keys end.
    pub(crate) suffixes: Vec<String>,
    /// How the names end by which a refund happens once.
    pub(crate) once: String,
    pub(crate) scripts: Scripts,
}

/// A request as its script reads it.
struct Request<'a> {
    verb: &'static str,
    key: &'a [u8],
    cost: u64,
    /// The longest wait of a reservation, or the least that is taken.
    patience: u64,
}

impl Limiter {
    pub(crate) fn new(shared: Arc<Shared>, settings: Settings, layers: Layers) -> Self {
        let (settings, layers) = (Arc::new(settings), Arc::new(layers));
        Self { shared, settings, layers, runtime: Handle::try_current().ok() }
    }

    /// Decides a request of cost 1, and charges it if it is admitted.
    ///
    /// # Errors
    ///
    /// [`Failed`]: the store gave no answer. The request may be charged:
    /// [`Failed::charged`](crate::Failed::charged).
    // The future of `check_n` itself: a second one around it would copy the answer once more.
    pub fn check<K: AsRef<[u8]>>(&self, key: K) -> impl Future<Output = Result<Answer, Failed>> + use<'_, K> {
        self.check_n(key, 1)
    }

    /// Decides a request of this cost, and charges it if it is admitted. A cost of 0 is always
    /// admitted and charges nothing.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub async fn check_n(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Answer, Failed> {
        let key = key.as_ref();
        if let Some(shadow) = &self.layers.shadow {
            return Ok(shadow.admit(self, key, cost));
        }
        if let Some(decided) = self.without_trip(key, cost) {
            return decided;
        }
        self.by_trip(key, cost).await
    }

    /// Answers what a check of this cost would. Changes nothing, and works on replicas.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub async fn peek(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Answer, Failed> {
        let (sent, until) = self.begins();
        let request = Request { verb: "peek", key: key.as_ref(), cost, patience: 0 };
        self.layers.trip(sent, pin!(self.decide(until, request))).await
    }

    /// Takes as many units as all limits have, at most `most`; [`Answer::cost`] says how many. If
    /// nothing is there, it is a refused check of one unit.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub async fn take(&self, key: impl AsRef<[u8]>, most: u64) -> Result<Answer, Failed> {
        let (key, (sent, until)) = (key.as_ref(), self.begins());
        self.layers.charge(key, sent, pin!(self.take_at_least(until, key, 1, most))).await
    }

    /// Charges a request that acts after [`Answer::delay`], if that is at most `max_wait`.
    ///
    /// No reservation waits longer than the store's numbers are exact for: a hundred years for most
    /// quotas, less for the largest bursts. A longer `max_wait` counts as that.
    ///
    /// # Errors
    ///
    /// [`ReserveError`]: the limiter is not a single bucket, or the store gave no answer.
    pub async fn reserve(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        max_wait: Duration,
    ) -> Result<Answer, ReserveError> {
        let [limit] = &self.settings.limits[..] else { return Err(ReserveError::NoTurns) };
        if !limit.kind.has_turns() {
            return Err(ReserveError::NoTurns);
        }
        let patience = u64::try_from(max_wait.as_micros()).unwrap_or(u64::MAX).min(limit.longest_wait());
        let (key, (sent, until)) = (key.as_ref(), self.begins());
        let request = Request { verb: "reserve", key, cost, patience };
        Ok(self.layers.charge(key, sent, pin!(self.decide(until, request))).await?)
    }

    /// Decides many requests, each for itself, in as few scripts as keeps the server responsive.
    /// The answers are in the order of the requests.
    pub async fn check_many<K: AsRef<[u8]>>(
        &self,
        requests: impl IntoIterator<Item = (K, u64)>,
    ) -> Vec<Result<Answer, Failed>> {
        let requests: Vec<(K, u64)> = requests.into_iter().collect();
        let known = requests.iter().map(|(key, cost)| match &self.layers.shadow {
            Some(shadow) => Some(shadow.admit(self, key.as_ref(), *cost)),
            None => self.known(key.as_ref(), *cost),
        });
        let mut answers: Vec<_> = known.map(|answer| answer.map(Ok)).collect();
        let asked = requests.iter().zip(&answers).filter(|(_, known)| known.is_none());
        let asked: Vec<(&[u8], u64)> = asked.map(|((key, cost), _)| (key.as_ref(), *cost)).collect();
        // The time before they are sent: a remembered refusal ends by it.
        let (sent, until) = self.begins();
        // In a cluster, the keys of a script must lie in one slot.
        let at_once = match self.shared.store.is_cluster() {
            true => 1,
            false => (KEYS_A_SCRIPT / self.settings.limits.len()).max(1),
        };
        let parts = asked.chunks(at_once).map(|part| async move {
            let name = || name::of_key(&self.shared.prefix, part[0].0, "");
            let result = match self.layers.closed_to(name) {
                Some(failed) => Err(failed),
                None => self.layers.trip(sent, pin!(self.check_in_store(until, part))).await,
            };
            self.layers.settle_many(part, result, sent)
        });
        let mut settled = join_all(parts).await.into_iter().flatten();
        answers.iter_mut().filter(|answer| answer.is_none()).for_each(|answer| *answer = settled.next());
        answers.into_iter().flatten().collect()
    }

    /// How exactly the store represents the limit of this number. `None` if there is none.
    #[must_use]
    pub fn resolution(&self, number: usize) -> Option<Resolution> {
        self.settings.limits.get(number).map(|limit| limit.resolution)
    }

    /// The most that can be admitted at once: the smallest of the limits.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.settings.limits.iter().map(|limit| limit.most).min().unwrap_or(0)
    }

    /// What the limiter has counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.layers.counts()
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.shared.store.deadline()
    }

    /// The time at which a trip begins, and the end of its deadline.
    fn begins(&self) -> (Duration, Instant) {
        let sent = self.layers.store.now();
        (sent, self.layers.store.until(sent))
    }

    /// The names of a key in each limit.
    fn names(&self, key: &[u8]) -> Vec<String> {
        let suffixes = self.settings.suffixes.iter();
        suffixes.map(|suffix| name::of_key(&self.shared.prefix, key, suffix)).collect()
    }

    /// The name of a key of a single limit.
    fn only_name(&self, key: &[u8]) -> String {
        name::of_key(&self.shared.prefix, key, self.settings.suffixes.first().map_or("", |suffix| suffix))
    }

    /// Checks requests of a single limit in the short script. `None` for those that it cannot
    /// decide; it has changed nothing for them.
    async fn check_in_short(
        &self,
        until: Instant,
        (script, limit): (&Script, &Limit),
        requests: &[(&[u8], u64)],
    ) -> Result<Vec<Option<Answer>>, Failed> {
        let keys: Vec<String> = requests.iter().map(|(key, _)| self.only_name(key)).collect();
        let (time, call) = (self.now(), CallId::new());
        // Only a log writes it down.
        let name = (limit.kind == Kind::Log).then(|| call.to_string());
        let numbers = [time.unwrap_or(0), self.slack()].into_iter().chain(limit.numbers);
        let numbers = numbers.chain(requests.iter().map(|&(_, cost)| cost));
        let row: Vec<u8> = numbers.flat_map(|number| (number as f64).to_le_bytes()).collect();
        let body = |command: &mut Cmd| {
            command.arg(keys.len()).arg(&keys).arg(&name).arg(&row);
        };
        let numbers = self.numbers(until, script, body).await?;
        let incomplete = || Failed::answer("the short script's answer is not complete");
        let (shorts, []) = numbers.as_chunks::<SHORT>() else { return Err(incomplete()) };
        if shorts.len() != requests.len() {
            return Err(incomplete());
        }
        let answers = shorts.iter().zip(keys).zip(requests).enumerate();
        let answers = answers.map(|(place, ((short, key), &(_, cost)))| {
            let &[now, verdict, left, wait, clear, charged, fraction] = short;
            if verdict == UNDECIDED {
                return Ok(None);
            }
            let numbers = [
                now,
                verdict,
                i64::from(verdict < 1),
                wait,
                0,
                verdict,
                left,
                wait,
                clear,
                0,
                charged,
                fraction,
                0,
            ];
            let asked = Asked {
                limiter: self.settings.number,
                cost,
                takes: false,
                keys: vec![key],
                id: ChargeId { call, number: place + 1 },
                charges: true,
                is_reservation: false,
            };
            answer::read(&numbers, 0, &[limit.most], asked).map(Some)
        });
        answers.collect()
    }

    pub(crate) fn layers(&self) -> &Layers {
        &self.layers
    }

    /// Decides a check by leases, the deny cache, the store, or the policy for failures.
    pub(crate) async fn check_through_layers(&self, key: &[u8], cost: u64) -> Result<Answer, Failed> {
        match self.without_trip(key, cost) {
            Some(decided) => decided,
            None => self.by_trip(key, cost).await,
        }
    }

    /// Decides a check that makes no trip: by what this process holds and remembers, or because the
    /// breaker is open.
    ///
    /// **Cost.** Without leases and deny cache: one load of the breaker; no clock.
    #[inline]
    fn without_trip(&self, key: &[u8], cost: u64) -> Option<Result<Answer, Failed>> {
        if let Some(answer) = self.known(key, cost) {
            return Some(Ok(answer));
        }
        let failed = self.layers.closed_to(|| name::of_key(&self.shared.prefix, key, ""))?;
        Some(self.layers.fall_back(key, cost, failed))
    }

    async fn by_trip(&self, key: &[u8], cost: u64) -> Result<Answer, Failed> {
        // The time before it is sent: a remembered refusal ends by it, and a lease.
        let now = self.layers.store.now();
        // Boxed: large, and not copied around where there is no trip.
        match &self.layers.leases {
            None => Box::pin(self.check_strictly(key, cost, now)).await,
            Some(leases) => Box::pin(self.ask_for_permits(leases, key, cost, now)).await,
        }
    }

    /// Decides a check of this time by a trip of its own, or the policy for failures.
    pub(crate) async fn check_strictly(
        &self,
        key: &[u8],
        cost: u64,
        now: Duration,
    ) -> Result<Answer, Failed> {
        let until = self.layers.store.until(now);
        let answer = {
            let ask = pin!(async { only(self.check_in_store(until, &[(key, cost)]).await?) });
            self.layers.trip(now, ask).await
        };
        self.layers.settle(key, cost, answer, now)
    }

    /// Takes as many units as there are, at most `most`; if there are fewer than `least`, it is a
    /// refused check of that cost.
    pub(crate) async fn take_at_least(
        &self,
        until: Instant,
        key: &[u8],
        least: u64,
        most: u64,
    ) -> Result<Answer, Failed> {
        self.decide(until, Request { verb: "take", key, cost: most, patience: least }).await
    }

    /// Checks requests in one script: the short one, if it can decide them.
    async fn check_in_store(&self, until: Instant, requests: &[(&[u8], u64)]) -> Result<Vec<Answer>, Failed> {
        let (Some(script), [limit]) = (&self.settings.scripts.short, &self.settings.limits[..]) else {
            return self.decide_together(until, "check", requests, 0).await;
        };
        let mut answers = self.check_in_short(until, (script, limit), requests).await?;
        let rest = requests.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
        let rest: Vec<(&[u8], u64)> = rest.map(|(request, _)| *request).collect();
        if !rest.is_empty() {
            // Boxed: seldom, and large.
            let decided = Box::pin(self.decide_together(until, "check", &rest, 0)).await?;
            let mut decided = decided.into_iter();
            answers.iter_mut().filter(|answer| answer.is_none()).for_each(|answer| *answer = decided.next());
        }
        answers.into_iter().map(|answer| answer.ok_or_else(|| Failed::answer("no answer"))).collect()
    }

    async fn decide(&self, until: Instant, request: Request<'_>) -> Result<Answer, Failed> {
        let Request { verb, key, cost, patience } = request;
        only(self.decide_together(until, verb, &[(key, cost)], patience).await?)
    }

    /// Decides requests in one script.
    async fn decide_together(
        &self,
        until: Instant,
        verb: &'static str,
        requests: &[(&[u8], u64)],
        patience: u64,
    ) -> Result<Vec<Answer>, Failed> {
        let keys: Vec<Vec<String>> = requests.iter().map(|(key, _)| self.names(key)).collect();
        let (limits, now, call) = (&self.settings.limits, self.now(), CallId::new());
        let name = call.to_string();
        let body = |command: &mut Cmd| {
            command.arg(requests.len() * limits.len());
            for keys in &keys {
                command.arg(keys);
            }
            command.arg(verb);
            push_time(command, now);
            command.arg(self.slack()).arg(limits.len()).arg(patience).arg(&name);
            push_limits(command, limits);
            for (_, cost) in requests {
                command.arg(*cost);
            }
        };
        let numbers = self.numbers(until, &self.settings.scripts.decide, body).await?;
        let mosts: Vec<u64> = limits.iter().map(|limit| limit.most).collect();
        let answers = keys.into_iter().zip(requests).enumerate().map(|(place, (keys, &(_, cost)))| {
            let asked = Asked {
                limiter: self.settings.number,
                cost,
                takes: verb == "take",
                keys,
                id: ChargeId { call, number: place + 1 },
                charges: verb != "peek",
                is_reservation: verb == "reserve",
            };
            answer::read(&numbers, place, &mosts, asked)
        });
        answers.collect()
    }

    async fn numbers(
        &self,
        until: Instant,
        script: &Script,
        body: impl Fn(&mut Cmd),
    ) -> Result<Vec<i64>, Failed> {
        answer::numbers(self.shared.store.run_in_trip(until, script, body).await?)
    }

    /// The caller's time in microseconds, if that decides.
    fn now(&self) -> Option<u64> {
        match &self.shared.time {
            Time::Server => None,
            Time::Caller(clock) => {
                let micros = u64::try_from(clock().as_micros()).unwrap_or(u64::MAX);
                Some(micros.clamp(TIMES.0, TIMES.1))
            }
        }
    }

    fn slack(&self) -> u64 {
        u64::try_from(self.shared.slack.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The answer to the only request of a script.
fn only(answers: Vec<Answer>) -> Result<Answer, Failed> {
    answers.into_iter().next().ok_or_else(|| Failed::answer("no answer"))
}

/// Two callers must not take the time of one request: each attempt sends the same.
fn push_time(command: &mut Cmd, now: Option<u64>) {
    match now {
        Some(now) => command.arg(now),
        None => command.arg(""),
    };
}

fn push_limits(command: &mut Cmd, limits: &[Limit]) {
    for limit in limits {
        command.arg(limit.kind.letter()).arg(&limit.numbers[..]);
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("limits", &self.settings.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Rate, TokenBucket};

    use super::*;

    /// Layers that each held the trip as a part of themselves copied it: 11,000 bytes at the end.
    #[tokio::test]
    async fn a_strict_check_fits_into_a_small_future() {
        let url = crate::fake::serve(|_| "-LOADING the data\r\n".to_owned()).await;
        let redis = crate::Redis::builder(url).build().await.unwrap();
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(1))]).build().unwrap();
        let size = size_of_val(&limiter.check_strictly(b"alice", 1, Duration::ZERO));
        assert!(size <= 2_048, "{size} bytes");
    }
}
