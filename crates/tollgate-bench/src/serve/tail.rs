//! The slowest of a thousand answers, while half of what the server can do is asked of it.

use crate::error::BenchError;
use crate::measure::Spread;
use crate::paired::ratio;

use super::contests::CHECK;
use super::load::{HTTP_SECONDS, Load};
use super::open_loop::{Answer, Latencies, OpenLoop};
use super::servers::{Kind, Running, Servers};
use super::summary::{Row, Summary};

/// How many times that of a bare server ours may be.
const AT_MOST: f64 = 2.0;

/// How long a server is loaded in a round.
const SECONDS: f64 = 3.0;

/// Rounds for which the same processes serve.
const ROUNDS_A_PROCESS: u32 = 3;

/// Compares the slow answers to `/v1/check` with those of a bare server.
pub(super) fn measure(servers: &Servers, rounds: u32, summary: &mut Summary) -> Result<(), BenchError> {
    let start = |kind| servers.start(kind).map_err(BenchError::Tool);
    let load = Load::Http { path: "/v1/check", body: CHECK.to_owned() };
    let mut running = [start(Kind::Tollgate)?, start(Kind::Hyper)?];
    // Of the slower one, so that neither is asked for more than half.
    let mut capacity = f64::INFINITY;
    for server in &running {
        load.run(server).map_err(BenchError::Tool)?; // it warms up
        capacity =
            capacity.min(load.run(server).map_err(BenchError::Tool)?.commands / f64::from(HTTP_SECONDS));
    }
    let rate = capacity / 2.0;
    let (mut figures, mut disturbed, mut is_disturbed) = ([Vec::new(), Vec::new()], 0, false);
    for round in 0..rounds {
        eprintln!("open loop: round {} of {rounds}", round + 1);
        if round > 0 && round % ROUNDS_A_PROCESS == 0 {
            running = [start(Kind::Tollgate)?, start(Kind::Hyper)?];
            running.iter().try_for_each(|server| load.run(server).map(drop)).map_err(BenchError::Tool)?;
        }
        for turn in 0..2 {
            let turn = (round as usize + turn) % 2;
            let latencies = open_loop(&running[turn], rate).map_err(BenchError::Tool)?;
            figures[turn].push(latencies.p999_micros());
            disturbed += latencies.disturbed;
            is_disturbed |= latencies.is_disturbed();
        }
    }
    println!("## /v1/check in an open loop, half of capacity\n");
    println!(
        "{rate:.0} requests a second to each for {SECONDS} s, {rounds} times, in turn. The loader itself"
    );
    println!("had no processor for a moment during {disturbed} of them, which count nowhere.\n");
    println!("| | p99.9 |\n|---|---|");
    for (title, figures) in ["tollgate", "hyper, which reads and answers the same bytes"].iter().zip(&figures)
    {
        println!("| {title} | {:.0} us |", Spread::of(figures.clone()).median);
    }
    println!();
    let (low, figure, high) = ratio(&figures[0], &figures[1]);
    summary.add(Row {
        what: "p99.9 of `/v1/check` at half of capacity, open loop, by the bare server's".to_owned(),
        figure: if is_disturbed { f64::NAN } else { figure },
        at_most: AT_MOST,
        unit: "",
        note: format!(" ({low:.2} .. {high:.2})"),
    });
    Ok(())
}

fn open_loop(server: &Running, rate: f64) -> Result<Latencies, String> {
    let length = CHECK.len();
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {length}\r\n\r\n{CHECK}");
    let load = OpenLoop {
        port: server.http_port,
        rate,
        messages: (rate * SECONDS) as u64,
        answer: Answer::Http,
        message: &|_, into| into.extend(request.bytes()),
    };
    load.run()
}
