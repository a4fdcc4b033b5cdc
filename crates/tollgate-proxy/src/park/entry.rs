//! The record of a parked request, without its body.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::crypto::{SecureRandom, ring::default_provider};
use tollgate_rules::Park as Bounds;

use super::ParkError;
use super::kept::{Kept, latin};

static RANDOM: LazyLock<&'static dyn SecureRandom> = LazyLock::new(|| default_provider().secure_random);

/// The most characters of a method and target that an entry shows.
const SHOWN: usize = 256;

/// Names a request that is kept. It cannot be guessed: who has it may ask for the state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Id(u128);

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It waits, or is being sent.
    Parked,
    /// An upstream has answered it.
    Sent,
    /// It was too old to be sent.
    Expired,
    /// It failed too often. It is kept, and can be sent again.
    Dead,
    /// An administrator has cancelled it.
    Cancelled,
}

/// The record of a parked request. Times are milliseconds of Unix time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub id: Id,
    /// The rule that refused it.
    pub rule: Box<str>,
    /// Its key by that rule.
    #[serde(with = "latin")]
    pub key: Vec<u8>,
    /// The method and the target, cut.
    pub shown: String,
    /// How much it takes of its rule's bytes.
    pub bytes: u64,
    /// Its place in the queue: after all with a lower one.
    pub(crate) turn: u64,
    /// When it was kept, or revived.
    pub parked_at: u64,
    /// From when on it is too old.
    pub expires_at: u64,
    /// How long it is kept from `parked_at` on, in milliseconds.
    pub(crate) age: u64,
    /// How often it is sent at most.
    pub most_tries: u32,
    /// The time before the second try, in milliseconds.
    pub(crate) retry: u64,
    /// How often it was sent.
    pub tries: u32,
    /// What became of it.
    pub state: State,
    /// That of the last answer.
    pub status: Option<u16>,
    /// When it ended; `None`: it waits.
    pub ended_at: Option<u64>,
}

impl State {
    /// Whether the request itself is still kept.
    pub(super) fn is_held(self) -> bool {
        matches!(self, Self::Parked | Self::Dead)
    }

    /// The event that is counted when a request comes into this state.
    pub(super) fn event(self) -> Option<&'static str> {
        match self {
            Self::Parked => None,
            Self::Sent => Some("drained"),
            ended => Some(ended.name()),
        }
    }

    /// As labels and the administration say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Sent => "sent",
            Self::Expired => "expired",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Entry {
    /// An error: the system has no random numbers.
    pub(crate) fn new(
        rule: &str,
        key: &[u8],
        bounds: &Bounds,
        kept: &Kept,
        bytes: usize,
        now: u64,
    ) -> Result<Self, ParkError> {
        let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let age = millis(bounds.age);
        Ok(Self {
            id: Id::random()?,
            rule: rule.into(),
            key: key.into(),
            shown: format!("{} {}", kept.method, kept.target).chars().take(SHOWN).collect(),
            bytes: bytes as u64,
            turn: 0,
            parked_at: now,
            expires_at: now.saturating_add(age),
            age,
            most_tries: bounds.tries,
            retry: millis(bounds.retry),
            tries: 0,
            state: State::Parked,
            status: None,
            ended_at: None,
        })
    }

    /// An upstream has answered with this status, and has taken the request or not. After its last
    /// try, a request that was not taken is dead.
    pub(crate) fn answer(&mut self, status: u16, is_taken: bool, now: u64) {
        self.tries = self.tries.saturating_add(1);
        self.status = Some(status);
        if is_taken {
            self.end(State::Sent, now);
        } else if self.tries >= self.most_tries {
            self.end(State::Dead, now);
        }
    }

    /// The request was too old.
    pub(crate) fn expire(&mut self, now: u64) {
        self.end(State::Expired, now);
    }

    /// Parked or Dead -> Cancelled.
    pub fn cancel(&mut self, now: u64) -> bool {
        let may = self.state.is_held();
        if may {
            self.end(State::Cancelled, now);
        }
        may
    }

    fn end(&mut self, state: State, now: u64) {
        (self.state, self.ended_at) = (state, Some(now));
    }

    /// Whether this entry says what `before` did not.
    pub(super) fn has_news_of(&self, before: &Self) -> bool {
        (self.state, self.tries) != (before.state, before.tries)
    }

    /// Dead -> Parked, with all its tries and its whole age.
    pub fn revive(&mut self, now: u64) -> bool {
        if self.state != State::Dead {
            return false;
        }
        (self.state, self.ended_at, self.tries) = (State::Parked, None, 0);
        self.expires_at = now.saturating_add(self.age);
        true
    }
}

impl Id {
    pub(super) fn random() -> Result<Self, ParkError> {
        let mut bytes = [0; 16];
        RANDOM.fill(&mut bytes).map_err(|_| ParkError::NoRandom)?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }

    /// The first 12 digits, by which logs name the request. The others cannot be guessed, so who
    /// reads a log may not ask for the state.
    pub fn beginning(self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Who reads a log may not ask for the state.
        f.write_str("Id")
    }
}

impl FromStr for Id {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        id.map(Self).ok_or("an id has 32 hexadecimal digits")
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for Id {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        text.parse()
    }
}
