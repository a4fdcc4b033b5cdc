//! The slowest of a thousand answers, while half of what the server can do is asked of it.

use crate::error::BenchError;
use crate::measure::Spread;
use crate::paired::ratio;

use super::contests::CHECK;
use super::load::{HTTP_SECONDS, Load};
use super::open_loop::{Answer, Latencies, OpenLoop};
use super::proxies::{Limits, request_of};
use super::servers::{Kind, Running, Servers};
use super::summary::{Row, Summary};

/// How many times that of a bare server ours may be.
const AT_MOST: f64 = 2.0;

/// How long a server is loaded in a round.
const SECONDS: f64 = 3.0;

/// Rounds for which the same processes serve.
const ROUNDS_A_PROCESS: u32 = 3;

/// Two servers that get the same requests: the first decides, the second does not.
struct Pair {
    what: &'static str,
    titles: [&'static str; 2],
    kinds: [Kind; 2],
    /// Tells what the servers can do.
    load: Load,
    request: Vec<u8>,
}

fn pairs() -> [Pair; 2] {
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let check = format!("{head}content-length: {}\r\n\r\n{CHECK}", CHECK.len());
    let mut get = Vec::new();
    request_of(1, &mut get);
    [
        Pair {
            what: "`/v1/check`",
            titles: ["tollgate", "hyper, which reads and answers the same bytes"],
            kinds: [Kind::Tollgate, Kind::Hyper],
            load: Load::Http { path: "/v1/check", body: CHECK.to_owned() },
            request: check.into_bytes(),
        },
        Pair {
            what: "the proxy with a rule by client",
            titles: ["tollgate proxy", "tollgate proxy without the rule"],
            kinds: [Kind::Proxy(Limits::One), Kind::Proxy(Limits::None)],
            load: Load::Get { path: "/api/items", is_refused: false },
            request: get,
        },
    ]
}

/// Compares the slow answers of servers that decide with those of servers that do not.
pub(super) fn measure(servers: &Servers, rounds: u32, summary: &mut Summary) -> Result<(), BenchError> {
    for pair in pairs() {
        if pair.kinds.iter().all(|kind| servers.has(*kind)) {
            pair.measure(servers, rounds, summary).map_err(BenchError::Tool)?;
        }
    }
    Ok(())
}

impl Pair {
    fn start(&self, servers: &Servers) -> Result<[Running; 2], String> {
        let running = [servers.start(self.kinds[0])?, servers.start(self.kinds[1])?];
        running.iter().try_for_each(|server| self.load.run(server).map(drop))?; // they warm up
        Ok(running)
    }

    fn measure(&self, servers: &Servers, rounds: u32, summary: &mut Summary) -> Result<(), String> {
        let mut running = self.start(servers)?;
        // Of the slower one, so that neither is asked for more than half.
        let mut capacity = f64::INFINITY;
        for server in &running {
            capacity = capacity.min(self.load.run(server)?.commands / f64::from(HTTP_SECONDS));
        }
        let rate = capacity / 2.0;
        let (mut figures, mut disturbed, mut is_disturbed) = ([Vec::new(), Vec::new()], 0, false);
        for round in 0..rounds {
            eprintln!("open loop, {}: round {} of {rounds}", self.what, round + 1);
            if round > 0 && round % ROUNDS_A_PROCESS == 0 {
                running = self.start(servers)?;
            }
            for turn in 0..2 {
                let turn = (round as usize + turn) % 2;
                let latencies = self.open_loop(&running[turn], rate)?;
                figures[turn].push(latencies.p999_micros());
                disturbed += latencies.disturbed;
                is_disturbed |= latencies.is_disturbed();
            }
        }
        let what = self.what;
        println!("## {what} in an open loop, half of capacity\n");
        println!(
            "{rate:.0} requests a second to each for {SECONDS} s, {rounds} times, in turn. The loader itself"
        );
        println!("had no processor for a moment during {disturbed} of them, which count nowhere.\n");
        println!("| | p99.9 |\n|---|---|");
        for (title, figures) in self.titles.iter().zip(&figures) {
            println!("| {title} | {:.0} us |", Spread::of(figures.clone()).median);
        }
        println!();
        let (low, figure, high) = ratio(&figures[0], &figures[1]);
        summary.add(Row {
            what: format!("p99.9 of {what} at half of capacity, open loop, by the bare server's"),
            figure: if is_disturbed { f64::NAN } else { figure },
            at_most: AT_MOST,
            unit: "",
            note: format!(" ({low:.2} .. {high:.2})"),
        });
        Ok(())
    }

    fn open_loop(&self, server: &Running, rate: f64) -> Result<Latencies, String> {
        let load = OpenLoop {
            port: server.http_port,
            rate,
            messages: (rate * SECONDS) as u64,
            answer: Answer::Http,
            message: &|_, into| into.extend(&self.request),
        };
        load.run()
    }
}
