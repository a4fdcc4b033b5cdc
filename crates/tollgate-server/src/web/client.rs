//! The address of a client, as text.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// How many characters of other text an error shows.
const SHOWN: usize = 64;

/// The address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client(pub(crate) IpAddr);

/// Text that is no IP address, or its beginning.
#[derive(Debug)]
pub(crate) struct NoAddress(String);

impl NoAddress {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.chars().take(SHOWN).collect())
    }
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no IP address", self.0)
    }
}

impl FromStr for Client {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        text.parse().map(Self).map_err(|_| NoAddress::of(text))
    }
}

impl<'b> Deserialize<'b> for Client {
    fn deserialize<D: Deserializer<'b>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl Visitor<'_> for Read {
            type Value = Client;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an IP address")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Client, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Read)
    }
}
