//! Real clients of Redis.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use tollgate_testing::tools;

use super::{connect, start};

/// Runs a program against the server. Returns what it prints.
pub(crate) async fn prints(program: PathBuf, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(std::time::Duration::from_secs(60), command.output()).await;
    let output = output.expect("the client does not hang").unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {printed}");
    printed.into_owned()
}

#[tokio::test]
async fn redis_cli_asks_in_both_versions() {
    let Some(cli) = tools::find("redis-cli") else { return };
    let running = start(|settings| settings.resp_password = super::secret("p")).await;
    let port = running.resp().port().to_string();
    for (version, five) in [("-2", "0\n16\n15\n-1\n2\n"), ("-3", "0\n16\n14\n-1\n4\n")] {
        let arguments = ["-p", &port, "--no-auth-warning", "-a", "p", version];
        let throttle = ["CL.THROTTLE", "user123", "15", "30", "60"];
        assert_eq!(prints(cli.clone(), &[&arguments[..], &throttle].concat()).await, five);
    }
    let refused = prints(cli, &["-p", &port, "PING"]).await;
    assert!(refused.contains("NOAUTH"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_benchmark_runs_pipelines_of_commands() {
    let Some(benchmark) = tools::find("redis-benchmark") else { return };
    let running = start(|_| ()).await;
    let port = running.resp().port().to_string();
    let numbers = ["-n", "20000", "-c", "20", "-P", "16", "-r", "1000", "-q"];
    let command = ["CL.THROTTLE", "k:__rand_int__", "10", "100", "60"];
    let printed = prints(benchmark, &[&["-p", &port], &numbers[..], &command].concat()).await;
    assert!(printed.contains("requests per second"), "{printed}");
    assert!(!printed.contains("rror from server"), "{printed}");
    let mut client = connect(&running).await;
    client.hears("DBSIZE", ":1000\r\n").await;
}

#[tokio::test]
async fn redis_py_connects_and_asks() {
    let Some(python) = tools::python(&["redis"]) else { return };
    let running = start(|settings| settings.resp_password = super::secret("p")).await;
    let script = r#"
import redis, sys
for protocol in (2, 3):
    r = redis.Redis(port=int(sys.argv[1]), password="p", protocol=protocol, client_name="test")
    assert r.ping() and r.client_getname() in ("test", b"test"), r.client_getname()
    key = f"key{protocol}"
    assert r.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 15, -1, 2]
    pipeline = r.pipeline(transaction=False)
    for _ in range(100):
        pipeline.execute_command("CL.THROTTLE", key, 15, 30, 60)
    answers = pipeline.execute()
    assert [answer[0] for answer in answers] == [0] * 15 + [1] * 85, answers
    assert r.execute_command("TG.CHECK", "each", f"203.0.113.{protocol}")[:3] == [0, 20, 19]
    assert r.exists(key) == 1 and r.ttl(key) in (31, 32) and r.delete(key) == 1 and r.get(key) is None
    assert r.info()["redis_mode"] == "standalone" and r.dbsize() == 0
    try:
        r.execute_command("CL.THROTTLE", key, 15, 0, 60)
        assert False
    except redis.ResponseError as error:
        assert "Zero rates are not supported" in str(error), error
print("done")
"#;
    let port = running.resp().port().to_string();
    assert_eq!(prints(python, &["-c", script, &port]).await, "done\n");
}

#[tokio::test]
async fn ioredis_and_node_redis_connect_and_ask() {
    let (Some(home), Some(node)) = (tools::node(&["ioredis", "redis"]), tools::find("node")) else { return };
    let running = start(|settings| settings.resp_password = super::secret("p")).await;
    let script = r#"
const assert = require("assert");
const port = Number(process.argv[2]);
async function main() {
    const Redis = require("ioredis");
    const io = new Redis({ port, password: "p", connectionName: "test" });
    assert.deepStrictEqual(await io.call("CL.THROTTLE", "io", 15, 30, 60), [0, 16, 15, -1, 2]);
    const pipeline = io.pipeline();
    for (let i = 0; i < 100; i++) pipeline.call("CL.THROTTLE", "io", 15, 30, 60);
    const limited = (await pipeline.exec()).map(([error, answer]) => answer[0]);
    assert.strictEqual(limited.filter((one) => one === 0).length, 15);
    assert.strictEqual(await io.del("io"), 1);
    await io.quit();

    const { createClient } = require("redis");
    for (const RESP of [2, 3]) {
        const client = createClient({ url: `redis://:p@127.0.0.1:${port}`, RESP, name: "test" });
        await client.connect();
        const key = `node${RESP}`;
        const throttle = () => client.sendCommand(["CL.THROTTLE", key, "15", "30", "60"]);
        assert.deepStrictEqual(await throttle(), [0, 16, 15, -1, 2]);
        const answers = await Promise.all(Array.from({ length: 100 }, throttle));
        assert.strictEqual(answers.filter(([one]) => one === 0).length, 15);
        await client.close();
    }
    console.log("done");
}
main().catch((error) => { console.error(error); process.exit(1); });
"#;
    let file = home.join(format!("test-{}.js", std::process::id()));
    std::fs::write(&file, script).unwrap();
    let port = running.resp().port().to_string();
    let printed = prints(node, &[file.to_str().unwrap(), &port]).await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!(printed, "done\n");
}

#[tokio::test]
async fn redis_rs_connects_and_asks() {
    let running = start(|settings| settings.resp_password = super::secret("p")).await;
    for version in ["resp2", "resp3"] {
        let url = format!("redis://:p@{}/?protocol={version}", running.resp());
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut throttle = redis::cmd("CL.THROTTLE");
        throttle.arg(version).arg(15).arg(30).arg(60);
        let five: [i64; 5] = throttle.query_async(&mut connection).await.unwrap();
        assert_eq!(five, [0, 16, 15, -1, 2]);
        let mut pipeline = redis::pipe();
        for _ in 0..100 {
            pipeline.add_command(throttle.clone());
        }
        let answers: Vec<[i64; 5]> = pipeline.query_async(&mut connection).await.unwrap();
        assert_eq!(answers.iter().filter(|five| five[0] == 0).count(), 15);
    }
}
