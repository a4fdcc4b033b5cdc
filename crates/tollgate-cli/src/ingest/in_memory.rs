//! Reads a text in memory.

use memchr::memchr;

use super::batch::Batch;
use super::detect::Parser;
use super::error::IngestError;
use super::options::Options;

/// Reads a text of at most 1 MiB like a file with this name, in two blocks: one that ends with the
/// line at `cut`, and the rest.
pub(crate) fn parse_in_memory(
    file: &str,
    options: &Options,
    text: &[u8],
    cut: usize,
) -> Result<[Batch; 2], IngestError> {
    let parser = Parser::new(file, options, text)?;
    let cut = cut.min(text.len());
    let end = memchr(b'\n', &text[cut..]).map_or(text.len(), |at| cut + at + 1);
    Ok([&text[..end], &text[end..]].map(|block| {
        let mut batch = Batch::default();
        parser.block(block, &mut batch);
        batch
    }))
}
