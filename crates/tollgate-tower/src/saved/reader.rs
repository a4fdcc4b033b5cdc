//! Reads a saved layer, and no byte beyond its end.

use std::io::{self, Read};

use super::error::RestoreError;
use super::part::{BAN, END, FALLBACK, KEY, MAGIC, PER_REQUEST, PIECE, Part, TIER, VERSION};
use super::summed::Summed;
use crate::rule::MAX_NAME_LEN;

pub(super) struct Reader<R> {
    input: Summed<R>,
    /// The rule of the current section.
    rule: Option<String>,
    /// The bytes left of the current piece. `None`: the limiter has ended.
    left: Option<usize>,
    /// Why the pieces could not be read.
    problem: Option<RestoreError>,
}

/// A section, up to its limiter.
pub(super) struct Section {
    pub(super) rule: String,
    pub(super) part: Part<Vec<u8>>,
}

impl<R: Read> Reader<R> {
    pub(super) fn begin(input: R) -> Result<Self, RestoreError> {
        let mut input = Summed::new(input);
        let mut magic = Vec::new();
        input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
        if !MAGIC.starts_with(&magic) {
            return Err(RestoreError::Foreign);
        }
        let mut reader = Self { input, rule: None, left: None, problem: None };
        let found = reader.half()?;
        if found == VERSION { Ok(reader) } else { Err(RestoreError::Version { found, known: VERSION }) }
    }

    /// Reads the next section up to its limiter, whose [pieces](Self::pieces) follow. `None`: this
    /// was the last, and the whole input is right.
    pub(super) fn section(&mut self) -> Result<Option<Section>, RestoreError> {
        self.rule = None;
        let [tag] = self.array()?;
        if tag == END {
            let sum = self.input.sum();
            return if self.word()? == sum { Ok(None) } else { Err(self.corrupt()) };
        }
        let rule = self.text()?;
        if !(1..=MAX_NAME_LEN).contains(&rule.len()) {
            return Err(self.corrupt());
        }
        self.rule = Some(rule.clone());
        let part = match tag {
            TIER => Part::Tier(self.half()? as usize),
            KEY => {
                let length = self.half()?;
                if length as usize > PIECE {
                    return Err(self.corrupt());
                }
                Part::Key(self.bytes(length.into())?)
            }
            BAN => Part::Ban,
            FALLBACK => Part::Fallback,
            PER_REQUEST => return Ok(Some(Section { rule, part: Part::PerRequest })),
            _ => return Err(self.corrupt()),
        };
        self.left = Some(0);
        Ok(Some(Section { rule, part }))
    }

    /// Returns what reads the section's limiter.
    pub(super) fn pieces(&mut self) -> Pieces<'_, R> {
        Pieces(self)
    }

    /// Reads the rest of the section's limiter. An error tells why a piece could not be read, now
    /// or before.
    pub(super) fn end_pieces(&mut self) -> Result<(), RestoreError> {
        let rest = io::copy(&mut self.pieces(), &mut io::sink());
        match self.problem.take() {
            Some(problem) => Err(problem),
            None => Ok(rest.map(drop)?),
        }
    }

    /// The error of bytes that make no sense.
    pub(super) fn corrupt(&self) -> RestoreError {
        RestoreError::Corrupt { rule: self.rule.clone() }
    }

    fn text(&mut self) -> Result<String, RestoreError> {
        let [length] = self.array()?;
        String::from_utf8(self.bytes(length.into())?).map_err(|_| self.corrupt())
    }

    fn half(&mut self) -> Result<u32, RestoreError> {
        self.array().map(u32::from_le_bytes)
    }

    fn word(&mut self) -> Result<u64, RestoreError> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let mut array = [0; N];
        self.input.read_exact(&mut array)?;
        Ok(array)
    }

    /// Allocates no more than there are bytes, also if the length says more.
    fn bytes(&mut self, length: u64) -> Result<Vec<u8>, RestoreError> {
        let mut bytes = Vec::new();
        self.input.by_ref().take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(RestoreError::Truncated) }
    }

    /// Reads from the current piece; 0 bytes at the limiter's end.
    fn read_piece(&mut self, into: &mut [u8]) -> Result<usize, RestoreError> {
        if self.left == Some(0) {
            let length = self.half()? as usize;
            if length > PIECE {
                return Err(self.corrupt());
            }
            self.left = (length > 0).then_some(length);
        }
        let Some(left) = self.left else { return Ok(0) };
        let into_len = into.len().min(left);
        let read = self.input.read(&mut into[..into_len])?;
        if read == 0 && into_len > 0 {
            return Err(RestoreError::Truncated);
        }
        self.left = Some(left - read);
        Ok(read)
    }
}

/// The limiter of a section, as the engine saved it. It ends for the engine where it cannot be
/// read: [`Reader::end_pieces`] tells why.
pub(super) struct Pieces<'r, R>(&'r mut Reader<R>);

impl<R: Read> Read for Pieces<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.0.problem.is_some() {
            return Ok(0);
        }
        match self.0.read_piece(into) {
            Ok(read) => Ok(read),
            Err(RestoreError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(problem) => {
                self.0.problem = Some(problem);
                Ok(0)
            }
        }
    }
}
