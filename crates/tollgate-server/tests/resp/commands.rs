//! The commands besides `CL.THROTTLE`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{connect, secret, start, start_with};

#[tokio::test]
async fn commands_at_connect_are_answered() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    for (said, answer) in [
        ("PING", "+PONG\r\n"),
        ("ping there", "$5\r\nthere\r\n"),
        ("ECHO \"a\\x00\\n'\"", "$4\r\na\0\n'\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("SELECT 1", "-ERR DB index is out of range\r\n"),
        ("SELECT x", "-ERR value is not an integer or out of range\r\n"),
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK\r\n"),
        ("CLIENT SETINFO LIB-VER 8.1.0", "+OK\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
        (
            "CLIENT SETNAME 'a b'",
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
        ),
        ("CLIENT SETNAME worker", "+OK\r\n"),
        ("CLIENT GETNAME", "$6\r\nworker\r\n"),
        // The first client of this server.
        ("CLIENT ID", ":1\r\n"),
        ("CLIENT KILL x", "-ERR unknown subcommand: KILL\r\n"),
        ("COMMAND", "*0\r\n"),
        ("COMMAND DOCS", "*0\r\n"),
        ("COMMAND COUNT", ":32\r\n"),
        ("COMMAND COUNT x", "-ERR unknown subcommand: COUNT\r\n"),
        ("CONFIG GET save", "*0\r\n"),
        ("CONFIG SET save x", "-ERR unknown subcommand: SET\r\n"),
        ("DBSIZE", ":0\r\n"),
        (
            "AUTH x",
            "-ERR AUTH <password> called without any password configured for the default user. \
          Are you sure your configuration is correct?\r\n",
        ),
        ("KEYS *", "-ERR keys are not kept, only fingerprints of them\r\n"),
        ("SCAN 0", "-ERR keys are not kept, only fingerprints of them\r\n"),
        ("MULTI", "-ERR transactions are not supported: send commands without MULTI\r\n"),
        ("NOSUCH a b", "-ERR unknown command: NOSUCH\r\n"),
        ("ECHO", "-ERR wrong number of arguments for 'echo' command\r\n"),
        (
            "FLUSHALL",
            "-NOPERM this forgives all keys: it needs AUTH admin <password>, the admin password\r\n",
        ),
        ("RESET", "+RESET\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
    ] {
        client.hears(said, answer).await;
    }
    client.say("INFO\r\nCLIENT INFO\r\nTIME\r\nQUIT\r\n").await;
    let rest = client.rest().await;
    for part in ["loading:0", "redis_version:", " db=0 ", "resp=2\n", "*2\r\n$10\r\n", "+OK\r\n"] {
        assert!(rest.contains(part), "{part} in {rest}");
    }
}

#[tokio::test]
async fn hello_chooses_the_version_of_the_protocol() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    client.hears("HELLO 4", "-NOPROTO unsupported protocol version\r\n").await;
    client.hears("HELLO x", "-ERR Protocol version is not an integer or out of range\r\n").await;
    client.hears("HELLO 3 AUTH a", "-ERR Syntax error in HELLO option\r\n").await;
    let fields = |version, id| {
        format!(
            "$6\r\nserver\r\n$8\r\ntollgate\r\n$7\r\nversion\r\n$5\r\n{}\r\n$5\r\nproto\r\n:{version}\r\n\
             $2\r\nid\r\n:{id}\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
             $7\r\nmodules\r\n*0\r\n",
            env!("CARGO_PKG_VERSION")
        )
    };
    client.hears("HELLO 3 SETNAME me", &format!("%7\r\n{}", fields(3, 1))).await;
    client.hears("CLIENT GETNAME", "$2\r\nme\r\n").await;
    client.hears("GET none", "_\r\n").await;
    client.hears("COMMAND DOCS", "%0\r\n").await;
    client.hears("CONFIG GET x", "%0\r\n").await;
    client.throttles("k 15 30 60", [0, 16, 15, -1, 2]).await;
    client.hears("HELLO 2", &format!("*14\r\n{}", fields(2, 1))).await;
    client.hears("GET none", "$-1\r\n").await;
}

#[tokio::test]
async fn without_the_password_nothing_is_answered() {
    let running = start(|settings| settings.resp_password = secret("open sesame")).await;
    let mut client = connect(&running).await;
    let needed = "-NOAUTH Authentication required.\r\n";
    for said in ["PING", "CL.THROTTLE k 15 30 60", "TG.CHECK each k", "DEL k", "INFO", "NOSUCH"] {
        client.hears(said, needed).await;
    }
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    client.hears("AUTH x", wrong).await;
    client.hears("AUTH admin 'open sesame'", wrong).await;
    client.hears("HELLO 3 AUTH default x", wrong).await;
    client.say("HELLO 3\r\n").await;
    client
        .hears(
            "PING",
            "-NOAUTH HELLO must be called with the client already authenticated, otherwise the \
        HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
        protocol version at the same time\r\n-NOAUTH Authentication required.\r\n",
        )
        .await;
    client.hears("AUTH 'open sesame'", "+OK\r\n").await;
    client.throttles("k 15 30 60", [0, 16, 15, -1, 2]).await;
    client.hears("RESET", "+RESET\r\n").await;
    client.hears("PING", needed).await;
    client.say("HELLO 3 AUTH default 'open sesame'\r\nPING\r\nQUIT\r\n").await;
    assert!(client.rest().await.ends_with("+PONG\r\n+OK\r\n"));
}

#[tokio::test]
async fn only_an_admin_forgets_all_keys() {
    let running = start(|settings| settings.resp_admin_password = secret("root")).await;
    let mut client = connect(&running).await;
    client.throttles("a 0 1 60", [0, 1, 0, -1, 60]).await;
    client.throttles("b 0 1 60", [0, 1, 0, -1, 60]).await;
    client.hears("DBSIZE", ":2\r\n").await;
    client
        .hears(
            "FLUSHALL",
            "-NOPERM this forgives all keys: it needs AUTH admin <password>, the admin \
        password\r\n",
        )
        .await;
    client.hears("AUTH admin root", "+OK\r\n").await;
    client.hears("FLUSHALL NOW", "-ERR syntax error\r\n").await;
    client.hears("FLUSHALL ASYNC", "+OK\r\n").await;
    client.hears("DBSIZE", ":0\r\n").await;
    client.throttles("a 0 1 60", [0, 1, 0, -1, 60]).await;
}

#[tokio::test]
async fn a_key_is_there_until_its_tat() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    client.hears("TTL k", ":-2\r\n").await;
    client.hears("PTTL k", ":-2\r\n").await;
    client.hears("EXISTS k k", ":0\r\n").await;
    client.throttles("k 15 30 60 5", [0, 16, 11, -1, 10]).await;
    client.hears("TTL k", ":10\r\n").await;
    client.hears("EXISTS k other k", ":2\r\n").await;
    client.say("GET k\r\nPTTL k\r\nQUIT\r\n").await;
    let rest = client.rest().await;
    let lines: Vec<_> = rest.lines().collect();
    let tat = Duration::from_nanos(lines[1].parse().unwrap());
    let left = tat.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
    assert!(left > Duration::from_secs(8) && left < Duration::from_millis(10_100), "{left:?}");
    let milliseconds: u64 = lines[2][1..].parse().unwrap();
    assert!((8_000..=10_000).contains(&milliseconds), "{rest}");

    let mut client = connect(&running).await;
    client.hears("DEL other k", ":1\r\n").await;
    client.hears("UNLINK k", ":0\r\n").await;
    client.throttles("k 15 30 60", [0, 16, 15, -1, 2]).await;
    client.throttles("l 15 30 60", [0, 16, 15, -1, 2]).await;
    client.hears("UNLINK k other l", ":2\r\n").await;
    client.throttles("k 15 30 60", [0, 16, 15, -1, 2]).await;
}

#[tokio::test]
async fn a_key_is_forgotten_in_the_middle_of_a_pipeline() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    let said = "CL.THROTTLE k 0 1 60\r\n".repeat(2) + "DEL k\r\nCL.THROTTLE k 0 1 60";
    let (admitted, refused) =
        ("*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n", "*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n");
    client.hears(&said, &format!("{admitted}{refused}:1\r\n{admitted}")).await;
}

const RULES: &str = "version = 1
[[rule]]
name = 'each'
key = 'label.user'
limits = 'fixed-window:3/h'
[[rule]]
name = 'costly'
key = 'everyone'
cost = 2
limits = '10/h,burst=10'
[[rule]]
name = 'tried'
mode = 'shadow'
key = 'label.user'
limits = '1/h'
[[rule]]
name = 'off'
mode = 'off'
key = 'label.user'
limits = '1/h'
[[rule]]
name = 'failures'
key = 'label.user'
limits = '1/h'
charge_if.status = [401]
[[rule]]
name = 'banned'
key = 'label.user'
limits = '1/s'
ban = '1h'
[[rule]]
name = 'exports'
key = 'label.user'
limits = 'in-flight:2'
[[rule]]
name = 'queue'
key = 'label.user'
limits = 'leaky-bucket:1/h,capacity=5,queue'
max_wait = '1d'
[[rule]]
name = 'blocked'
key = 'label.user'
limits = 'block'
[[rule]]
name = 'free'
key = 'label.user'
limits = 'unlimited'
[[rule]]
name = 'keyed'
key = 'label.user'
missing = 'refuse'
limits = '1/h'

[[rule]]
name = 'pair'
key = ['client', 'path']
limits = '3/h'
";

#[tokio::test]
async fn the_rules_of_the_file_are_asked_by_name() {
    let running = start_with(RULES, |_| ()).await;
    let mut client = connect(&running).await;
    // Limited, limit, remaining, and the wait where it is certain.
    let most = i64::MAX;
    for (said, limited, limit, remaining) in [
        ("TG.PEEK each ada", 0, 3, 2),
        ("TG.CHECK each ada", 0, 3, 2),
        ("TG.CHECK each ada COST 0", 0, 3, 2),
        ("tg.check each ada cost 2", 0, 3, 0),
        ("TG.CHECK each ada", 1, 3, 0),
        ("TG.CHECK each ada COST 4", 1, 3, 0),
        ("TG.CHECK each bob", 0, 3, 2),
        ("TG.CHECK costly x", 0, 10, 8),
        ("TG.CHECK costly y COST 1", 0, 10, 7),
        ("TG.CHECK tried ada", 0, 1, 0),
        ("TG.CHECK tried ada", 0, 1, 0),
        ("TG.CHECK failures ada", 0, 1, 0),
        ("TG.CHECK failures ada", 0, 1, 0),
        ("TG.CHECK queue ada", 0, 5, 4),
        ("TG.CHECK queue ada", 1, 5, 0),
        ("TG.CHECK queue bob", 0, 5, 4),
        ("TG.CHECK blocked ada", 1, 0, 0),
        ("TG.CHECK free ada", 0, most, most),
        ("TG.CHECK keyed ada", 0, 1, 0),
        ("TG.CHECK keyed \"\"", 1, 0, 0),
        ("TG.CHECK pair 203.0.113.9 /Login/", 0, 3, 2),
        ("TG.CHECK pair ::ffff:203.0.113.9 /x/../login COST 2", 0, 3, 0),
        ("TG.CHECK pair 203.0.113.8 cost", 0, 3, 2),
    ] {
        client.say(format!("{said}\r\nPING\r\n")).await;
        let heard = client.until_pong().await;
        let numbers: Vec<i64> = heard
            .lines()
            .filter_map(|line| line.strip_prefix(':'))
            .map(|line| line.parse().unwrap())
            .collect();
        assert_eq!(numbers[..3], [limited, limit, remaining], "{said}: {heard}");
        assert_eq!(numbers.len(), 5, "{said}: {heard}");
    }
    client.throttled_within("TG.CHECK each ada", 1..=3600).await;
    client.hears("TG.CHECK banned eve", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n").await;
    client.throttled_within("TG.CHECK banned eve", 3599..=3600).await;

    for (said, error) in [
        ("TG.CHECK none k", "no such rule: none"),
        ("TG.CHECK off k", "no such rule: off"),
        ("TG.CHECK each", "wrong number of arguments for 'tg.check' command"),
        ("TG.CHECK each k COST x", "value is not an integer or out of range"),
        ("TG.CHECK each k COST -1", "value is not an integer or out of range"),
        ("TG.CHECK each k PRICE 1", "syntax error: write rule, key, and maybe COST and a number"),
        ("TG.CHECK each k 1", "syntax error: write rule, key, and maybe COST and a number"),
        (
            "TG.CHECK pair 203.0.113.9",
            "syntax error: write rule, a value for each of client, path, and maybe COST and a number",
        ),
        (
            "TG.CHECK pair 203.0.113.9:/login",
            "syntax error: write rule, a value for each of client, path, and maybe COST and a number",
        ),
        ("TG.CHECK pair ada /login", "\"ada\" is no IP address, which the rule's key is"),
        ("TG.CHECK exports k", "the rule limits requests in flight, which a Redis client cannot end"),
    ] {
        client.hears(said, &format!("-ERR {error}\r\n")).await;
    }
}
