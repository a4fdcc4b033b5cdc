//! Who is loaded with what, and the targets.

use super::load::{COMMANDS, FEW_COMMANDS, Load};
use super::proxies::Limits;
use super::servers::Kind;
use crate::process::{BOTH, SERVER};

/// Servers that are loaded in turn. All are compared with the first.
pub(super) struct Contest {
    pub(super) title: &'static str,
    /// The servers' cores, as taskset takes them.
    pub(super) cores: &'static str,
    pub(super) contestants: Vec<Contestant>,
}

/// A server under a load.
pub(super) struct Contestant {
    pub(super) title: &'static str,
    pub(super) server: Kind,
    pub(super) load: Load,
    /// How much of this one's processor time the first may use.
    pub(super) at_most: Option<f64>,
}

const THROTTLE: &[&str] = &["CL.THROTTLE", "k:__rand_int__", "10", "100", "60"];
const TG_CHECK: &[&str] = &["TG.CHECK", "each", "k:__rand_int__"];
/// The same command by the name that throttlecrab gives it.
const CRAB: &[&str] = &["THROTTLE", "k:__rand_int__", "10", "100", "60"];
const PING: &[&str] = &["PING"];

const ADMITTED: Load = Load::Get { path: "/api/items", is_refused: false };
const REFUSED: Load = Load::Get { path: "/api/items", is_refused: true };

/// A request as the callers of a gateway send it, and the same a hundred times.
pub(super) const CHECK: &str = r#"{"method":"GET","target":"/api/items","client":"203.0.113.9"}"#;

/// All contests.
pub(super) fn contests() -> Vec<Contest> {
    vec![
        redis("CL.THROTTLE, 16 in a pipeline", 16, [Some(0.25), Some(1.2)]),
        redis("CL.THROTTLE, no pipeline", 1, [Some(1.0), Some(1.1)]),
        http("/v1/check, one request", "/v1/check", CHECK.to_owned(), Some(1.1)),
        a_batch(),
        http("/v1/auth", "/v1/auth", String::new(), Some(1.1)),
        rls(),
        proxies("proxy, no rule"),
        proxies("proxy, no rule, two threads").on_two_cores(),
        proxy("proxy, one rule by client", Limits::One, 1.03),
        proxy("proxy, three rules", Limits::Three, 1.06),
        refusals(),
    ]
}

impl Contest {
    /// The same of servers with two threads. They share a core with the loader.
    fn on_two_cores(self) -> Self {
        Self { cores: BOTH, ..self }
    }
}

/// Bare proxying of answers of 1 KiB.
fn proxies(title: &'static str) -> Contest {
    let one = |title, server, at_most| Contestant { title, server, load: ADMITTED, at_most };
    Contest {
        title,
        cores: SERVER,
        contestants: vec![
            one("tollgate", Kind::Proxy(Limits::None), None),
            one("nginx", Kind::Nginx(Limits::None), Some(1.15)),
            one("Envoy", Kind::Envoy(Limits::None), Some(1.0)),
            one("Traefik", Kind::Traefik, Some(1.0)),
            one("Caddy", Kind::Caddy, Some(1.0)),
            one("hyper on both sides, which passes on and does nothing else", Kind::Passing, None),
        ],
    }
}

/// Our own with limits, beside itself with others, and nginx.
fn proxy(title: &'static str, limits: Limits, at_most: f64) -> Contest {
    let one = |title, server, at_most| Contestant { title, server, load: ADMITTED, at_most };
    Contest {
        title,
        cores: SERVER,
        contestants: vec![
            one("tollgate", Kind::Proxy(limits), None),
            one("tollgate without them", Kind::Proxy(Limits::None), Some(at_most)),
            one("nginx with `limit_req`", Kind::Nginx(limits), None),
        ],
    }
}

fn refusals() -> Contest {
    let one = |title, server, at_most| Contestant { title, server, load: REFUSED, at_most };
    Contest {
        title: "proxy, all are refused",
        cores: SERVER,
        contestants: vec![
            one("tollgate", Kind::Proxy(Limits::Refused), None),
            one("nginx with `limit_req`", Kind::Nginx(Limits::Refused), Some(0.5)),
            one("a read and a write for each request, and nothing else", Kind::Least, None),
        ],
    }
}

/// A contest of commands to 100,000 keys, with targets for redis-cell and for `PING`.
fn redis(title: &'static str, pipeline: u32, [cell, ping]: [Option<f64>; 2]) -> Contest {
    let one = |title, server, command, at_most| {
        let commands = if server == Kind::Throttlecrab { FEW_COMMANDS } else { COMMANDS };
        let load = Load::Redis { pipeline, command, commands };
        Contestant { title, server, load, at_most }
    };
    Contest {
        title,
        cores: SERVER,
        contestants: vec![
            one("tollgate", Kind::Tollgate, THROTTLE, None),
            one("Redis, `PING`", Kind::Redis, PING, ping),
            one("redis-cell", Kind::RedisCell, THROTTLE, cell),
            one("throttlecrab-server, `THROTTLE`", Kind::Throttlecrab, CRAB, None),
            one("tollgate, `PING`", Kind::Tollgate, PING, None),
            one("tollgate, `TG.CHECK`", Kind::Tollgate, TG_CHECK, None),
        ],
    }
}

fn http(title: &'static str, path: &'static str, body: String, at_most: Option<f64>) -> Contest {
    let one = |title, server, at_most| {
        let load = Load::Http { path, body: body.clone() };
        Contestant { title, server, load, at_most }
    };
    Contest {
        title,
        cores: SERVER,
        contestants: vec![
            one("tollgate", Kind::Tollgate, None),
            one("hyper, which reads and answers the same bytes", Kind::Hyper, at_most),
        ],
    }
}

/// A hundred requests, beside what no server does without that decides each of them.
fn a_batch() -> Contest {
    let path = "/v1/check";
    let body = format!("{{\"requests\":[{}]}}", vec![CHECK; 100].join(","));
    let mut contest = http("/v1/check, 100 requests", path, body.clone(), Some(1.5));
    contest.contestants.push(Contestant {
        title: "hyper, which also reads the JSON and asks three limiters",
        server: Kind::Asks,
        load: Load::Http { path, body },
        at_most: None,
    });
    contest
}

fn rls() -> Contest {
    let one = |title, server, at_most| Contestant { title, server, load: Load::Grpc, at_most };
    Contest {
        title: "Envoy's rate limit service, one descriptor, three rules",
        cores: SERVER,
        contestants: vec![
            one("tollgate", Kind::Tollgate, None),
            one("tonic, which answers OK without deciding", Kind::Tonic, Some(1.1)),
        ],
    }
}
