//! Bytes in blocks, each closed by a checksum of all before it.

use std::hash::Hasher;
use std::io::{self, Read, Write};

use siphasher::sip::SipHasher13;

use crate::saved::{BLOCK, MAGIC, RestoreError, VERSION};

/// Writes blocks.
pub(crate) struct Writer<W> {
    out: W,
    block: Vec<u8>,
    sum: SipHasher13,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub(crate) fn begin(mut out: W) -> io::Result<Self> {
        let mut sum = SipHasher13::new();
        let opening = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        sum.write(&opening);
        out.write_all(&opening)?;
        Ok(Self { out, block: Vec::with_capacity(BLOCK), sum })
    }

    pub(crate) fn bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
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

    pub(crate) fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.bytes(&[byte])
    }

    pub(crate) fn word(&mut self, word: u64) -> io::Result<()> {
        self.bytes(&word.to_le_bytes())
    }

    pub(crate) fn half(&mut self, half: u32) -> io::Result<()> {
        self.bytes(&half.to_le_bytes())
    }

    /// A string of at most 255 bytes. All names of this crate are shorter.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        let len = u8::try_from(text.len()).map_err(io::Error::other)?;
        self.byte(len)?;
        self.bytes(text.as_bytes())
    }

    /// Ends the file.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.close()?;
        }
        self.close()?;
        self.out.flush()
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

/// Reads what `Writer` wrote, and no byte beyond its end.
pub(crate) struct Reader<R> {
    input: R,
    block: Vec<u8>,
    /// How much of the block has been read.
    read: usize,
    sum: SipHasher13,
}

impl<R: Read> Reader<R> {
    /// Begins to read a file.
    pub(crate) fn begin(mut input: R) -> Result<Self, RestoreError> {
        let mut opening = Vec::new();
        input.by_ref().take((MAGIC.len() + size_of_val(&VERSION)) as u64).read_to_end(&mut opening)?;
        let magic = &opening[..opening.len().min(MAGIC.len())];
        if !MAGIC.starts_with(magic) {
            return Err(RestoreError::Foreign);
        }
        let version = opening.get(MAGIC.len()..).and_then(|bytes| bytes.try_into().ok());
        let found = version.map(u32::from_le_bytes).ok_or(RestoreError::Truncated)?;
        if found != VERSION {
            return Err(RestoreError::Version { found, known: VERSION });
        }
        let mut sum = SipHasher13::new();
        sum.write(&opening);
        Ok(Self { input, block: Vec::new(), read: 0, sum })
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let mut array = [0; N];
        self.fill(&mut array)?;
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, RestoreError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn half(&mut self) -> Result<u32, RestoreError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn word(&mut self) -> Result<u64, RestoreError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Result<String, RestoreError> {
        let mut text = vec![0; self.byte()?.into()];
        self.fill(&mut text)?;
        String::from_utf8(text).map_err(|_| RestoreError::Corrupt)
    }

    /// Checks that only the end follows.
    pub(crate) fn finish(mut self) -> Result<(), RestoreError> {
        let rest = self.block.len() - self.read;
        if rest == 0 && self.open()? == 0 { Ok(()) } else { Err(RestoreError::Corrupt) }
    }

    fn fill(&mut self, mut into: &mut [u8]) -> Result<(), RestoreError> {
        while !into.is_empty() {
            if self.read == self.block.len() && self.open()? == 0 {
                return Err(RestoreError::Corrupt);
            }
            let ready = &self.block[self.read..];
            let (now, later) = into.split_at_mut(into.len().min(ready.len()));
            now.copy_from_slice(&ready[..now.len()]);
            self.read += now.len();
            into = later;
        }
        Ok(())
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
