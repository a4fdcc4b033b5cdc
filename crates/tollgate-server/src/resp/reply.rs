//! Writes answers.

use std::fmt::Display;
use std::io::Write;

/// Which version of the protocol a client has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    Resp2,
    Resp3,
}

/// Writes answers behind those that are there.
pub(super) struct Reply<'o> {
    output: &'o mut Vec<u8>,
    version: Version,
}

impl<'o> Reply<'o> {
    pub(super) fn new(output: &'o mut Vec<u8>, version: Version) -> Self {
        Self { output, version }
    }

    /// A status, of one line without line ends.
    pub(super) fn status(&mut self, status: &str) {
        self.line(b'+', status.as_bytes());
    }

    pub(super) fn ok(&mut self) {
        self.output.extend_from_slice(b"+OK\r\n");
    }

    /// An error. Line ends in its text become spaces.
    pub(super) fn error(&mut self, error: impl Display) {
        self.output.push(b'-');
        let begin = self.output.len();
        // A vector takes all that is written.
        let _ = write!(self.output, "{error}");
        self.end_error(begin);
    }

    /// An error that ends with bytes of the client.
    pub(super) fn error_about(&mut self, error: &str, bytes: &[u8]) {
        self.output.push(b'-');
        let begin = self.output.len();
        self.output.extend_from_slice(error.as_bytes());
        self.output.extend_from_slice(bytes);
        self.end_error(begin);
    }

    fn end_error(&mut self, begin: usize) {
        for byte in &mut self.output[begin..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.output.extend_from_slice(b"\r\n");
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// Five integers: what `CL.THROTTLE` answers.
    #[inline]
    pub(super) fn five(&mut self, numbers: [i64; 5]) {
        self.output.extend_from_slice(b"*5\r\n");
        for number in numbers {
            self.integer(number);
        }
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.number(b'$', bytes.len() as i64);
        self.output.extend_from_slice(bytes);
        self.output.extend_from_slice(b"\r\n");
    }

    pub(super) fn text(&mut self, text: impl Display) {
        self.bulk(text.to_string().as_bytes());
    }

    pub(super) fn null(&mut self) {
        self.output.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The head of an array; its elements follow.
    pub(super) fn array(&mut self, elements: usize) {
        self.number(b'*', elements as i64);
    }

    /// The head of a map of so many keys, each with its value behind it.
    pub(super) fn map(&mut self, keys: usize) {
        match self.version {
            Version::Resp2 => self.array(2 * keys),
            Version::Resp3 => self.number(b'%', keys as i64),
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.output.push(kind);
        self.output.extend_from_slice(text);
        self.output.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn number(&mut self, kind: u8, number: i64) {
        if let 0..10 = number {
            let digit = b'0' + number as u8;
            self.output.extend_from_slice(&[kind, digit, b'\r', b'\n']);
            return;
        }
        // A sign and nineteen digits, a kind and a line end.
        let mut line = [0; 23];
        let mut begin = line.len() - 2;
        line[begin..].copy_from_slice(b"\r\n");
        let mut left = number.unsigned_abs();
        loop {
            begin -= 1;
            line[begin] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        if number < 0 {
            begin -= 1;
            line[begin] = b'-';
        }
        begin -= 1;
        line[begin] = kind;
        self.output.extend_from_slice(&line[begin..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: Version, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut output = Vec::new();
        write(&mut Reply::new(&mut output, version));
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn numbers_of_all_lengths_are_written() {
        let powers = (0..19).map(|power| 10_i64.pow(power));
        let around = powers.flat_map(|power| [power - 1, power, power + 1, -power, 1 - power]);
        for number in around.chain([i64::MAX, i64::MIN, 0]) {
            let line = written(Version::Resp2, |reply| reply.integer(number));
            assert_eq!(line, format!(":{number}\r\n"));
        }
    }

    #[test]
    fn both_versions_have_nulls_and_maps() {
        let write = |reply: &mut Reply<'_>| {
            reply.null();
            reply.map(2);
        };
        assert_eq!(written(Version::Resp2, write), "$-1\r\n*4\r\n");
        assert_eq!(written(Version::Resp3, write), "_\r\n%2\r\n");
    }

    #[test]
    fn an_error_is_one_line() {
        let line = written(Version::Resp2, |reply| reply.error_about("ERR no ", b"a\r\n+OK\n"));
        assert_eq!(line, "-ERR no a  +OK \r\n");
        let line = written(Version::Resp2, |reply| reply.error("ERR\r\n"));
        assert_eq!(line, "-ERR  \r\n");
    }
}
