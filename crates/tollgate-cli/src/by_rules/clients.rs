//! The clients of a log: numbers, addresses, texts.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use tollgate_logs::KeyWriter;

/// The clients of a log, each looked up once a record.
///
/// Rules know clients by address only, and a log may have host names in their place: two names are
/// two clients. Names get addresses in 0200::/7, which is assigned to no network (RFC 4048). They
/// differ in their first 40 bits, so that they stay different clients under an `ipv6_prefix` of 40
/// or more.
#[derive(Debug)]
pub(crate) struct Clients {
    writer: KeyWriter,
    /// By the text in the log.
    known: HashMap<Box<[u8]>, Client, ahash::RandomState>,
    /// The numbers by the client's own text: that of a network for IPv6.
    numbers: HashMap<Box<[u8]>, u32, ahash::RandomState>,
    /// By number, the client's own text.
    texts: Vec<Box<[u8]>>,
    host_names: Vec<Box<[u8]>>,
}

/// A client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// Counted from 0. The addresses of a network that is one client have one number.
    pub(crate) number: usize,
}

const FIRST: u128 = 0x0200 << 112;
const SHIFT: u32 = 88;

impl Clients {
    pub(super) fn new(writer: KeyWriter) -> Self {
        let (known, numbers) = Default::default();
        Self { writer, known, numbers, texts: Vec::new(), host_names: Vec::new() }
    }

    /// The client that a record names; `None` for an empty text.
    #[inline]
    pub(super) fn client(&mut self, text: &[u8]) -> Option<Client> {
        match self.known.get(text) {
            Some(client) => Some(*client),
            None if text.is_empty() => None,
            None => Some(self.add(text)),
        }
    }

    #[cold]
    fn add(&mut self, text: &[u8]) -> Client {
        let address = std::str::from_utf8(text).ok().and_then(|text| text.parse::<IpAddr>().ok());
        let address = address.unwrap_or_else(|| {
            let number = self.host_names.len() as u128;
            self.host_names.push(text.into());
            IpAddr::V6(Ipv6Addr::from_bits(FIRST | number << SHIFT))
        });
        let mut own = Vec::new();
        self.writer.write(&mut own, text, b"");
        let number = match self.numbers.get(&own[..]) {
            Some(&number) => number,
            None => {
                let number = self.texts.len() as u32;
                self.texts.push(own.clone().into());
                self.numbers.insert(own.into(), number);
                number
            }
        };
        let client = Client { address, number: number as usize };
        self.known.insert(text.into(), client);
        client
    }

    /// The text of the client with this number.
    pub(crate) fn text(&self, number: usize) -> &[u8] {
        self.texts.get(number).map_or(b"", |text| text)
    }

    /// The host name with this address, which may lack its last bits.
    pub(super) fn host_name(&self, address: Ipv6Addr) -> Option<&[u8]> {
        let bits = address.to_bits();
        let number = usize::try_from((bits ^ FIRST) >> SHIFT).ok()?;
        let name = self.host_names.get(number)?;
        (bits == FIRST | (number as u128) << SHIFT).then_some(name)
    }

    /// How many clients are host names.
    pub(crate) fn host_names(&self) -> usize {
        self.host_names.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_logs::{KeyBy, PrefixLen};

    #[test]
    fn each_name_is_one_client_and_addresses_are_themselves() {
        let mut clients = Clients::new(KeyWriter { by: KeyBy::Client, ipv6_prefix: PrefixLen::default() });
        let mut client = |text: &str| clients.client(text.as_bytes());
        assert_eq!(client("192.0.2.7"), Some(Client { address: [192, 0, 2, 7].into(), number: 0 }));
        assert_eq!(client(""), None);
        let [one, other] = ["a.example", "b.example"].map(|name| client(name).expect("it is a client"));
        assert_eq!((one.number, other.number, client("a.example")), (1, 2, Some(one)));
        let [near, same] = ["2001:db8::1", "2001:db8::2"].map(|address| client(address).expect("it is one"));
        assert_eq!((near.number, same.number), (3, 3), "one network is one client");
        let IpAddr::V6(other) = other.address else { panic!("names have IPv6 addresses") };
        assert_eq!(clients.host_name(other), Some(&b"b.example"[..]));
        assert_eq!(clients.host_name("2001:db8::".parse().unwrap()), None);
        assert_eq!(clients.host_name(Ipv6Addr::from_bits(FIRST | 2 << SHIFT)), None, "no such name yet");
        assert_eq!((other.to_bits() & !(u128::MAX << SHIFT), clients.host_names()), (0, 2), "40 bits differ");
        assert_eq!([clients.text(3), clients.text(9)], [&b"2001:db8::/64"[..], b""]);
    }
}
