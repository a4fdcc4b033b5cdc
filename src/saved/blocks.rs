//! Bytes in blocks, each closed by a checksum of all before it.

use std::hash::Hasher;
use std::io::{self, Read, Write};

use siphasher::sip::SipHasher13;

use crate::saved::{BLOCK, Format, Header, RestoreError, VERSION, skip_debts};

/// Writes a file: values, and what [`Limiter::save_in`](crate::Limiter::save_in) writes of
/// limiters.
///
/// Numbers are little-endian. Each block of up to 64 KiB ends with a checksum of all bytes before
/// it, which detects accidents, not intent.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    block: Vec<u8>,
    sum: SipHasher13,
}

impl<W: Write> Writer<W> {
    /// Begins a file of this format.
    ///
    /// # Errors
    ///
    /// Those of `out`, here and below.
    pub fn begin(mut out: W, format: Format) -> io::Result<Self> {
        let mut sum = SipHasher13::new();
        let opening = [&format.magic[..], &VERSION.to_le_bytes()].concat();
        sum.write(&opening);
        out.write_all(&opening)?;
        Ok(Self { out, block: Vec::with_capacity(BLOCK), sum })
    }

    /// Writes a byte.
    pub fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.raw(&[byte])
    }

    /// Writes a number of 32 bits.
    pub fn half(&mut self, half: u32) -> io::Result<()> {
        self.raw(&half.to_le_bytes())
    }

    /// Writes a number of 64 bits.
    pub fn word(&mut self, word: u64) -> io::Result<()> {
        self.raw(&word.to_le_bytes())
    }

    /// Writes how many bytes there are, and the bytes.
    ///
    /// # Errors
    ///
    /// Those of `out`, and one of 4 GiB or more.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.half(u32::try_from(bytes.len()).map_err(io::Error::other)?)?;
        self.raw(bytes)
    }

    /// Ends the file.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.close()?;
        }
        self.close()?;
        self.out.flush()
    }

    fn raw(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == BLOCK {
                self.close()?;
            }
        }
        Ok(())
    }

    /// Writes the block out.
    fn close(&mut self) -> io::Result<()> {
        let len = (self.block.len() as u32).to_le_bytes();
        self.sum.write(&len);
        self.sum.write(&self.block);
        self.out.write_all(&len)?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&self.sum.finish().to_le_bytes())?;
        self.block.clear();
        Ok(())
    }
}

/// Reads what a [`Writer`] wrote, and no byte beyond its end.
///
/// It checks the checksum of a block before it hands out a byte of the block. No length that the
/// file claims is allocated before there are as many bytes.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    block: Vec<u8>,
    /// How much of the block has been read.
    read: usize,
    sum: SipHasher13,
}

impl<R: Read> Reader<R> {
    /// Begins to read a file of this format.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Foreign`] and [`RestoreError::Version`]; and here and below, the errors of a
    /// [damaged](RestoreError::is_damage) file.
    pub fn begin(mut input: R, format: Format) -> Result<Self, RestoreError> {
        let Format { magic, name } = format;
        let mut opening = Vec::new();
        input.by_ref().take((magic.len() + size_of_val(&VERSION)) as u64).read_to_end(&mut opening)?;
        if !magic.starts_with(&opening[..opening.len().min(magic.len())]) {
            return Err(RestoreError::Foreign { expected: name });
        }
        let version = opening.get(magic.len()..).and_then(|bytes| bytes.try_into().ok());
        let found = version.map(u32::from_le_bytes).ok_or(RestoreError::Truncated)?;
        if found != VERSION {
            return Err(RestoreError::Version { found, known: VERSION });
        }
        let mut sum = SipHasher13::new();
        sum.write(&opening);
        Ok(Self { input, block: Vec::new(), read: 0, sum })
    }

    /// Reads a byte.
    pub fn byte(&mut self) -> Result<u8, RestoreError> {
        self.array().map(u8::from_le_bytes)
    }

    /// Reads a number of 32 bits.
    pub fn half(&mut self) -> Result<u32, RestoreError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a number of 64 bits.
    pub fn word(&mut self) -> Result<u64, RestoreError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads bytes and how many they are.
    pub fn bytes(&mut self) -> Result<Vec<u8>, RestoreError> {
        let mut left = self.half()? as usize;
        let mut bytes = Vec::new();
        while left > 0 {
            let ready = self.ready()?;
            let now = &ready[..ready.len().min(left)];
            bytes.extend_from_slice(now);
            left -= now.len();
            self.read += now.len();
        }
        Ok(bytes)
    }

    /// Reads over a limiter that [`Limiter::save_in`](crate::Limiter::save_in) wrote: of a rule,
    /// say, that is gone.
    pub fn skip_limiter(&mut self) -> Result<(), RestoreError> {
        let header = Header::read(self)?;
        skip_debts(self, header.limits)
    }

    /// Reads bytes that are UTF-8.
    pub fn text(&mut self) -> Result<String, RestoreError> {
        String::from_utf8(self.bytes()?).map_err(|_| RestoreError::Corrupt)
    }

    /// Checks that only the end follows.
    pub fn finish(mut self) -> Result<(), RestoreError> {
        let rest = self.block.len() - self.read;
        if rest == 0 && self.open()? == 0 { Ok(()) } else { Err(RestoreError::Corrupt) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let mut array = [0; N];
        let mut into = &mut array[..];
        while !into.is_empty() {
            let ready = self.ready()?;
            let (now, later) = into.split_at_mut(into.len().min(ready.len()));
            now.copy_from_slice(&ready[..now.len()]);
            self.read += now.len();
            into = later;
        }
        Ok(array)
    }

    /// The bytes of the block that have not been read: at least one.
    fn ready(&mut self) -> Result<&[u8], RestoreError> {
        if self.read == self.block.len() && self.open()? == 0 {
            return Err(RestoreError::Corrupt);
        }
        Ok(&self.block[self.read..])
    }

    /// Reads the next block and returns its length.
    fn open(&mut self) -> Result<usize, RestoreError> {
        let mut prefix = [0; 4];
        self.input.read_exact(&mut prefix)?;
        let len = u32::from_le_bytes(prefix) as usize;
        if len > BLOCK {
            return Err(RestoreError::Corrupt);
        }
        self.block.resize(len, 0);
        self.read = 0;
        self.input.read_exact(&mut self.block)?;
        self.sum.write(&prefix);
        self.sum.write(&self.block);
        let mut sum = [0; 8];
        self.input.read_exact(&mut sum)?;
        if u64::from_le_bytes(sum) == self.sum.finish() { Ok(len) } else { Err(RestoreError::Corrupt) }
    }
}
