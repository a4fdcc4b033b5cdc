//! A server without sockets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tollgate::ManualClock;

use crate::admin::Admin;
use crate::clock::ServerClock;
use crate::core::Core;
use crate::listen::Drain;
use crate::resp::Probe;
use crate::settings::Settings;
use crate::state::{self, begin};
use crate::v1;
use crate::web::Answer;

/// A clock that shows this Unix time, an hour after its zero: it may be set back.
pub(super) fn clock_at(unix: Duration) -> ManualClock {
    const RUN: Duration = Duration::from_secs(3_600);
    let clock = ManualClock::starting_at(unix - RUN);
    clock.advance(RUN);
    clock
}

/// A server's rooms over one core.
pub(super) struct Rooms {
    pub(super) core: Arc<Core>,
    pub(super) clock: ManualClock,
    pub(super) settings: Settings,
    v1: v1::Service,
    admin: Arc<Admin>,
    resp: Probe,
}

/// A folder that is removed with the value.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    /// Tests of one process run side by side, and two of them may play the same seed.
    pub(super) fn new(name: &str) -> Self {
        static FOLDERS: AtomicU64 = AtomicU64::new(0);
        let (process, turn) = (std::process::id(), FOLDERS.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(format!("tollgate-crossings-{process}-{turn}-{name}"));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.0.join("rules.toml"));
        settings.state = Some(self.0.join("state"));
        settings.strict_state = true;
        settings.envoy.push(self.0.join("shop.yaml"));
        (settings.resp_max_keys, settings.envoy_max_keys) = (256, 256);
        settings.auth_labels = ["queue", "ban", "tokens"]
            .map(|name| (name.to_owned(), format!("x-{name}").parse().unwrap()))
            .into();
        settings
    }
}

impl Folder {
    pub(super) fn settings_without_envoy(&self) -> Settings {
        Settings { envoy: Vec::new(), ..self.settings() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Rooms {
    /// A server that begins at this Unix time, with the state of the folder.
    pub(super) fn begin(settings: Settings, unix: Duration) -> Self {
        let clock = clock_at(unix);
        let shown: ServerClock = Arc::new(clock.clone());
        let begun = begin(&settings, &shown).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(begun.report.forgotten_rules.load(Relaxed), 0);
        let mut core = Core::new(begun.live, shown, settings.resp_max_keys, false).unwrap();
        (core.envoy, core.state) = (begun.envoy, begun.report);
        begun.calls.into_iter().for_each(|calls| core.calls.put(calls));
        let core = Arc::new(core);
        let v1 = v1::Service::new(Arc::clone(&core), &settings);
        let admin = Admin::new(&core, &settings, &Drain::default()).unwrap();
        let resp = Probe::of(&core, &settings, clock.clone());
        Self { core, clock, settings, v1, admin, resp }
    }

    pub(super) fn save(&self) {
        let path: &Path = self.settings.state.as_deref().unwrap();
        state::save_now(path, &self.core).unwrap_or_else(|error| panic!("the state is not saved: {error}"));
    }

    /// The Unix time.
    pub(super) fn unix(&self) -> Duration {
        use tollgate::Clock;
        self.clock.unix_at_zero() + Duration::from_nanos(self.clock.now().as_nanos())
    }

    /// What a Redis client is answered.
    pub(super) fn redis(&self, words: &[&str]) -> String {
        let mut command = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| command += &format!("${}\r\n{word}\r\n", word.len()));
        String::from_utf8(self.resp.answers([command.as_bytes()]).output).unwrap()
    }

    /// The five integers that a Redis client is answered.
    pub(super) fn five(&self, words: &[&str]) -> [i64; 5] {
        let answer = self.redis(words);
        let numbers: Vec<i64> = answer.lines().skip(1).map(|line| line[1..].parse().unwrap()).collect();
        numbers.try_into().unwrap_or_else(|_| panic!("{words:?}: {answer}"))
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        read(self.v1.post(path, body.to_string().as_bytes()))
    }

    /// Whether a proxy may let a request of a client pass, with these labels.
    pub(super) fn auth(&self, client: &str, labels: &[(&str, String)]) -> bool {
        let mut request = http::Request::get("/v1/auth")
            .header("x-forwarded-method", "GET")
            .header("x-forwarded-uri", "/")
            .header("x-forwarded-for", client);
        for (name, value) in labels {
            request = request.header(format!("x-{name}"), value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        self.v1.authorize_now(head).unwrap() == 200
    }

    /// An order for the key of a client. Returns its answer.
    pub(super) fn order(&self, rule: &str, client: &str, order: &Value) -> (u16, Value) {
        let body =
            json!({ "request": { "client": client, "labels": { "queue": "1", "ban": "1" } }, "do": order });
        let (status, answer) = read(self.admin.order(rule, body.to_string().as_bytes()));
        (status, answer["done"].clone())
    }

    /// Puts a file in force: the status of the answer.
    pub(super) fn reload(&self, text: &str, forget: Option<&str>) -> u16 {
        std::fs::write(&self.settings.rules, text).unwrap();
        let query = forget.map(|rule| format!("forget={rule}"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(self.admin.reload_now(query.as_deref()));
        read(answer).0
    }
}

fn read(answer: Answer) -> (u16, Value) {
    let status = answer.status().as_u16();
    let mut body = std::pin::pin!(answer.into_body().collect());
    let Poll::Ready(Ok(body)) = body.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the body is complete")
    };
    (status, serde_json::from_slice(&body.to_bytes()).unwrap_or(Value::Null))
}
