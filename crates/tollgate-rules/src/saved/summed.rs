//! Bytes with a checksum of all that have passed.

use std::io::{self, Read, Write};

/// A reader or a writer, and the FNV-1a checksum of the bytes that it has read or written. It
/// detects accidents, not intent.
///
/// # Examples
///
/// See [the module](crate::saved).
#[derive(Debug)]
pub struct Summed<T> {
    inner: T,
    sum: u64,
}

impl<T> Summed<T> {
    /// The sum of no bytes.
    pub fn new(inner: T) -> Self {
        Self { inner, sum: 0xcbf2_9ce4_8422_2325 }
    }

    fn add(&mut self, bytes: &[u8]) {
        // Each step is a bijection of the sum, so files that differ in one byte differ in the sum.
        let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.sum = bytes.iter().fold(self.sum, step);
    }
}

impl<W: Write> Summed<W> {
    /// Writes the checksum, and hands everything on.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<()> {
        let sum = self.sum;
        self.write_all(&sum.to_le_bytes())?;
        self.flush()
    }
}

impl<R: Read> Summed<R> {
    /// Reads the checksum. Returns whether it is right.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub fn is_right(&mut self) -> io::Result<bool> {
        let (sum, mut read) = (self.sum, [0; 8]);
        self.read_exact(&mut read)?;
        Ok(u64::from_le_bytes(read) == sum)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.add(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.add(&into[..read]);
        Ok(read)
    }
}
