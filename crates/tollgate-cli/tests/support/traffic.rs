//! Traffic that many rules concern, as requests and as a log.

use std::fmt::Write;

use tollgate_rules::PlainRequest;
use tollgate_testing::random::Random;

/// Six rules, of which each but `office` refuses some requests of [`requests`].
pub(crate) const RULES: &str = r#"
version = 1
clients.ipv6_prefix = 56
lists = { office = ["192.0.2.8/29"] }

[[rule]]
name = "each"
key = "client"
limits = "3/min,burst=6"
except.path = "/health"

[[rule]]
name = "office"
match.client = "@office"
key = "everyone"
limits = "unlimited"
replaces = ["each"]

[[rule]]
name = "log-ins"
match = { method = "POST", path = "/login" }
key = ["client", "header.user-agent"]
limits = ["sliding-window:3/min,subwindows=6", "sliding-log:8/h"]
charge_if.status = [401, 403]
ban = "5min"

[[rule]]
name = "users"
match.path = "/users/{id}"
key = "path.id"
limits = "fixed-window:4/min"
cost = [{ match.method = ["POST", "DELETE"], is = 2 }, { is = 1 }]
tier = [{ name = "one", match.path = "/users/1", limits = "fixed-window:1/min" }]

[[rule]]
name = "bots"
match.header.user-agent = "*bot*"
key = "header.user-agent"
limits = "leaky-bucket:1/s,capacity=3"
mode = "shadow"

[[rule]]
name = "search"
match.path = "/search"
key = "query.q"
missing = "refuse"
limits = "5/min"
"#;

/// A request of the log, as the test knows it.
pub(crate) struct Made {
    pub(crate) t_s: u64,
    pub(crate) request: PlainRequest,
    pub(crate) status: u16,
}

/// Requests whose clock steps back now and then.
pub(crate) fn requests(count: usize) -> Vec<Made> {
    let mut random = Random::with_seed(7);
    let clients = ["192.0.2.1", "192.0.2.9", "203.0.113.9", "2001:db8:1:2::1", "2001:db8:1:ff::2"];
    let targets = ["/", "/Login/", "/login?a=b", "/users/1", "/users/2", "/search?q=x", "/search", "/health"];
    let mut t_s = 10;
    let made = |_| {
        t_s += [0, 0, 0, 1, 2, 20][random.usize(..6)];
        let request = PlainRequest {
            method: Some(["GET", "POST", "DELETE"][random.usize(..3)].into()),
            target: Some(targets[random.usize(..8)].into()),
            client: Some(clients[random.usize(..5)].parse().expect("an address")),
            headers: vec![(
                "user-agent".into(),
                ["curl/8", "a bot", "another bot/2"][random.usize(..3)].into(),
            )],
            ..PlainRequest::default()
        };
        Made { t_s: t_s - random.u64(..2), request, status: [200, 401, 403, 404][random.usize(..4)] }
    };
    (0..count).map(made).collect()
}

/// The same as lines of an access log.
pub(crate) fn log(requests: &[Made]) -> String {
    let mut log = String::new();
    for Made { t_s, request, status } in requests {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (h, m, s) = (t_s / 3600 % 24, t_s / 60 % 60, t_s % 60);
        writeln!(
            log,
            "{} - - [{}/Feb/2016:{h:02}:{m:02}:{s:02} +0000] \"{} {} HTTP/1.1\" {status} 1 \"-\" \"{}\"",
            request.client.expect("it has one"),
            20 + t_s / 86_400,
            request.method.as_deref().expect("it has one"),
            text(request.target.as_deref().expect("it has one")),
            text(&request.headers[0].1),
        )
        .expect("writing to a text does not fail");
    }
    log
}
