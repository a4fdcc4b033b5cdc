//! Bytes with a checksum of all that have passed.

use std::io::{self, Read, Write};

/// A reader or a writer, and the FNV-1a checksum of the bytes that it has read or written.
pub(super) struct Summed<T> {
    inner: T,
    sum: u64,
}

impl<T> Summed<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, sum: 0xcbf2_9ce4_8422_2325 }
    }

    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    fn add(&mut self, bytes: &[u8]) {
        // Each step is a bijection of the sum, so files that differ in one byte differ in the sum.
        let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.sum = bytes.iter().fold(self.sum, step);
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
