//! Which master owns which slots, as one server sees it: the answer of `CLUSTER SLOTS`.

use redis::Value;

use super::slot::SLOTS;
use crate::Failed;

/// The host and the port of a server.
pub(crate) type Address = (String, u16);

/// The slots from the first number to the second, and their master.
pub(crate) type Range = (u16, u16, Address);

/// Reads the answer of a server whose host is `asked`: it may not know its own.
pub(crate) fn read(answer: &Value, asked: &str) -> Result<Vec<Range>, Failed> {
    let Value::Array(ranges) = answer else { return Err(Failed::answer("CLUSTER SLOTS answered no list")) };
    let ranges = ranges.iter().map(|range| {
        range_of(range, asked).ok_or_else(|| Failed::answer("CLUSTER SLOTS answered an unknown form"))
    });
    let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
    if ranges.is_empty() {
        return Err(Failed::no_master(0));
    }
    Ok(ranges)
}

fn range_of(range: &Value, asked: &str) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &parts[..] else { return None };
    let [host, Value::Int(port), ..] = &master[..] else { return None };
    let host = match host {
        Value::Nil => asked.to_owned(),
        Value::BulkString(host) => host_or(std::str::from_utf8(host).ok()?, asked),
        Value::SimpleString(host) => host_or(host, asked),
        _ => return None,
    };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    (first <= last && last < SLOTS).then_some((first, last, (host, u16::try_from(*port).ok()?)))
}

/// Reads the `host:port` of a redirection by the server `asked`.
pub(crate) fn address(text: &str, asked: &str) -> Option<Address> {
    // The host may be an IPv6 address.
    let (host, port) = text.rsplit_once(':')?;
    Some((host_or(host, asked), port.parse().ok()?))
}

fn host_or(host: &str, asked: &str) -> String {
    if matches!(host, "" | "?") { asked.to_owned() } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    fn read_text(text: &str) -> Result<Vec<Range>, Failed> {
        read(&parse_redis_value(text.replace(' ', "\r\n").as_bytes()).unwrap(), "asked")
    }

    #[test]
    fn the_masters_of_all_ranges_are_read() {
        let text = "*2 *4 :0 :99 *3 $3 a.b :1 $2 id *2 $1 c :2 *3 :100 :16383 *2 $-1 :3 ";
        let at = |host: &str, port| (host.to_owned(), port);
        assert_eq!(read_text(text), Ok(vec![(0, 99, at("a.b", 1)), (100, 16_383, at("asked", 3))]));
    }

    #[test]
    fn other_answers_are_failures() {
        for text in ["*0 ", ":1 ", "*1 *1 :0 ", "*1 *3 :0 :16384 *2 $1 a :1 ", "*1 *3 :9 :8 *2 $1 a :1 "] {
            assert!(read_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_redirection_names_an_address() {
        assert_eq!(address("10.0.0.1:6380", "asked"), Some(("10.0.0.1".to_owned(), 6_380)));
        assert_eq!(address(":6380", "asked"), Some(("asked".to_owned(), 6_380)));
        assert_eq!(address("::1:6380", "asked"), Some(("::1".to_owned(), 6_380)));
        assert_eq!(address("nonsense", "asked"), None);
    }
}
