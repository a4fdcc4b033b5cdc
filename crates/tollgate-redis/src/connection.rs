//! One connection to the store, which a task of its own keeps up.
//!
//! All callers share it: commands that wait at the same time leave in one write, and the answers
//! come back in their order. A caller that goes away takes nothing back; its command may be
//! executed. No more commands are on their way than the server answers in time: the others wait
//! before they are sent (`window`).
//!
//! ```text
//!                  connected                broken, silent for too long, or closed
//!   Connecting ----------------> Up(connection) -------------------------------.
//!    |      ^                                                                   |
//!    |      '-------------------------------------------------------------------'
//!    '--- failed ---> Down ---- a pause later: tries again ---> Up or Down
//! ```
//!
//! A ping every second tells that the other end has closed, before a request finds it out; and no
//! load balancer takes the connection for idle.
//!
//! A request waits for `Connecting`, within its deadline, and fails at once on `Down`. What was
//! sent is never sent again, except for one case in which the server says that it executed nothing:
//! it does not know the script. Then the same request brings the script's text.

mod flight;
mod source;
mod window;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, Pipeline, RedisResult, ServerErrorKind, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use flight::{Flight, needs_another_connection};
use source::Wire;
pub(crate) use source::{Seed, Source, Topology};
use window::Window;

use crate::pulse::Pulse;
use crate::script::Script;
use crate::{Charged, Failed, FailureKind};

/// What a server of a cluster answers.
#[derive(Debug)]
pub(crate) enum Reply {
    Value(Value),
    /// Another server has the slot, so nothing was executed.
    Elsewhere(Redirect),
}

/// Where a slot is, as the server says that does not have it.
#[derive(Debug)]
pub(crate) struct Redirect {
    pub(crate) slot: u16,
    /// `host:port`; without a host it is that of the server asked.
    pub(crate) to: String,
    /// Whether the slot has moved. Otherwise it is moving: only this request must go there, and
    /// must begin with `ASKING`.
    pub(crate) has_moved: bool,
    failed: Failed,
}

/// How long an attempt to connect may take.
pub(crate) const CONNECT: Duration = Duration::from_secs(2);

/// The pause after the first failed attempt to connect, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The pause between two pings.
const PING: Duration = Duration::from_secs(1);

/// The connection of all limiters of a [`Redis`](crate::Redis).
pub(crate) struct Connection {
    state: watch::Receiver<State>,
    /// The number of the last connection that was found broken.
    broken: watch::Sender<u64>,
    deadline: Duration,
    pulse: Arc<Pulse>,
    runtime: Handle,
}

#[derive(Clone)]
enum State {
    Connecting,
    Up(Link),
    Down(Failed),
}

/// An established connection.
#[derive(Clone)]
struct Link {
    wire: Wire,
    life: Arc<Life>,
}

/// The number of an established connection, and its requests on their way.
struct Life {
    number: u64,
    window: Arc<Window>,
}

impl Connection {
    /// Begins to connect. Needs a Tokio runtime.
    pub(crate) fn open(source: Source, deadline: Duration) -> Self {
        let (state_in, state) = watch::channel(State::Connecting);
        let (broken, broken_out) = watch::channel(0);
        let pulse = Arc::new(Pulse::new(deadline));
        tokio::spawn(keep(source, deadline, Arc::clone(&pulse), state_in, broken_out));
        Self { state, broken, deadline, pulse, runtime: Handle::current() }
    }

    /// The signs of life of the server.
    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Waits for the outcome of the first attempt to connect.
    pub(crate) async fn first_attempt(&self) -> Result<(), Failed> {
        self.link(Instant::now() + 2 * CONNECT).await.map(drop)
    }

    /// Executes a script, within the deadline. `body` appends the number of keys, the keys and the
    /// arguments.
    pub(crate) async fn run(&self, script: &Script, body: impl Fn(&mut Cmd)) -> Result<Value, Failed> {
        self.reply(script, body).await?.value()
    }

    /// The same, on one of several servers.
    pub(crate) async fn reply(&self, script: &Script, body: impl Fn(&mut Cmd)) -> Result<Reply, Failed> {
        let until = Instant::now() + self.deadline;
        in_time(until, pin!(self.run_until(until, script, body, false))).await
    }

    /// Executes a script, on one of several servers. `is_asking` lets a server execute it that is
    /// only receiving the slot.
    ///
    /// Waits until `until` for a connection, and half of that time for room. The caller has the
    /// timer of the answer: it drops the future then.
    pub(crate) async fn run_until(
        &self,
        until: Instant,
        script: &Script,
        body: impl Fn(&mut Cmd),
        is_asking: bool,
    ) -> Result<Reply, Failed> {
        let link = self.link(until).await?;
        let by_hash = command("EVALSHA", &script.hash, &body);
        let mut answer = self.send(until, &link, by_hash, is_asking).await?;
        // Only this error may be answered by sending again: nothing was executed.
        if let Err(error) = &answer
            && error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
        {
            let with_text = command("EVAL", script.text, &body);
            answer = self.send(until, &link, with_text, is_asking).await?;
        }
        Reply::of(answer)
    }

    /// Sends a command before `until`.
    pub(crate) async fn ask(&self, until: Instant, command: &Cmd) -> Result<Value, Failed> {
        let answer = async {
            let link = self.link(until).await?;
            Reply::of(self.send(until, &link, command.clone(), false).await?)
        };
        in_time(until, pin!(answer)).await?.value()
    }

    /// Sends a command once there is room for it.
    async fn send(
        &self,
        until: Instant,
        link: &Link,
        command: Cmd,
        is_asking: bool,
    ) -> Result<RedisResult<Value>, Failed> {
        let unanswered = Unanswered { connection: self, life: &link.life, has_answer: false };
        let Some(place) = link.life.window.enter(until).await else { return Err(Failed::busy()) };
        let mut wire = link.wire.clone();
        let answer = Box::pin(async move { wire.send_script(command, is_asking).await });
        let answer = Flight::new(answer, place, &self.pulse, &self.runtime).await;
        unanswered.answered(&answer);
        Ok(answer)
    }

    /// Returns the established connection. Waits until `until` for an attempt that is under way.
    async fn link(&self, until: Instant) -> Result<Link, Failed> {
        let now = match &*self.state.borrow() {
            State::Up(link) => Some(Ok(link.clone())),
            State::Down(failed) => Some(Err(failed.clone())),
            State::Connecting => None,
        };
        if let Some(now) = now {
            return now;
        }
        let mut state = self.state.clone();
        let known = timeout_at(until, state.wait_for(|state| !matches!(state, State::Connecting))).await;
        match known {
            Ok(Ok(state)) => match &*state {
                State::Up(link) => Ok(link.clone()),
                State::Down(failed) => Err(failed.clone()),
                State::Connecting => Err(not_connected()),
            },
            // The task has ended, or the deadline has passed.
            Ok(Err(_)) | Err(_) => Err(not_connected()),
        }
    }

    /// Tells the task that a connection is of no use any more.
    fn gave_up(&self, life: &Life) {
        self.broken.send_if_modified(|broken| {
            let is_news = *broken < life.number;
            *broken = life.number.max(*broken);
            is_news
        });
    }
}

/// A request that has no answer yet. If it is dropped, and no request has had an answer for too
/// long, the connection is given up.
struct Unanswered<'c> {
    connection: &'c Connection,
    life: &'c Life,
    has_answer: bool,
}

impl Unanswered<'_> {
    fn answered(mut self, answer: &RedisResult<Value>) {
        self.has_answer = true;
        if answer.as_ref().is_err_and(needs_another_connection) {
            self.connection.gave_up(self.life);
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.has_answer && self.connection.pulse.is_lost() {
            self.connection.gave_up(self.life);
        }
    }
}

/// The answer, unless there is none by then.
async fn in_time(
    until: Instant,
    answer: impl Future<Output = Result<Reply, Failed>>,
) -> Result<Reply, Failed> {
    timeout_at(until, answer).await.unwrap_or_else(|_| Err(Failed::timeout()))
}

impl Reply {
    /// What a server says, of which there may be several.
    fn of(answer: RedisResult<Value>) -> Result<Self, Failed> {
        match answer {
            Ok(value) => Ok(Self::Value(value)),
            Err(error) => match error.redirect_node() {
                Some((to, slot)) => Ok(Self::Elsewhere(Redirect {
                    slot,
                    to: to.to_owned(),
                    has_moved: error.kind() == ErrorKind::Server(ServerErrorKind::Moved),
                    failed: Failed::from(&error),
                })),
                None => Err(Failed::from(&error)),
            },
        }
    }

    /// The value, of a server that has no others beside it.
    pub(crate) fn value(self) -> Result<Value, Failed> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Elsewhere(redirect) => Err(redirect.failed),
        }
    }
}

/// Nothing was sent, since there is no connection yet.
fn not_connected() -> Failed {
    Failed::new(FailureKind::Connection, Charged::No)
}

impl Link {
    /// Returns when the connection is found broken. Logs once that the store serves this user: a
    /// server that wants a password accepts a connection without one.
    async fn breaks(&self, pulse: &Pulse) {
        let (ping, mut wire, mut is_logged) = (redis::cmd("PING"), self.wire.clone(), false);
        loop {
            let sent = Instant::now();
            pulse.asks(sent);
            let answer = wire.send(&ping).await;
            if answer.as_ref().is_err_and(needs_another_connection) {
                return;
            }
            pulse.answered(sent, Instant::now());
            let is_unknown = answer.is_err_and(|error| error.code() == Some("NOAUTH"));
            if !is_logged && !is_unknown {
                is_logged = true;
                tracing::info!("connected to the store");
            }
            sleep(PING).await;
        }
    }
}

/// A script's command. `body` appends the number of keys, the keys and the arguments.
pub(crate) fn command(name: &str, script: &str, body: impl Fn(&mut Cmd)) -> Cmd {
    let mut command = Cmd::with_capacity(20, 256);
    command.arg(name).arg(script);
    body(&mut command);
    command
}

impl Wire {
    async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self.0.send_packed_command(command).await? {
            Value::ServerError(error) => Err(error.into()),
            value => Ok(value),
        }
    }

    async fn send_script(&mut self, command: Cmd, is_asking: bool) -> RedisResult<Value> {
        if !is_asking {
            return self.send(&command).await;
        }
        // In one pipeline: no other request of this connection may come between the two.
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("ASKING").add_command(command);
        let mut answers = self.0.req_packed_commands(&pipeline, 1, 1).await?;
        answers.pop().unwrap_or(Value::Nil).extract_error()
    }
}

/// Keeps a connection up until all its users are gone.
async fn keep(
    mut source: Source,
    deadline: Duration,
    pulse: Arc<Pulse>,
    state: watch::Sender<State>,
    mut broken: watch::Receiver<u64>,
) {
    let mut pause = PAUSES.0;
    for number in 1.. {
        let attempt = timeout(CONNECT, source.connect()).await;
        match attempt {
            Ok(Ok(wire)) => {
                pulse.reset();
                let life = Life { number, window: Window::new(deadline) };
                let link = Link { wire, life: Arc::new(life) };
                state.send_replace(State::Up(link.clone()));
                tokio::select! {
                    // An error: all users are gone.
                    given_up = broken.wait_for(|broken| *broken >= number) => {
                        if given_up.is_err() {
                            return;
                        }
                    }
                    () = link.breaks(&pulse) => {}
                }
                tracing::warn!("lost the connection to the store");
                state.send_replace(State::Connecting);
                pause = PAUSES.0;
            }
            failed => {
                let mut failed = match failed {
                    Ok(Err(error)) => Failed::to_begin(&error),
                    _ => not_connected(),
                };
                if failed.kind == FailureKind::Timeout {
                    failed.kind = FailureKind::Connection;
                }
                tracing::debug!(%failed, "cannot connect to the store");
                state.send_replace(State::Down(failed));
                if timeout(pause, state.closed()).await.is_ok() {
                    return;
                }
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_without_answers_end_a_silent_connection() {
        let url = crate::fake::serve(|_| String::new());
        let deadline = Duration::from_millis(10);
        let connection =
            Connection::open(Source::new(&crate::fake::address(&url.await), None).unwrap(), deadline);
        connection.first_attempt().await.unwrap();
        let (script, body) = (Script::new("return 1"), |command: &mut Cmd| {
            command.arg(0);
        });
        let number = || match &*connection.state.borrow() {
            State::Up(link) => link.life.number,
            _ => 0,
        };
        let begun = Instant::now();
        while number() < 2 {
            // Two are dropped, as by a check that is no longer awaited, and one has its own timer.
            for _ in 0..2 {
                let until = Instant::now() + 2 * deadline;
                let _ = timeout(deadline, connection.run_until(until, &script, body, false)).await;
            }
            assert!(connection.run(&script, body).await.is_err());
            assert!(begun.elapsed() < Duration::from_secs(30), "it is kept");
        }
        assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    }

    /// A server that answers nothing has all places: what it was never sent, it did not charge.
    #[tokio::test]
    async fn what_finds_no_room_is_not_sent_and_not_charged() {
        let url = crate::fake::serve(|_| String::new()).await;
        let connection = Connection::open(
            Source::new(&crate::fake::address(&url), None).unwrap(),
            Duration::from_millis(2),
        );
        connection.first_attempt().await.unwrap();
        let (script, body) = (Script::new("return 1"), |command: &mut Cmd| {
            command.arg(0);
        });
        for (sent, unsent) in [(100, 44), (0, 5)] {
            let asked = (0..sent + unsent).map(|_| connection.run(&script, body));
            let failed = futures_util::future::join_all(asked).await;
            let count = |kind, charged| {
                let is_so = |failed: &Failed| (failed.kind, failed.charged) == (kind, charged);
                failed.iter().filter(|answer| answer.as_ref().is_err_and(is_so)).count()
            };
            let timeouts = count(FailureKind::Timeout, Charged::Perhaps);
            assert_eq!((timeouts, count(FailureKind::Busy, Charged::No)), (sent, unsent));
        }
    }
}
