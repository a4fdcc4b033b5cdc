//! Numbers, texts, and a limiter in pieces: so that it can be skipped, and that neither a save nor
//! a restore holds it in memory.

use std::io::{self, Read, Write};

use super::RestoreError;

/// The most bytes of a piece.
const PIECE: usize = 1 << 16;

/// Writes the length of bytes, and the bytes.
///
/// # Errors
///
/// Those of the writer, and one for bytes of 4 GiB or more.
pub fn write_bytes(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(bytes)
}

/// Reads what [`write_bytes`] wrote. Allocates no more than there are bytes, also if the length
/// says more.
///
/// # Errors
///
/// [`RestoreError::Truncated`], and those of the reader.
pub fn read_bytes(input: &mut impl Read) -> Result<Vec<u8>, RestoreError> {
    let length = read_number(input)?;
    let mut bytes = Vec::new();
    input.by_ref().take(length.into()).read_to_end(&mut bytes)?;
    if bytes.len() == length as usize { Ok(bytes) } else { Err(RestoreError::Truncated) }
}

/// Reads bytes that [`write_bytes`] wrote, as text.
///
/// # Errors
///
/// As [`read_bytes`], and [`RestoreError::Corrupt`] if they are not UTF-8.
pub fn read_text(input: &mut impl Read) -> Result<String, RestoreError> {
    String::from_utf8(read_bytes(input)?).map_err(|_| RestoreError::Corrupt)
}

/// Reads a number.
///
/// # Errors
///
/// [`RestoreError::Truncated`], and those of the reader.
pub fn read_number(input: &mut impl Read) -> Result<u32, RestoreError> {
    Ok(u32::from_le_bytes(read_array(input)?))
}

/// Reads so many bytes.
///
/// # Errors
///
/// [`RestoreError::Truncated`], and those of the reader.
pub fn read_array<const N: usize>(input: &mut impl Read) -> Result<[u8; N], RestoreError> {
    let mut array = [0; N];
    input.read_exact(&mut array)?;
    Ok(array)
}

/// Writes a limiter in pieces, each behind its length: so it can be skipped, and is never whole in
/// memory.
#[derive(Debug)]
pub struct PieceWriter<'w, W>(&'w mut W);

impl<'w, W: Write> PieceWriter<'w, W> {
    /// Begins with the first piece.
    pub fn new(out: &'w mut W) -> Self {
        Self(out)
    }

    /// Writes the end: a piece of no bytes.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn end(self) -> io::Result<()> {
        write_bytes(self.0, &[])
    }
}

impl<W: Write> Write for PieceWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        if !piece.is_empty() {
            write_bytes(self.0, piece)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the pieces of a [`PieceWriter`] as one input, up to their end.
#[derive(Debug)]
pub struct PieceReader<'r, R> {
    input: &'r mut R,
    /// The bytes left of the current piece. `None`: the end was read.
    left: Option<usize>,
    /// Why the pieces could not be read: the engine sees the end there.
    problem: Option<RestoreError>,
}

impl<'r, R: Read> PieceReader<'r, R> {
    /// Begins with the first piece.
    pub fn new(input: &'r mut R) -> Self {
        Self { input, left: Some(0), problem: None }
    }

    /// Skips what is left, up to the end.
    ///
    /// # Errors
    ///
    /// The pieces could not be read: to a reader of them that was their end.
    pub fn end(mut self) -> Result<(), RestoreError> {
        let rest = io::copy(&mut self, &mut io::sink());
        match self.problem {
            Some(problem) => Err(problem),
            None => Ok(rest.map(drop)?),
        }
    }

    fn read_piece(&mut self, into: &mut [u8]) -> Result<usize, RestoreError> {
        if self.left == Some(0) {
            let length = read_number(self.input)? as usize;
            if length > PIECE {
                return Err(RestoreError::Corrupt);
            }
            self.left = (length > 0).then_some(length);
        }
        let Some(left) = self.left else { return Ok(0) };
        let most = into.len().min(left);
        let read = self.input.read(&mut into[..most])?;
        if read == 0 && most > 0 {
            return Err(RestoreError::Truncated);
        }
        self.left = Some(left - read);
        Ok(read)
    }
}

impl<R: Read> Read for PieceReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.problem.is_some() || into.is_empty() {
            return Ok(0);
        }
        match self.read_piece(into) {
            Ok(read) => Ok(read),
            Err(RestoreError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(problem) => {
                self.problem = Some(problem);
                Ok(0)
            }
        }
    }
}
