//! The address of a store: the one parser of its text.
//!
//! ```text
//!   redis://[user[:password]@]host[:port][/database][?protocol=3]      rediss:// with TLS
//!   redis+unix:///path[?db=number&user=name&pass=password&protocol=3]
//! ```
//!
//! Each part ends where the URL syntax ends it, so a password with `/`, `?`, `#` or `%` has these
//! as `%2F`, `%3F`, `%23`, `%25`. An address that says something that no client would do is an
//! error: the server connects to the very address that was checked.

use std::convert::Infallible;
use std::fmt;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use crate::store::Secret;

/// The names and values behind `?`, decoded.
type Parameters = Vec<(String, String)>;

/// The port of a host without one.
const PORT: u16 = 6379;
/// The longest name of a host.
const LONGEST_HOST: usize = 253;

/// The address of a store, such as `redis://user:password@10.0.0.7:6379/2`.
///
/// Its display and its debug output have neither the user nor the password, and no error repeats a
/// part of the text. Addresses of the same place display alike, however they were written.
///
/// # Examples
///
/// ```
/// use tollgate_rules::{AddressError, StoreAddress};
///
/// let address = StoreAddress::parse("redis://app:hunter2@cache.test:6379/2")?;
/// assert_eq!(address.to_string(), "redis://cache.test/2");
/// assert_eq!(address.password().map(|password| password.reveal()), Some("hunter2"));
///
/// // A `#` ends the host, so it cannot stand in a password as it is.
/// let error = StoreAddress::parse("redis://app:hunter2#x@cache.test").unwrap_err();
/// assert_eq!(error, AddressError::Unencoded);
/// assert!(StoreAddress::parse("redis://app:hunter2%23x@cache.test").is_ok());
/// # Ok::<(), AddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoreAddress {
    place: StorePlace,
    is_tls: bool,
    user: Option<Box<str>>,
    password: Option<Secret>,
    database: u32,
    is_resp3: bool,
}

/// Where a store listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StorePlace {
    /// A port of a host; with sentinels, the host is the name of the master.
    Host {
        /// A name or an address, of IPv6 without brackets.
        name: Box<str>,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Socket(PathBuf),
}

/// Why a text is no address of a store. It has no part of the text, which may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressError {
    /// There is no `://`.
    NoScheme,
    /// The scheme is none of a store's.
    Scheme,
    /// A blank or a control character.
    Blank,
    /// A `/`, `?` or `#` before the `@`, which would end the host.
    Unencoded,
    /// There is no host.
    NoHost,
    /// The host is neither a name nor an address.
    Host,
    /// The host stands for all addresses of a machine: `0.0.0.0` or `[::]`.
    Wildcard,
    /// The port is none from 1 to 65535.
    Port,
    /// The database is no number.
    Database,
    /// The user, the password or the path is not UTF-8.
    Encoding,
    /// A parameter behind `?` that there is not.
    Parameter,
    /// A version of the protocol other than 2 and 3.
    Protocol,
    /// Something behind `#`: certificates are always verified.
    Fragment,
    /// There is no path to a socket.
    NoPath,
    /// The client cannot use the addresses together.
    Together,
}

impl StoreAddress {
    /// Parses a text.
    ///
    /// # Errors
    ///
    /// [`AddressError`] names the wrong part, and has none of the text.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::NoScheme)?;
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(AddressError::Blank);
        }
        match scheme {
            "redis" | "valkey" => Self::of_host(rest, false),
            "rediss" | "valkeys" => Self::of_host(rest, true),
            "redis+unix" | "valkey+unix" | "unix" => Self::of_socket(rest),
            _ => Err(AddressError::Scheme),
        }
    }

    fn at(place: StorePlace) -> Self {
        Self { place, is_tls: false, user: None, password: None, database: 0, is_resp3: false }
    }

    fn of_host(text: &str, is_tls: bool) -> Result<Self, AddressError> {
        let (authority, rest) = text.split_at(text.find(['/', '?', '#']).unwrap_or(text.len()));
        if rest.contains('@') {
            return Err(AddressError::Unencoded);
        }
        let (credentials, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let (path, query) = path_and_query(rest)?;
        let mut address = Self { is_tls, ..Self::at(host(place)?) };
        address.user = some(decoded(user)?);
        address.password = some(decoded(password)?).map(Secret::new);
        address.database = database(path.strip_prefix('/').unwrap_or(path))?;
        for (name, value) in query {
            match &*name {
                "protocol" => address.is_resp3 = is_resp3(&value)?,
                _ => return Err(AddressError::Parameter),
            }
        }
        Ok(address)
    }

    fn of_socket(text: &str) -> Result<Self, AddressError> {
        let (path, query) = path_and_query(text)?;
        let path = decoded(path)?;
        if !path.starts_with('/') || path.len() < 2 || path.contains('\0') {
            return Err(AddressError::NoPath);
        }
        let mut address = Self::at(StorePlace::Socket(path.into()));
        for (name, value) in query {
            match &*name {
                "db" => address.database = database(&value)?,
                "user" => address.user = some(value),
                "pass" => address.password = some(value).map(Secret::new),
                "protocol" => address.is_resp3 = is_resp3(&value)?,
                _ => return Err(AddressError::Parameter),
            }
        }
        Ok(address)
    }

    /// Where the store listens.
    #[must_use]
    pub fn place(&self) -> &StorePlace {
        &self.place
    }

    /// Whether the connection is encrypted, and the server's certificate verified.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The user; `None`: the store's default one.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password.
    #[must_use]
    pub fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    /// The number of the database.
    #[must_use]
    pub fn database(&self) -> u32 {
        self.database
    }

    /// Whether the third version of the protocol is spoken, and not the second.
    #[must_use]
    pub fn is_resp3(&self) -> bool {
        self.is_resp3
    }
}

/// A text that is not empty.
fn some(text: String) -> Option<Box<str>> {
    (!text.is_empty()).then(|| text.into())
}

/// A host with its port.
fn host(text: &str) -> Result<StorePlace, AddressError> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']').ok_or(AddressError::Host)?;
            let address: Ipv6Addr = name.parse().map_err(|_| AddressError::Host)?;
            let port =
                if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(AddressError::Host)?) };
            (address.to_string(), port)
        }
        None => {
            let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
            (name.to_owned(), port)
        }
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    match &*name {
        "" => return Err(AddressError::NoHost),
        "0.0.0.0" | "::" => return Err(AddressError::Wildcard),
        name if name.len() > LONGEST_HOST || !name.bytes().all(is_name) => return Err(AddressError::Host),
        _ => {}
    }
    let port = match port {
        None => PORT,
        Some(port) => number(port).and_then(|port| port.try_into().ok()).ok_or(AddressError::Port)?,
    };
    if port == 0 { Err(AddressError::Port) } else { Ok(StorePlace::Host { name: name.into(), port }) }
}

/// A number of digits alone.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn database(text: &str) -> Result<u32, AddressError> {
    if text.is_empty() { Ok(0) } else { number(text).ok_or(AddressError::Database) }
}

fn is_resp3(text: &str) -> Result<bool, AddressError> {
    match text {
        "2" | "resp2" => Ok(false),
        "3" | "resp3" => Ok(true),
        _ => Err(AddressError::Protocol),
    }
}

/// What comes behind the host, and the decoded parameters behind `?`.
fn path_and_query(text: &str) -> Result<(&str, Parameters), AddressError> {
    if text.contains('#') {
        return Err(AddressError::Fragment);
    }
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(name)?, decoded(&value.replace('+', " "))?))
    });
    let pairs: Result<Parameters, AddressError> = pairs.collect();
    Ok((path, pairs?))
}

/// The text with each `%` and two digits as the byte that they stand for.
fn decoded(text: &str) -> Result<String, AddressError> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&first, behind)) = rest.split_first() {
        let digit = |at: usize| behind.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let byte = if first == b'%' { digit(0).zip(digit(1)) } else { None };
        let (byte, behind) = match byte {
            Some((high, low)) => ((high * 16 + low) as u8, &behind[2..]),
            None => (first, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8(bytes).map_err(|_| AddressError::Encoding)
}

impl TryFrom<&str> for StoreAddress {
    type Error = AddressError;

    fn try_from(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

impl TryFrom<&String> for StoreAddress {
    type Error = AddressError;

    fn try_from(text: &String) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for StoreAddress {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        Self::parse(&text)
    }
}

impl From<Infallible> for AddressError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Without the user and the password.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = Some(self.database).filter(|database| *database > 0);
        match &self.place {
            StorePlace::Socket(path) => {
                write!(f, "redis+unix://{}", Path::display(path))?;
                database.map_or(Ok(()), |database| write!(f, "?db={database}"))
            }
            StorePlace::Host { name, port } => {
                f.write_str(if self.is_tls { "rediss://" } else { "redis://" })?;
                if name.contains(':') {
                    write!(f, "[{name}]")?
                } else {
                    f.write_str(name)?
                }
                if *port != PORT {
                    write!(f, ":{port}")?;
                }
                database.map_or(Ok(()), |database| write!(f, "/{database}"))
            }
        }
    }
}

/// Without the user and the password.
impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoScheme => "the store's address has no scheme",
            Self::Scheme => "the store's address has another scheme",
            Self::Blank => "the store's address has a blank in it",
            Self::Unencoded => {
                "the store's address has a `/`, `?` or `#` before its `@`: in a user or a password write %2F, %3F, %23"
            }
            Self::NoHost => "the store's address has no host",
            Self::Host => "the host of the store's address is neither a name nor an address",
            Self::Wildcard => "the host of the store's address stands for all addresses: name one",
            Self::Port => "the port of the store's address is none from 1 to 65535",
            Self::Database => "the database of the store's address is no number",
            Self::Encoding => "the store's address is not UTF-8 once its %XX are decoded",
            Self::Parameter => {
                "the store's address has a parameter that there is not: there is `protocol`, and of a socket `db`, \
                 `user`, `pass`"
            }
            Self::Protocol => "the protocol of the store's address is neither 2 nor 3",
            Self::Fragment => "the store's address has a `#`: write %23. Certificates are always verified",
            Self::NoPath => "the store's address has no path",
            Self::Together => "the addresses of the store do not fit together",
        })
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests;
