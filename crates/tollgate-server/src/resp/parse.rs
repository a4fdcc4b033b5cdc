//! Reads commands out of bytes, without copying them.
//!
//! A command is an array of bulk strings, or a line of words. The parser keeps where it is, so a
//! command that comes in pieces is read once. Nothing is reserved for a length that was only
//! declared.

use std::fmt;
use std::ops::Range;

use super::words;

/// What a command may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandLimits {
    /// The bytes of an argument.
    pub(crate) bulk_bytes: usize,
    /// The arguments, with the name of the command.
    pub(crate) arguments: usize,
}

/// The bytes of a command that is a line.
pub(super) const INLINE_BYTES: usize = 64 << 10;

/// The bytes of a whole command.
pub(super) const COMMAND_BYTES: usize = 1 << 20;

/// The bytes that a parser keeps between commands at most.
const KEPT: usize = 4 << 10;

/// The bytes of a line that has a length.
const LENGTH_BYTES: usize = 32;

impl CommandLimits {
    /// Of a client that has authenticated, or need not.
    pub(crate) const KNOWN: Self = Self { bulk_bytes: 64 << 10, arguments: 1024 };
    /// Of a client that has yet to authenticate.
    pub(crate) const UNKNOWN: Self = Self { bulk_bytes: 16 << 10, arguments: 10 };
}

/// Bytes that are no command. The connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolError {
    ArrayLength,
    BulkLength,
    NoBulk(u8),
    NoLineEnd,
    Quotes,
    InlineTooLong,
    CommandTooLong,
    Http,
}

impl ProtocolError {
    /// A short word for the metrics.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::ArrayLength => "array_length",
            Self::BulkLength => "bulk_length",
            Self::NoBulk(_) => "no_bulk",
            Self::NoLineEnd => "no_line_end",
            Self::Quotes => "quotes",
            Self::InlineTooLong => "inline_too_long",
            Self::CommandTooLong => "command_too_long",
            Self::Http => "http",
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ArrayLength => f.write_str("invalid multibulk length"),
            Self::BulkLength => f.write_str("invalid bulk length"),
            Self::NoBulk(byte) if byte.is_ascii_graphic() => {
                write!(f, "expected '$', got '{}'", char::from(*byte))
            }
            Self::NoBulk(byte) => write!(f, "expected '$', got byte {byte}"),
            Self::NoLineEnd => f.write_str("expected CRLF"),
            Self::Quotes => f.write_str("unbalanced quotes in request"),
            Self::InlineTooLong => f.write_str("too big inline request"),
            Self::CommandTooLong => f.write_str("too big request"),
            Self::Http => f.write_str("this is no HTTP server"),
        }
    }
}

/// What the bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A command of so many bytes. Its arguments are [`Parser::arguments`].
    Command(usize),
    /// So many bytes that are no command: an empty line or array.
    Nothing(usize),
    /// A part of a command.
    Partial,
}

/// Reads commands, one after the other.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// How much of the command has been read.
    at: usize,
    /// How many arguments an array still has.
    missing: usize,
    is_array: bool,
    arguments: Vec<Range<usize>>,
    /// The words of a line: there they are not as the bytes have them.
    words: Vec<u8>,
}

/// The arguments of a command, of which the first is its name.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'b> {
    bytes: &'b [u8],
    ranges: &'b [Range<usize>],
}

impl<'b> Arguments<'b> {
    pub(super) fn len(self) -> usize {
        self.ranges.len()
    }

    /// An argument; without one, no bytes.
    #[inline]
    pub(super) fn get(self, index: usize) -> &'b [u8] {
        self.ranges.get(index).map_or(&[], |range| &self.bytes[range.clone()])
    }

    /// The arguments from this one on.
    pub(super) fn from(self, index: usize) -> impl ExactSizeIterator<Item = &'b [u8]> {
        let ranges = self.ranges.get(index..).unwrap_or_default();
        ranges.iter().map(move |range| &self.bytes[range.clone()])
    }
}

impl Parser {
    /// Reads on. `bytes` begins where the command does: with the same bytes as in the call before,
    /// if that found a part, and maybe more.
    pub(super) fn read(&mut self, bytes: &[u8], limits: CommandLimits) -> Result<Parsed, ProtocolError> {
        let parsed = self.read_on(bytes, limits)?;
        if parsed == Parsed::Partial && bytes.len() >= COMMAND_BYTES {
            return Err(ProtocolError::CommandTooLong);
        }
        Ok(parsed)
    }

    /// Frees what a long command has taken, between commands: of many idle connections this counts.
    pub(super) fn rest(&mut self) {
        let kept = self.words.capacity() + self.arguments.capacity() * size_of::<Range<usize>>();
        if self.at == 0 && kept > KEPT {
            *self = Self::default();
        }
    }

    /// The arguments of the command that was read last. `bytes` begins where it does.
    pub(super) fn arguments<'b>(&'b self, bytes: &'b [u8]) -> Arguments<'b> {
        let bytes = if self.is_array { bytes } else { &self.words };
        Arguments { bytes, ranges: &self.arguments }
    }

    fn read_on(&mut self, bytes: &[u8], limits: CommandLimits) -> Result<Parsed, ProtocolError> {
        if self.at == 0 {
            self.arguments.clear();
            match bytes.first() {
                None => return Ok(Parsed::Partial),
                Some(b'*') => {
                    let Some((length, end)) = length(bytes, 1, ProtocolError::ArrayLength)? else {
                        return Ok(Parsed::Partial);
                    };
                    if length <= 0 {
                        return Ok(Parsed::Nothing(end));
                    }
                    self.missing = usize::try_from(length)
                        .ok()
                        .filter(|length| *length <= limits.arguments)
                        .ok_or(ProtocolError::ArrayLength)?;
                    (self.at, self.is_array) = (end, true);
                }
                Some(_) => self.is_array = false,
            }
        }
        if self.is_array { self.read_array(bytes, limits) } else { self.read_line(bytes, limits) }
    }

    fn read_array(&mut self, bytes: &[u8], limits: CommandLimits) -> Result<Parsed, ProtocolError> {
        while self.missing > 0 {
            match bytes.get(self.at) {
                None => return Ok(Parsed::Partial),
                Some(b'$') => {}
                Some(other) => return Err(ProtocolError::NoBulk(*other)),
            }
            let Some((length, begin)) = length(bytes, self.at + 1, ProtocolError::BulkLength)? else {
                return Ok(Parsed::Partial);
            };
            let length = usize::try_from(length).ok().filter(|length| *length <= limits.bulk_bytes);
            let end = begin + length.ok_or(ProtocolError::BulkLength)?;
            match bytes.get(end..end + 2) {
                None => return Ok(Parsed::Partial),
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::NoLineEnd),
            }
            self.arguments.push(begin..end);
            self.at = end + 2;
            self.missing -= 1;
        }
        Ok(Parsed::Command(std::mem::take(&mut self.at)))
    }

    fn read_line(&mut self, bytes: &[u8], limits: CommandLimits) -> Result<Parsed, ProtocolError> {
        let Some(end) = bytes[self.at..].iter().position(|byte| *byte == b'\n') else {
            self.at = bytes.len();
            let is_long = bytes.len() > INLINE_BYTES;
            return if is_long { Err(ProtocolError::InlineTooLong) } else { Ok(Parsed::Partial) };
        };
        let end = std::mem::take(&mut self.at) + end;
        if end > INLINE_BYTES {
            return Err(ProtocolError::InlineTooLong);
        }
        words::split(&bytes[..end], &mut self.words, &mut self.arguments).ok_or(ProtocolError::Quotes)?;
        if self.arguments.len() > limits.arguments {
            return Err(ProtocolError::ArrayLength);
        }
        let Some(name) = self.arguments.first().map(|range| &self.words[range.clone()]) else {
            return Ok(Parsed::Nothing(end + 1));
        };
        // A web page can make a browser send this, and commands behind it.
        if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:") {
            return Err(ProtocolError::Http);
        }
        Ok(Parsed::Command(end + 1))
    }
}

/// Reads the number of a line from `begin` on: the number, and where the line ends. `None`: the
/// line is not there yet.
#[inline]
fn length(bytes: &[u8], begin: usize, wrong: ProtocolError) -> Result<Option<(i64, usize)>, ProtocolError> {
    let line = &bytes[begin..bytes.len().min(begin + LENGTH_BYTES)];
    let Some(end) = line.iter().position(|byte| *byte == b'\r') else {
        return if line.len() < LENGTH_BYTES { Ok(None) } else { Err(wrong) };
    };
    let number = number(&line[..end]).ok_or(wrong)?;
    match bytes.get(begin + end + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((number, begin + end + 2))),
        Some(_) => Err(wrong),
    }
}

/// A length as Redis reads it: without a plus, and without zeros before it.
#[inline]
fn number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        b"0" if digits.len() == text.len() => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 18 => {}
        _ => return None,
    }
    let mut number = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + i64::from(digit - b'0');
    }
    Some(if digits.len() < text.len() { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_keeps_little_of_a_long_command() {
        let mut parser = Parser::default();
        let line = "ECHO ".to_owned() + &"x".repeat(60_000) + "\r\n";
        let array = "*1024\r\n".to_owned() + &"$1\r\nx\r\n".repeat(1024);
        for (long, parts) in [(&line, 2), (&array, 3)] {
            for end in (1..=parts).map(|part| part * long.len() / parts) {
                let parsed = parser.read(&long.as_bytes()[..end], CommandLimits::KNOWN).unwrap();
                let is_whole = parsed == Parsed::Command(long.len());
                assert_eq!(is_whole, end == long.len(), "a part is read on");
                parser.rest();
            }
            assert!(parser.words.capacity() <= KEPT && parser.arguments.capacity() <= KEPT >> 4);
        }
        assert_eq!(parser.read(b"PING\r\n", CommandLimits::KNOWN), Ok(Parsed::Command(6)));
        parser.rest();
        assert_eq!(parser.arguments(b"PING\r\n").get(0), b"PING", "short ones stay");
    }
}
