//! Addresses that are right, texts that are none, and no password in either.

use super::*;

fn parsed(text: &str) -> StoreAddress {
    StoreAddress::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn an_address_says_what_is_connected_to() {
    let hosts = [
        ("redis://10.0.0.7", "10.0.0.7", 6379, false, 0),
        ("valkey://cache.test:7000/", "cache.test", 7000, false, 0),
        ("rediss://cache_1.test:06379/15", "cache_1.test", 6379, true, 15),
        ("valkeys://[2001:DB8::0:1]:1/4294967295?", "2001:db8::1", 1, true, u32::MAX),
    ];
    for (text, name, port, is_tls, database) in hosts {
        let address = parsed(text);
        assert_eq!(*address.place(), StorePlace::Host { name: name.into(), port }, "{text}");
        assert_eq!((address.is_tls(), address.database()), (is_tls, database), "{text}");
        assert_eq!((address.user(), address.password(), address.is_resp3()), (None, None, false), "{text}");
    }
    let socket = parsed("redis+unix:///run/a%20b?db=3&user=u&pass=p+%2B%26&protocol=resp3");
    assert_eq!(*socket.place(), StorePlace::Socket("/run/a b".into()));
    assert_eq!((socket.database(), socket.user(), socket.is_resp3()), (3, Some("u"), true));
    assert_eq!(socket.password().unwrap().reveal(), "p +&");
}

#[test]
fn users_and_passwords_are_decoded() {
    for (credentials, user, password) in [
        ("", None, None),
        ("u", Some("u"), None),
        ("u:", Some("u"), None),
        (":p", None, Some("p")),
        ("u:p:q@r", Some("u"), Some("p:q@r")),
        ("a%40b:%2f%3F%23%25%zz%4", Some("a@b"), Some("/?#%%zz%4")),
        ("u:\\|^<>\u{e9}%c3%a9", Some("u"), Some("\\|^<>\u{e9}\u{e9}")),
    ] {
        let address = parsed(&format!("redis://{credentials}@h"));
        assert_eq!(address.user(), user, "{credentials}");
        assert_eq!(address.password().map(Secret::reveal), password, "{credentials}");
    }
}

#[test]
fn what_no_client_would_do_is_an_error() {
    use AddressError::*;
    for (text, error) in [
        ("", NoScheme),
        ("redis:h", NoScheme),
        ("http://h", Scheme),
        ("REDIS://h", Scheme),
        ("redis://u:p q@h", Blank),
        ("redis://h\n", Blank),
        ("redis://u:p#q@h", Unencoded),
        ("redis://u:p?q@h", Unencoded),
        ("redis://u:p/q@h", Unencoded),
        ("redis://", NoHost),
        ("redis://:6379", NoHost),
        ("redis://u:p@", NoHost),
        ("redis://[zz]", Host),
        ("redis://[::1", Host),
        ("redis://[::1]6379", Host),
        ("redis://h|x", Host),
        ("redis://h\\x", Host),
        ("redis://\u{e9}.test", Host),
        ("redis://a%2eb", Host),
        ("redis://0.0.0.0", Wildcard),
        ("redis://[::]:1", Wildcard),
        ("redis://[0::0]", Wildcard),
        ("redis://h:", Port),
        ("redis://h:0", Port),
        ("redis://h:+6379", Port),
        ("redis://h:65536", Port),
        ("redis://h:1:2", Port),
        ("redis://app:hunter2#x", Fragment),
        ("redis://h/a", Database),
        ("redis://h/+1", Database),
        ("redis://h/-1", Database),
        ("redis://h/0/", Database),
        ("redis://h//", Database),
        ("redis://h/4294967296", Database),
        ("redis://:%ff@h", Encoding),
        ("redis://h?password=p", Parameter),
        ("redis://h?Protocol=3", Parameter),
        ("redis://h?protocol=resp9", Protocol),
        ("redis://h?protocol", Protocol),
        ("rediss://h#insecure", Fragment),
        ("redis://h/#", Fragment),
        ("unix://", NoPath),
        ("unix:///", NoPath),
        ("unix://run/socket", NoPath),
        ("unix:///a%00", NoPath),
        ("unix:///a#b", Fragment),
        ("unix:///a?db=x", Database),
    ] {
        assert_eq!(StoreAddress::parse(text), Err(error), "{text}");
    }
    assert_eq!(StoreAddress::parse(&format!("redis://{}", "h".repeat(254))), Err(Host));
}

#[test]
fn one_place_displays_alike_however_it_is_written() {
    for (texts, shown) in [
        (&["redis://h", "valkey://h:6379/", "redis://u:p@h:06379/0?protocol=3"][..], "redis://h"),
        (&["redis://[::1]:6380/2", "redis://:p@[0:0::1]:6380/2"], "redis://[::1]:6380/2"),
        (&["rediss://h/1", "valkeys://u@h/01"], "rediss://h/1"),
        (&["unix:///s?db=1", "redis+unix:///%73?pass=p&db=1"], "redis+unix:///s?db=1"),
    ] {
        for text in texts {
            assert_eq!(parsed(text).to_string(), shown, "{text}");
            assert_eq!(parsed(shown).to_string(), shown);
        }
    }
}

/// Four characters would help to guess the rest.
#[test]
fn neither_an_address_nor_its_error_tells_a_password() {
    for password in
        ["hunter2x", "hunter2#x", "hunter2?x", "hunter2/x", "hunter2@x", "hunter2:x", "hunter2%23"]
    {
        for text in [
            format!("redis://app:{password}@127.0.0.1:7000"),
            format!("redis://{password}@127.0.0.1:7000"),
            format!("redis://app:{password}"),
            format!("redis://127.0.0.1/{password}"),
            format!("rediss://:{password}@127.0.0.1:7000/{password}"),
            format!("redis+unix:///run/s?pass={password}"),
            format!("redis:app:{password}@127.0.0.1"),
            password.to_owned(),
        ] {
            let said = match StoreAddress::parse(&text) {
                Ok(address) => format!("{address} {address:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            let part = (0..=3).map(|at| &"hunter2"[at..at + 4]).find(|part| said.contains(part));
            assert_eq!(part, None, "{text}: {said}");
        }
    }
}
