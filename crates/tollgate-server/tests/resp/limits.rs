//! What a client may use, and what happens beyond it.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use tollgate_testing::wait::LONG;

use super::alone::is_alone;
use super::{Client, Running, connect, secret, start, start_with};

/// The error with which the connection ends.
async fn ends_with(running: &Running, said: impl AsRef<[u8]>, error: &str) {
    let mut client = connect(running).await;
    client.say("PING\r\n").await;
    client.say(&said).await;
    let said = String::from_utf8_lossy(&said.as_ref()[..said.as_ref().len().min(40)]).into_owned();
    assert_eq!(client.rest().await, format!("+PONG\r\n-ERR Protocol error: {error}\r\n"), "{said:?}");
}

#[tokio::test]
async fn bytes_that_are_no_command_end_the_connection() {
    let running = start(|_| ()).await;
    for (said, error) in [
        ("*1025\r\n", "invalid multibulk length"),
        ("*18446744073709551617\r\n", "invalid multibulk length"),
        ("*x\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*00000000000000000000000000000001\r\n", "invalid multibulk length"),
        ("*1\r\n$65537\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
        ("*1\r\nPING\r\n", "expected '$', got 'P'"),
        ("*1\r\n\r\n", "expected '$', got byte 13"),
        ("*1\r\n$4\r\nPINGxx", "expected CRLF"),
        ("ECHO \"a\r\n", "unbalanced quotes in request"),
        ("ECHO 'a'b\r\n", "unbalanced quotes in request"),
        ("POST / HTTP/1.1\r\nHost: x\r\n", "this is no HTTP server"),
        ("host: x\r\nCL.THROTTLE k 0 1 60\r\n", "this is no HTTP server"),
    ] {
        ends_with(&running, said, error).await;
    }
    let mut client = connect(&running).await;
    client.hears("EXISTS k", ":0\r\n").await;
}

#[tokio::test]
async fn commands_are_limited_in_all_their_lengths() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    let bulk = "x".repeat(64 << 10);
    let echo = |bulk: &str| format!("*2\r\n$4\r\nECHO\r\n${}\r\n{bulk}\r\n", bulk.len());
    client.say(echo(&bulk)).await;
    client.hears("PING", &format!("$65536\r\n{bulk}\r\n+PONG\r\n")).await;
    ends_with(&running, echo(&(bulk.clone() + "x")), "invalid bulk length").await;

    let words = |words: usize| format!("EXISTS{}\r\n", " k".repeat(words));
    client.say(words(1023)).await;
    client.hears("PING", ":0\r\n+PONG\r\n").await;
    ends_with(&running, words(1024), "invalid multibulk length").await;
    ends_with(&running, "x".repeat((64 << 10) + 1), "too big inline request").await;
    ends_with(&running, "x".repeat((64 << 10) + 1) + "\r\n", "too big inline request").await;

    // Each argument is small enough, but not all together.
    let argument = format!("$65536\r\n{bulk}\r\n");
    ends_with(&running, "*1000\r\n".to_owned() + &argument.repeat(17), "too big request").await;
}

#[tokio::test]
async fn a_stranger_may_send_little_before_it_authenticates() {
    let running = start(|settings| settings.resp_password = super::secret("p")).await;
    for (said, error) in
        [("*11\r\n", "invalid multibulk length"), ("*2\r\n$4\r\nAUTH\r\n$16385\r\n", "invalid bulk length")]
    {
        let mut client = connect(&running).await;
        client.say(said).await;
        assert_eq!(client.rest().await, format!("-ERR Protocol error: {error}\r\n"), "{said}");
    }
}

#[tokio::test]
async fn an_empty_command_is_no_command() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    client.hears("\r\n*0\r\n*-1\r\n\n  \r\nPING", "+PONG\r\n").await;
}

#[tokio::test]
async fn a_slow_command_is_closed_and_an_idle_client_not() {
    let timeout = Duration::from_millis(300);
    let running = start(|settings| settings.limits.read_timeout = timeout).await;
    let mut idle = connect(&running).await;
    idle.hears("PING", "+PONG\r\n").await;

    let begun = Instant::now();
    let mut slow = connect(&running).await;
    slow.say("*1\r\n$4\r\nP").await;
    // A byte now and then does not help.
    let rest = tokio::spawn(async move {
        for byte in "ING".bytes() {
            tokio::time::sleep(Duration::from_millis(140)).await;
            let _ = slow.stream.write_all(&[byte]).await;
        }
        let mut heard = Vec::new();
        let _ = slow.stream.read_to_end(&mut heard).await;
        heard
    });
    let heard = tokio::time::timeout(LONG, rest).await.expect("it is closed");
    assert_eq!(heard.unwrap(), b"");
    assert!(begun.elapsed() >= timeout && begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());

    // Whole commands before it do not make a part of one older.
    let mut steady = connect(&running).await;
    for _ in 0..8 {
        steady.say("PING\r\nPI").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        steady.say("NG\r\n").await;
    }
    steady.hears("QUIT", &("+PONG\r\n".repeat(16) + "+OK\r\n")).await;
    idle.hears("PING", "+PONG\r\n").await;
}

#[tokio::test]
async fn strangers_keep_nobody_who_knows_the_password_out() {
    let running = start(|settings| {
        settings.resp_password = secret("p");
        settings.limits.read_timeout = Duration::from_millis(300);
        settings.limits.connections = 4;
    })
    .await;
    let mut owner = connect(&running).await;
    owner.hears("AUTH p", "+OK\r\n").await;
    // One says nothing, one says much, and one is a stranger again.
    let (mut silent, mut busy, mut again) =
        (connect(&running).await, connect(&running).await, connect(&running).await);
    again.hears("AUTH p", "+OK\r\n").await;
    again.hears("RESET", "+RESET\r\n").await;
    let says = async {
        while busy.stream.write_all(b"PING\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, says).await.expect("it is closed");
    assert_eq!(silent.rest().await, "");
    assert_eq!(again.rest().await, "");
    for _ in 0..3 {
        connect(&running).await.hears("AUTH p", "+OK\r\n").await;
    }
    owner.hears("PING", "+PONG\r\n").await;
}

/// It is read on, so that it hears why.
#[tokio::test]
async fn a_client_that_was_cut_off_keeps_no_place() {
    let running = start(|settings| settings.limits.connections = 1).await;
    let mut cut_off = connect(&running).await;
    cut_off.say("*x\r\n").await;
    assert!(cut_off.rest().await.starts_with("-ERR Protocol error"));
    cut_off.say("more").await;
    connect(&running).await.hears("PING", "+PONG\r\n").await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_told_so() {
    let running = start(|settings| settings.limits.client_connections = Some(2)).await;
    let (mut one, mut two) = (connect(&running).await, connect(&running).await);
    one.hears("PING", "+PONG\r\n").await;
    two.hears("PING", "+PONG\r\n").await;
    for _ in 0..50 {
        let mut third = connect(&running).await;
        assert_eq!(third.rest().await, "-ERR max number of clients reached\r\n");
    }
    drop(two);
    tokio::time::sleep(Duration::from_millis(700)).await;
    connect(&running).await.hears("PING", "+PONG\r\n").await;
    one.hears("PING", "+PONG\r\n").await;
}

#[tokio::test]
async fn many_pipelined_commands_are_answered_in_order() {
    let running = start(|_| ()).await;
    let client = connect(&running).await;
    let (mut read, mut write) = client.stream.into_split();
    let said: String = (0..20_000).map(|number| format!("ECHO {number}\r\n")).collect();
    let writer = tokio::spawn(async move { write.write_all(said.as_bytes()).await.map(|()| write) });
    let answers: String =
        (0..20_000).map(|number| format!("${}\r\n{number}\r\n", number.to_string().len())).collect();
    let mut heard = vec![0; answers.len()];
    read.read_exact(&mut heard).await.unwrap();
    writer.await.unwrap().unwrap();
    assert!(heard == answers.as_bytes());
}

/// The resident memory of this process, which is the server's, too.
pub(crate) fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Says a command again and again, and reads nothing, until neither the server nor the operating
/// system takes more.
async fn say_until_stuck(client: &mut Client, command: &str) {
    let commands = command.repeat(60_000 / command.len());
    let mut said = 0;
    while let Ok(written) =
        tokio::time::timeout(Duration::from_millis(500), client.stream.write_all(commands.as_bytes())).await
    {
        written.unwrap();
        said += commands.len();
        assert!(said < 64 << 20, "the server reads what it cannot answer");
    }
}

/// Clients that never read: the server stops reading and keeps little of them. Answers of any size
/// may fill a connection: many small ones, or one that is larger than what is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_reads_is_closed() {
    if !is_alone("limits::a_client_that_never_reads_is_closed") {
        return;
    }
    let running = start(|_| ()).await;
    let mut clients = [connect(&running).await, connect(&running).await];
    let before = resident();
    let bulk = "x".repeat(59_000);
    let commands = [format!("*2\r\n$4\r\nECHO\r\n$59000\r\n{bulk}\r\n"), "PING\r\n".to_owned()];
    for (client, command) in clients.iter_mut().zip(&commands) {
        say_until_stuck(client, command).await;
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 24 << 20, "{grown} bytes for two clients");
    // They are closed some 30 seconds later, though they send on.
    let begun = Instant::now();
    for client in &mut clients {
        loop {
            match tokio::time::timeout(Duration::from_secs(1), client.stream.write_all(b"PING\r\n")).await {
                Ok(Err(_)) => break,
                _ => assert!(begun.elapsed() < Duration::from_secs(40), "it is not closed"),
            }
        }
    }
    assert!(begun.elapsed() > Duration::from_secs(20), "{:?}", begun.elapsed());
    connect(&running).await.hears("PING", "+PONG\r\n").await;
}

/// Many clients that declare much and send little.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_half_commands_takes_little_memory() {
    if !is_alone("limits::a_flood_of_half_commands_takes_little_memory") {
        return;
    }
    let running = start(|_| ()).await;
    let before = resident();
    let mut clients = Vec::new();
    for _ in 0..400 {
        let mut client = connect(&running).await;
        client.say("PING\r\n*1024\r\n$65536\r\nabc").await;
        clients.push(client);
    }
    for client in &mut clients {
        let mut pong = [0; 7];
        client.stream.read_exact(&mut pong).await.unwrap();
    }
    let grown = resident().saturating_sub(before);
    // Two small buffers, a task, and the client's side.
    assert!(grown < 400 * 40_000, "{grown} bytes for 400 connections");
    let mut other: Client = connect(&running).await;
    other.hears("PING", "+PONG\r\n").await;
}

/// On one thread: a client that always has more to say gets its turns, and no more.
#[tokio::test]
async fn a_pipeline_without_end_leaves_others_their_turns() {
    let running = start(|settings| settings.threads = NonZeroUsize::MIN).await;
    let (mut read, mut write) = connect(&running).await.stream.into_split();
    let flood = tokio::spawn(async move {
        let commands = "CL.THROTTLE k 5 1 60\r\n".repeat(4_000);
        while write.write_all(commands.as_bytes()).await.is_ok() {}
    });
    let counted = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let heard = std::sync::Arc::clone(&counted);
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(bytes @ 1..) = read.read(&mut buffer).await {
            heard.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let mut other = connect(&running).await;
    for _ in 0..200 {
        other.hears("PING", "+PONG\r\n").await;
    }
    let answered = counted.load(std::sync::atomic::Ordering::Relaxed);
    assert!(answered > 200 * 1024, "the pipeline was answered meanwhile: {answered} bytes");
    flood.abort();
    reading.abort();
}

/// Clients that have asked the rules and say nothing more, while the rules change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_keep_no_rules_of_before_a_reload() {
    let reloads = std::env::var("TOLLGATE_RELOADS").ok().and_then(|text| text.parse().ok());
    let reloads: usize = reloads.unwrap_or(250);
    if !is_alone("limits::idle_connections_keep_no_rules_of_before_a_reload") {
        return;
    }
    let text = |number: usize| {
        // Each has a table of its own: it is no new name of the rule before.
        format!("version = 1\n[[rule]]\nname = 'r{number}'\nkey = 'client'\nlimits = '{}/d'\n", 10 + number)
    };
    let running = start_with(&text(0), |settings| settings.http.push("127.0.0.1:0".parse().unwrap())).await;
    let (http, redis) = (running.http(), running.resp());
    let (mut idle, mut first) = (Vec::new(), 0);
    for number in 0..reloads {
        let keys: String = (0..64).map(|key| format!("TG.CHECK r{number} 10.0.0.{key}\r\n")).collect();
        let mut client = Client { stream: tokio::net::TcpStream::connect(redis).await.unwrap() };
        client.say(keys + "PING\r\n").await;
        assert!(!client.until_pong().await.contains("-ERR"), "all are keys of the rule");
        let mut other = tokio::net::TcpStream::connect(http).await.unwrap();
        let ask = "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 21\r\n\r\n{\"client\":\"10.0.0.1\"}";
        other.write_all(ask.as_bytes()).await.unwrap();
        assert!(other.read(&mut [0; 4096]).await.unwrap() > 0);
        if number < 200 {
            idle.push((client, other));
        }
        std::fs::write(running.rules(), text(number + 1)).unwrap();
        let server = &running.server;
        tokio::task::block_in_place(|| server.reload().unwrap());
        if number == reloads / 2 {
            first = resident();
        }
    }
    let grown = resident().saturating_sub(first);
    println!("{grown} bytes more after {reloads} reloads, {first} after half of them");
    assert!(grown < 8 << 20, "{grown} bytes more, {first} before");
    for (client, _) in &mut idle {
        client.hears("PING", "+PONG\r\n").await;
    }
}

#[tokio::test]
async fn the_end_of_the_server_answers_what_was_said() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    client.hears("PING", "+PONG\r\n").await;
    client.say("ECHO a\r\nECH").await;
    let mut heard = [0; 7];
    client.stream.read_exact(&mut heard).await.unwrap();
    let begun = Instant::now();
    running.server.end().await.unwrap();
    assert_eq!(client.rest().await, "");
    assert!(begun.elapsed() < Duration::from_secs(5));
}
