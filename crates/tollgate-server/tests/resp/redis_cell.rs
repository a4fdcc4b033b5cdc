//! The same calls to redis-cell itself, where its module is at hand: the file that
//! `TOLLGATE_REDIS_CELL` names. The registry has only a release of 2018, so it is not fetched.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tollgate_testing::random::Random;

use tollgate_testing::folder::free_port;
use tollgate_testing::process::Process;
use tollgate_testing::tools;

use super::start;

async fn connect(port: u16) -> Option<MultiplexedConnection> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
    for _ in 0..50 {
        if let Ok(connection) = client.get_multiplexed_async_connection().await {
            return Some(connection);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    None
}

async fn throttle(
    connection: &mut MultiplexedConnection,
    key: &str,
    numbers: &[i64],
) -> Result<[i64; 5], String> {
    let mut command = redis::cmd("CL.THROTTLE");
    command.arg(key);
    for number in numbers {
        command.arg(*number);
    }
    let answer: Result<Value, _> = command.query_async(connection).await;
    match answer {
        Ok(value) => Ok(redis::from_redis_value(value).unwrap()),
        Err(error) => Err(error.detail().unwrap_or_default().to_owned()),
    }
}

/// Whether a call is one that this server answers otherwise on purpose: docs/reference/resp.md.
fn deviates(numbers: &[i64]) -> bool {
    let [burst, count, period] = numbers[..3] else { return false };
    let quantity = numbers.get(3).copied().unwrap_or(1);
    if count == 0 || period == 0 {
        return false;
    }
    let emission = (period as f64 * 1e9 / count as f64) as i64;
    let tolerance = burst.checked_add(1).and_then(|limit| emission.checked_mul(limit));
    // Our tolerances end at 36 years.
    let overflows =
        tolerance.is_none_or(|tolerance| tolerance >= 1 << 60) || emission.checked_mul(quantity).is_none();
    // Less than some milliseconds, or a TAT that may come before now.
    overflows || emission.unsigned_abs() < 10_000_000 || emission.saturating_mul(quantity) < 0
}

#[tokio::test]
async fn calls_are_answered_as_by_redis_cell_itself() {
    let module = std::env::var_os("TOLLGATE_REDIS_CELL").map(PathBuf::from);
    let (Some(module), Some(server)) = (module, tools::find("redis-server")) else {
        tools::tell("redis-cell (TOLLGATE_REDIS_CELL names its module)");
        return;
    };
    let port = free_port();
    let mut command = Command::new(server);
    command
        .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string(), "--loadmodule"])
        .arg(module);
    let _redis = Process::of(command.stdout(Stdio::null()));
    let running = start(|settings| settings.resp_max_keys = 100_000).await;
    let mut theirs = connect(port).await.unwrap();
    let mut ours = connect(running.resp().port()).await.unwrap();

    let mut random = Random::with_seed(1);
    let mut random = |numbers: &[i64]| numbers[random.usize(..numbers.len())];
    let mut compared = 0;
    for program in 0..3_000 {
        let calls: Vec<[i64; 4]> = (0..4)
            .map(|_| {
                let burst = random(&[-20, -2, -1, 0, 1, 2, 5, 15, 16, 100, 1 << 40, i64::MAX]);
                let count = random(&[1, 2, 3, 7, 30, 30, 100, 0, -1, -30]);
                let period = random(&[60, 60, 3_600, 86_400, 1_000_000, 0, -3_600, 100_000_000]);
                [burst, count, period, random(&[1, 1, 1, 0, 2, 3, 15, 16, 17, -1, 1 << 31])]
            })
            .filter(|numbers| !deviates(numbers))
            .collect();
        // Between the two a millisecond may end: then once more, on another key.
        for attempt in 0..3 {
            let key = format!("{program}-{attempt}");
            let mut differing = None;
            for numbers in &calls {
                let answers =
                    (throttle(&mut theirs, &key, numbers).await, throttle(&mut ours, &key, numbers).await);
                compared += 1;
                if answers.0 != answers.1 {
                    differing = Some((numbers, answers));
                    break;
                }
            }
            let Some((numbers, answers)) = differing else { break };
            assert!(attempt < 2, "{calls:?}, at {numbers:?}: theirs, ours: {answers:?}");
        }
    }
    println!("{compared} calls compared with redis-cell");
}
