//! Writes a saved layer.

use std::io::{self, Write};

use super::part::{END, MAGIC, PIECE, Part, VERSION};
use super::summed::Summed;

/// Writes sections, and then the end.
pub(super) struct Writer<W>(Summed<W>);

impl<W: Write> Writer<W> {
    pub(super) fn begin(out: W) -> io::Result<Self> {
        let mut out = Summed::new(out);
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(Self(out))
    }

    /// Begins a section.
    pub(super) fn section(&mut self, rule: &str, part: Part<&[u8]>) -> io::Result<()> {
        self.0.write_all(&[part.tag()])?;
        self.text(rule)?;
        match part {
            Part::Tier(tier) => self.length(tier),
            Part::Key(key) => {
                if key.len() > PIECE {
                    let error =
                        format!("rule {rule:?}: a key with limits of its own has {} bytes", key.len());
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
                }
                self.length(key.len())?;
                self.0.write_all(key)
            }
            Part::Ban | Part::Fallback | Part::PerRequest => Ok(()),
        }
    }

    /// Returns what writes the section's limiter.
    pub(super) fn pieces(&mut self) -> Pieces<'_, W> {
        Pieces(&mut self.0)
    }

    /// Ends the section's limiter.
    pub(super) fn end_pieces(&mut self) -> io::Result<()> {
        self.length(0)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.0.write_all(&[END])?;
        let sum = self.0.sum();
        self.0.write_all(&sum.to_le_bytes())?;
        self.0.flush()
    }

    /// A string of at most 255 bytes: names of rules are shorter.
    fn text(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(&[u8::try_from(text.len()).map_err(io::Error::other)?])?;
        self.0.write_all(text.as_bytes())
    }

    fn length(&mut self, length: usize) -> io::Result<()> {
        let length = u32::try_from(length).map_err(io::Error::other)?;
        self.0.write_all(&length.to_le_bytes())
    }
}

/// Writes each piece behind its length.
pub(super) struct Pieces<'w, W>(&'w mut Summed<W>);

impl<W: Write> Write for Pieces<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        // A piece of no bytes would be the end.
        if !piece.is_empty() {
            self.0.write_all(&(piece.len() as u32).to_le_bytes())?;
            self.0.write_all(piece)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
