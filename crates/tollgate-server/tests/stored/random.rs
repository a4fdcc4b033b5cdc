//! A random program of two servers with one store, against one model.

use serde_json::{Value, json};
use tollgate_testing::random::Random;

use crate::check::{rule, rules, stored};
use crate::support::{Running, start};
use tollgate_testing::stores::{Server, Store};

/// The remaining units of each client, by the two rules of the store and each server's own rule.
struct Model {
    wide: [u64; CLIENTS],
    narrow: [u64; CLIENTS],
    local: [[u64; CLIENTS]; 2],
}

/// An admitted request that is not settled.
struct Open {
    ticket: Value,
    server: usize,
    client: usize,
    cost: u64,
}

const CLIENTS: usize = 3;
const STEPS: usize = 400;

fn address(client: usize) -> String {
    format!("203.0.113.{client}")
}

/// Waits until the store agrees with the model: a task of its own refunds.
async fn agree(seer: &Running, client: usize, expected: u64, step: usize) {
    let ask = json!({ "client": address(client), "cost": 0 });
    for _ in 0..3_000 {
        if seer.ask("/v1/peek", &ask).await["remaining"] == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("step {step}: {expected} expected, {} left", seer.ask("/v1/peek", &ask).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_decide_as_one_model() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let (wide, narrow) = (stored("wide", 60, ""), stored("narrow", 25, ", charge_if.status = [200]"));
    let text = rules(&redis.url(), &[&*wide, &narrow, &rule("local", 40, "")].join(", "));
    let servers = [start(&text).await, start(&text).await];
    let (wide, narrow) =
        (start(&rules(&redis.url(), &wide)).await, start(&rules(&redis.url(), &narrow)).await);
    let (full, own) = ([60; CLIENTS], [[40; CLIENTS]; 2]);
    let mut model = Model { wide: full, narrow: [25; CLIENTS], local: own };
    let mut open: Vec<Open> = Vec::new();
    let mut random = Random::with_seed(1);
    let mut random = |below: usize| random.usize(..below);
    let mut refused = 0;
    for step in 0..STEPS {
        let (client, server) = (random(CLIENTS), random(2));
        if random(3) > 0 || open.is_empty() {
            let cost = random(9) as u64;
            let ask = json!({ "client": address(client), "cost": cost, "ticket": true });
            let said = servers[server].ask("/v1/check", &ask).await;
            let Model { wide, narrow, local } = &mut model;
            let all = [&mut wide[client], &mut narrow[client], &mut local[server][client]];
            let admits = all.iter().all(|left| **left >= cost);
            let expected = if admits { "admitted" } else { "refused" };
            assert_eq!(said["outcome"], expected, "step {step}: {said}");
            if admits {
                all.into_iter().for_each(|left| *left -= cost);
                open.push(Open { ticket: said["ticket"].clone(), server, client, cost });
            }
            refused += usize::from(!admits);
        } else {
            let Open { ticket, server, client, cost } = open.swap_remove(random(open.len()));
            let (body, comes_back) = match random(3) {
                0 => (json!({ "ticket": ticket, "cancel": true }), [true, true, true]),
                1 => (json!({ "ticket": ticket, "status": 500 }), [false, true, false]),
                _ => (json!({ "ticket": ticket, "status": 200 }), [false; 3]),
            };
            assert_eq!(servers[server].ask("/v1/settle", &body).await["settled"], true, "step {step}");
            let Model { wide, narrow, local } = &mut model;
            let all = [&mut wide[client], &mut narrow[client], &mut local[server][client]];
            all.into_iter().zip(comes_back).for_each(|(left, back)| *left += if back { cost } else { 0 });
        }
        for client in 0..CLIENTS {
            agree(&wide, client, model.wide[client], step).await;
            agree(&narrow, client, model.narrow[client], step).await;
        }
    }
    assert!(refused > STEPS / 10 && refused < STEPS * 2 / 3, "{refused} refused");
}
