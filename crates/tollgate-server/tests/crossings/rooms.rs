//! A server without sockets.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use tollgate::{Clock, ManualClock};
use tollgate_rules::LiveRules;
use tollgate_server::Settings;
use tollgate_server::probe::RoomsProbe;
use tollgate_testing::folder::Folder;

/// A clock that shows this Unix time, an hour after its zero: it may be set back.
pub(crate) fn clock_at(unix: Duration) -> ManualClock {
    const RUN: Duration = Duration::from_secs(3_600);
    let clock = ManualClock::starting_at(unix - RUN);
    clock.advance(RUN);
    clock
}

/// A server's rooms over one core.
pub(crate) struct Rooms {
    parts: RoomsProbe,
    pub(crate) clock: ManualClock,
    pub(crate) settings: Settings,
}

/// The settings of a server with its files in this folder.
pub(crate) fn settings(folder: &Folder) -> Settings {
    let mut settings = Settings::new(folder.path().join("rules.toml"));
    settings.state = Some(folder.path().join("state"));
    settings.strict_state = true;
    settings.envoy.push(folder.path().join("shop.yaml"));
    (settings.resp_max_keys, settings.envoy_max_keys) = (256, 256);
    settings.auth_labels =
        ["queue", "ban", "tokens"].map(|name| (name.to_owned(), format!("x-{name}").parse().unwrap())).into();
    settings
}

pub(crate) fn settings_without_envoy(folder: &Folder) -> Settings {
    let mut settings = settings(folder);
    settings.envoy.clear();
    settings
}

impl Rooms {
    /// A server that begins at this Unix time, with the state of the folder.
    pub(crate) fn begin(settings: Settings, unix: Duration) -> Self {
        let clock = clock_at(unix);
        let parts = RoomsProbe::begin(settings.clone(), clock.clone());
        let parts = parts.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(parts.forgotten_rules(), 0);
        Self { parts, clock, settings }
    }

    pub(crate) fn live(&self) -> &LiveRules<Arc<dyn Clock + Send + Sync>> {
        self.parts.live()
    }

    pub(crate) fn save(&self) {
        self.parts.save().unwrap_or_else(|error| panic!("the state is not saved: {error}"));
    }

    /// The Unix time.
    pub(crate) fn unix(&self) -> Duration {
        self.clock.unix_at_zero() + Duration::from_nanos(self.clock.now().as_nanos())
    }

    /// What a Redis client is answered.
    pub(crate) fn redis(&self, words: &[&str]) -> String {
        let mut command = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| command += &format!("${}\r\n{word}\r\n", word.len()));
        String::from_utf8(self.parts.redis(command.as_bytes())).unwrap()
    }

    /// The five integers that a Redis client is answered.
    pub(crate) fn five(&self, words: &[&str]) -> [i64; 5] {
        let answer = self.redis(words);
        let numbers: Vec<i64> = answer.lines().skip(1).map(|line| line[1..].parse().unwrap()).collect();
        numbers.try_into().unwrap_or_else(|_| panic!("{words:?}: {answer}"))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        read(self.parts.post(path, body.to_string().as_bytes()))
    }

    /// Whether a proxy may let a request of a client pass, with these labels.
    pub(crate) fn auth(&self, client: &str, labels: &[(&str, String)]) -> bool {
        let mut request = http::Request::get("/v1/auth")
            .header("x-forwarded-method", "GET")
            .header("x-forwarded-uri", "/")
            .header("x-forwarded-for", client);
        for (name, value) in labels {
            request = request.header(format!("x-{name}"), value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        self.parts.authorize(head).unwrap() == 200
    }

    /// An order for the key of a client. Returns its answer.
    pub(crate) fn order(&self, rule: &str, client: &str, order: &Value) -> (u16, Value) {
        let body =
            json!({ "request": { "client": client, "labels": { "queue": "1", "ban": "1" } }, "do": order });
        let (status, answer) = read(self.parts.order(rule, body.to_string().as_bytes()));
        (status, answer["done"].clone())
    }

    /// Puts a file in force: the status of the answer.
    pub(crate) fn reload(&self, text: &str, forget: Option<&str>) -> u16 {
        std::fs::write(&self.settings.rules, text).unwrap();
        let query = forget.map(|rule| format!("forget={rule}"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        read(runtime.block_on(self.parts.reload(query.as_deref()))).0
    }
}

fn read((status, body): (StatusCode, Bytes)) -> (u16, Value) {
    (status.as_u16(), serde_json::from_slice(&body).unwrap_or(Value::Null))
}
