//! `CL.THROTTLE` as redis-cell answers it.

use std::time::Duration;

use super::{connect, start};

#[tokio::test]
async fn cl_throttle_counts_as_in_redis_cells_readme() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    client.throttles("u 15 30 60", [0, 16, 15, -1, 2]).await;
    client.throttles("u 15 30 60", [0, 16, 14, -1, 4]).await;

    client.throttles("b 0 1 2", [0, 1, 0, -1, 2]).await;
    client.throttles("b 0 1 2", [1, 1, 0, 2, 2]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    client.throttles("b 0 1 2", [0, 1, 0, -1, 2]).await;
}

#[tokio::test]
async fn a_quantity_looks_is_never_admitted_or_fits_exactly() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    client.throttles("k 15 30 60 0", [0, 16, 16, -1, 0]).await;
    client.throttles("k 15 30 60 17", [1, 16, 16, -1, 0]).await;
    client.throttles("k 15 30 60 16", [0, 16, 0, -1, 32]).await;
    client.throttles("k 15 30 60 1", [1, 16, 0, 2, 32]).await;
    client.throttles("k 15 30 60 0", [0, 16, 0, -1, 32]).await;
    client.throttles("k 15 30 60 17", [1, 16, 0, -1, 32]).await;
}

#[tokio::test]
async fn wrong_arguments_are_told_as_redis_cell_tells_them() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    let usage = "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]";
    for (arguments, error) in [
        ("a 15 0 60", "Zero rates are not supported"),
        ("a 15 30 0", "Zero rates are not supported"),
        ("a 15 2000000000 1", "Zero rates are not supported"),
        ("a x 1 1", "Couldn't parse as integer: x"),
        ("a 1 5.0 1", "Couldn't parse as integer: 5.0"),
        ("a 1 1 \" 5\"", "Couldn't parse as integer:  5"),
        ("a 1 1 1 \"\"", "Couldn't parse as integer: "),
        ("a 9223372036854775808 1 1", "Couldn't parse as integer: 9223372036854775808"),
        ("a 1 1", usage),
        ("a 1 1 1 1 1", usage),
        ("", usage),
    ] {
        let said = format!("cl.throttle {arguments}");
        client.hears(&said, &format!("-Cell error: Store error: {error}\r\n")).await;
    }
    client.throttles("a +5 +1 1", [0, 6, 5, -1, 1]).await;
}

#[tokio::test]
async fn negative_counts_and_bursts_refuse_for_good() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    client.throttles("a 15 -30 60", [1, 16, 0, -1, 0]).await;
    client.throttles("a 15 30 -60", [1, 16, 0, -1, 0]).await;
    client.throttles("a -5 30 60", [1, -4, 0, -1, 0]).await;
    client.throttles("a -1 30 60", [1, 0, 0, -1, 0]).await;
    client.throttles("a -1 30 60 0", [0, 0, 0, -1, 0]).await;
    // Both are below zero: the products are not.
    client.throttles("a -17 -30 60 -1", [0, -16, -15, -1, 2]).await;
}

#[tokio::test]
async fn a_negative_quantity_gives_back_down_to_nothing() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    client.throttles("a 15 1 3600 4", [0, 16, 12, -1, 14400]).await;
    client.throttles("a 15 1 3600 -1", [0, 16, 13, -1, 10800]).await;
    // The TAT would be before now: five integers, and the key has no debt.
    client.throttles("a 15 1 3600 -5", [0, 16, 18, -1, -7200]).await;
    client.hears("EXISTS a", ":0\r\n").await;
    client.throttles("a 15 1 3600 0", [0, 16, 16, -1, 0]).await;
    client.throttles("a 15 1 3600 16", [0, 16, 0, -1, 57600]).await;
    // Refused by another quota: it gives back nothing.
    client.throttles("a 0 1 3600 -1", [1, 1, 0, 50400, 57600]).await;
    client.throttles("a 15 1 3600 0", [0, 16, 0, -1, 57600]).await;
}

#[tokio::test]
async fn rates_above_a_million_a_second_have_odd_remainders() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    client.throttles("a 99999999 2000000 1", [0, 100_000_000, i64::MAX, -1, 0]).await;
    client.throttles("b 0 2000000 1 0", [0, 1, 0, -1, 0]).await;
}

#[tokio::test]
async fn numbers_beyond_64_bits_are_errors_that_charge_nothing() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    for arguments in [
        "9223372036854775807 1 1",
        "9223372036854775806 1 1",
        "9223372036 1 1",
        "1 1 1 9223372037",
        "1 1 9223372037 1",
        "-9223372036854775808 -1 9223372036854775807 1",
        // Within 64 bits, but not within the word of a key.
        "0 1 9000000000",
    ] {
        client.hears(&format!("CL.THROTTLE a {arguments}"), "-ERR value is out of range\r\n").await;
    }
    client.hears("EXISTS a", ":0\r\n").await;
}

#[tokio::test]
async fn numbers_that_are_no_utf8_are_errors_that_charge_nothing() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    for arguments in ["\"\\xff\" 1 60", "1 \"1\\xff\" 60", "1 1 \"\\xc3\"", "1 1 60 \"\\xff1\""] {
        client.say(format!("CL.THROTTLE a {arguments}\r\n")).await;
    }
    client.say("EXISTS a\r\nQUIT\r\n").await;
    let error = "-Cell error: Store error: Couldn't parse as integer: ";
    let answers = ["\u{fffd}", "1\u{fffd}", "\u{fffd}", "\u{fffd}1"].map(|text| format!("{error}{text}\r\n"));
    assert_eq!(client.rest().await, answers.concat() + ":0\r\n+OK\r\n");
}

#[tokio::test]
async fn a_full_table_is_an_error_and_no_refusal() {
    let running = start(|settings| settings.resp_max_keys = 1).await;
    let mut client = connect(&running).await;
    let mut heard = String::new();
    for key in 0..2_000 {
        client.say(format!("CL.THROTTLE {key} 0 1 3600\r\n")).await;
    }
    client.say("QUIT\r\n").await;
    heard.push_str(&client.rest().await);
    let refused = heard.matches("*5\r\n:1\r\n").count();
    let full = heard.lines().filter(|line| line.starts_with("-OOM tollgate: ")).count();
    assert!(heard.contains(" keys owe something (--resp-max-keys)\r\n"), "{heard}");
    assert_eq!((refused, full, heard.matches("*5\r\n:0\r\n").count()), (0, 1_999, 1));
}

#[tokio::test]
async fn keys_are_any_bytes() {
    let running = start(|_| ()).await;
    let mut client = connect(&running).await;
    let call = |key: &[u8]| {
        let head = format!("*5\r\n$11\r\nCL.THROTTLE\r\n${}\r\n", key.len());
        [head.as_bytes(), key, b"\r\n$1\r\n0\r\n$1\r\n1\r\n$2\r\n60\r\n"].concat()
    };
    for key in [&b"\xff\xfe"[..], b"", b"\r\n", b"\0"] {
        client.say(call(key)).await;
        client.hears("PING", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n+PONG\r\n").await;
    }
}
