//! The keys of rules as texts.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use tollgate_rules::{Attribute, Key, Rule};

use super::clients::Clients;

/// A rule's key as a text for people: its parts with commas between them.
///
/// Of one part, a key is the part's bytes; of several, each stands after its length in 16 bits. An
/// empty key is that of all requests, or of those that lack a part.
pub(crate) fn key_text(rule: &Rule, ipv6_prefix: u8, key: &[u8], clients: &Clients) -> String {
    let attributes: &[Attribute] = match &rule.key {
        Key::Everyone => return "everyone".to_owned(),
        Key::Attributes(attributes) => attributes,
    };
    if key.is_empty() {
        return "(without a key)".to_owned();
    }
    let mut text = String::new();
    let mut rest = key;
    for attribute in attributes {
        let part = match attributes {
            [_] => rest,
            _ => {
                let Some((length, after)) = rest.split_first_chunk::<2>() else { break };
                let length = usize::from(u16::from_be_bytes(*length)).min(after.len());
                let (part, after) = after.split_at(length);
                rest = after;
                part
            }
        };
        if !text.is_empty() {
            text.push_str(", ");
        }
        match attribute {
            Attribute::Client => push_client(part, ipv6_prefix, clients, &mut text),
            _ => text.push_str(&String::from_utf8_lossy(part)),
        }
    }
    text
}

/// Appends a client: a byte for the kind of the address, and the bytes of the address or of its
/// network.
fn push_client(part: &[u8], ipv6_prefix: u8, clients: &Clients, text: &mut String) {
    let written = match part {
        [4, address @ ..] => match <[u8; 4]>::try_from(address) {
            Ok(octets) => write!(text, "{}", Ipv4Addr::from(octets)),
            Err(_) => write!(text, "{}", part.escape_ascii()),
        },
        [6, address @ ..] => {
            let mut octets = [0; 16];
            let known = address.len().min(16);
            octets[..known].copy_from_slice(&address[..known]);
            let address = Ipv6Addr::from(octets);
            match clients.host_name(address) {
                Some(name) => write!(text, "{}", String::from_utf8_lossy(name)),
                None if ipv6_prefix == 128 => write!(text, "{address}"),
                None => write!(text, "{address}/{ipv6_prefix}"),
            }
        }
        _ => write!(text, "{}", part.escape_ascii()),
    };
    written.expect("writing to a text does not fail");
}

#[cfg(test)]
mod tests {
    use tollgate_rules::{Found, Matcher, PlainRequest, Rules, Why};
    use tollgate_rules_file::{Memory, read};

    use super::*;
    use tollgate_logs::{KeyBy, KeyWriter, PrefixLen};

    fn none() -> Clients {
        Clients::new(KeyWriter { by: KeyBy::Client, ipv6_prefix: PrefixLen::default() })
    }

    fn rules(keys: &str) -> Rules {
        let text = format!(
            "version = 1\nclients.ipv6_prefix = 48\n[[rule]]\nname = 'r'\nmatch.path = ['/users/{{id}}', '/**']\n\
             key = {keys}\nlimits = '1/s'\n"
        );
        read("rules.toml", &Memory::new("rules.toml", text)).into_rules().expect("the rules are right")
    }

    /// The key's text, and the parts that the matcher tells people.
    fn texts(keys: &str, request: &PlainRequest) -> (String, String) {
        let rules = rules(keys);
        let matcher = Matcher::new(&rules).expect("the rules are right");
        let mut found = Found::default();
        matcher.find(request, &mut found);
        let key = found.key(&found.concerned()[0]).to_owned();
        let Why::Concerns { key: parts, .. } = &matcher.explain(request)[0].why else { panic!("it does") };
        let parts: Vec<&str> = parts.iter().map(|part| part.value.as_deref().unwrap_or("?")).collect();
        (key_text(&rules.rules[0], 48, &key, &none()), parts.join(", "))
    }

    #[test]
    fn a_key_reads_as_the_matcher_explains_it() {
        let request = |client: &str| PlainRequest {
            method: Some("GET".into()),
            host: Some("Example.com".into()),
            target: Some("/Users/Ann?q=a%20b".into()),
            client: Some(client.parse().expect("an address")),
            headers: vec![("x-k".into(), "v, w".into()), ("cookie".into(), "s=1".into())],
            labels: vec![("user".into(), vec![b'u'; 300])],
            ..PlainRequest::default()
        };
        for client in ["203.0.113.9", "2001:db8:1:2::3", "::ffff:203.0.113.9"] {
            for keys in [
                "'client'",
                "['client', 'label.user']",
                "['label.user', 'client', 'method']",
                "['host', 'path', 'path.id', 'route']",
                "['header.x-k', 'cookie.s', 'query.q']",
                "'path.id'",
            ] {
                let (text, explained) = texts(keys, &request(client));
                assert_eq!(text, explained, "{keys} of {client}");
            }
        }
    }

    #[test]
    fn keys_without_parts_are_named() {
        let request = PlainRequest { target: Some("/a".into()), ..PlainRequest::default() };
        assert_eq!(texts("'everyone'", &request).0, "everyone");
        assert_eq!(texts("['client', 'route']", &request).0, "(without a key)");
    }

    #[test]
    fn bytes_that_are_no_key_do_no_harm() {
        let rules = rules("['client', 'host']");
        for key in [&[0][..], &[0, 9, 4, 1], &[255, 255, 6, 1, 2, 3], &[0, 0, 0], &[0, 1, 7, 0, 1, 200]] {
            key_text(&rules.rules[0], 48, key, &none());
        }
    }
}
