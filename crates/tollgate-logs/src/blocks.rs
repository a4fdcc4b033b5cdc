//! Cuts the sources, one after the other, into blocks of whole lines.
//!
//! ```text
//!   bytes   ....\n.......\n....|......\n..\n.....|.....     | where a read ended
//!   blocks  [      whole lines     ][    lines    ]
//!                               ^ carried over  ^ carried over
//! ```
//!
//! A block is large enough to make the cost per block negligible, and small enough to stay in a
//! core's cache while its lines are parsed. It grows for a longer line up to [`LINE_LIMIT`]. The
//! rest of a line beyond that is dropped as it is read, so that no file can demand more memory.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use memchr::{memchr, memrchr};

use crate::detect::{self, Parser};
use crate::error::Problem;
use crate::lines;
use crate::options::Options;
use crate::source::{Progress, Source};

/// The longest line that is read, with its line feed.
pub(crate) const LINE_LIMIT: usize = 1 << 20;

/// How much is read before a block is cut. From 128 KiB to 1 MiB the size makes no difference.
///
/// Files are read, not mapped: page faults cost more than the copy that a mapping saves, and a file
/// that shrinks while it is mapped kills the process.
const BLOCK: usize = 256 << 10;

/// How much of a line over the limit is kept for the excerpt.
const KEPT: usize = 1 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The memory of one block, used again for the next.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Box<[u8]>,
    len: usize,
}

impl Block {
    pub(crate) fn new() -> Self {
        // The system provides zeroed memory only as it is used: a block that never grows takes 256
        // KiB.
        Self { bytes: vec![0; LINE_LIMIT].into_boxed_slice(), len: 0 }
    }

    /// Whole lines, or the beginning of a line that is too long.
    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn is_full(&self) -> bool {
        self.len == self.bytes.len()
    }

    /// Where the last whole line ends.
    fn last_line_end(&self) -> Option<usize> {
        memrchr(b'\n', self.text()).map(|at| at + 1)
    }

    /// Drops the bytes before `at`.
    fn drop_before(&mut self, at: usize) {
        self.bytes.copy_within(at..self.len, 0);
        self.len -= at;
    }
}

/// What a filled block holds, and from which source it is.
#[derive(Debug)]
pub(crate) struct BlockInfo {
    /// Index of the file in the list of sources.
    pub(crate) file: usize,
    pub(crate) content: Content,
}

/// What a block holds.
#[derive(Debug)]
pub(crate) enum Content {
    /// Lines for this parser.
    Lines(Arc<Parser>),
    /// Only blank lines, in a file that had no other lines yet.
    Blank,
    /// The beginning of a line over the limit.
    TooLong,
}

/// All blocks of all sources, in order.
pub(crate) struct Blocks {
    sources: VecDeque<(usize, Source)>,
    options: Options,
    progress: Arc<Progress>,
    /// The source that is being read.
    current: Option<OpenSource>,
    next_number: u64,
}

impl Blocks {
    pub(crate) fn new(sources: &[Source], options: &Options, progress: &Arc<Progress>) -> Self {
        Self {
            sources: sources.iter().cloned().enumerate().collect(),
            options: options.clone(),
            progress: Arc::clone(progress),
            current: None,
            next_number: 0,
        }
    }

    /// Fills the next block and returns its number, counted from 0; `None` after the last source
    /// and after an error.
    pub(crate) fn next(&mut self, block: &mut Block) -> Option<(u64, Result<BlockInfo, Problem>)> {
        let info = self.fill(block).transpose()?;
        if info.is_err() {
            self.current = None;
            self.sources.clear();
        }
        let number = self.next_number;
        self.next_number += 1;
        Some((number, info))
    }

    fn fill(&mut self, block: &mut Block) -> Result<Option<BlockInfo>, Problem> {
        loop {
            let source = match &mut self.current {
                Some(source) => source,
                None => match self.sources.pop_front() {
                    Some((file, source)) => {
                        self.current.insert(OpenSource::open(file, &source, &self.progress)?)
                    }
                    None => return Ok(None),
                },
            };
            let content = match source.fill(block) {
                Fill::Lines => source.content(block.text(), &self.options)?,
                Fill::TooLong => Content::TooLong,
                Fill::End(None) => {
                    self.current = None;
                    continue;
                }
                Fill::End(Some(cause)) => {
                    return Err(Problem::Read { file: source.name.clone(), cause });
                }
            };
            return Ok(Some(BlockInfo { file: source.file, content }));
        }
    }
}

/// How filling a block ended.
enum Fill {
    /// With whole lines.
    Lines,
    /// With the beginning of a line over the limit.
    TooLong,
    /// With nothing: the source ended or failed.
    End(Option<io::Error>),
}

/// A source that is being read.
struct OpenSource {
    file: usize,
    name: String,
    input: Box<dyn Read + Send>,
    is_live: bool,
    parser: Option<Arc<Parser>>,
    /// The beginning of a line whose end the last block did not have.
    carried: Vec<u8>,
    at_start: bool,
    at_end: bool,
    failure: Option<io::Error>,
}

impl OpenSource {
    fn open(file: usize, source: &Source, progress: &Arc<Progress>) -> Result<Self, Problem> {
        Ok(Self {
            file,
            name: source.name(),
            parser: None,
            input: source.open(progress)?,
            is_live: source.is_live(),
            carried: Vec::new(),
            at_start: true,
            at_end: false,
            failure: None,
        })
    }

    /// Chooses the parser at the first lines that are not blank.
    fn content(&mut self, text: &[u8], options: &Options) -> Result<Content, Problem> {
        let parser = match &mut self.parser {
            Some(parser) => parser,
            None if lines::split(text).all(lines::is_blank) => return Ok(Content::Blank),
            none => none.insert(Arc::new(Parser::new(&self.name, options, text)?)),
        };
        Ok(Content::Lines(Arc::clone(parser)))
    }

    fn fill(&mut self, block: &mut Block) -> Fill {
        block.bytes[..self.carried.len()].copy_from_slice(&self.carried);
        block.len = self.carried.len();
        self.carried.clear();
        let end = loop {
            if let Some(end) = self.complete(block) {
                break end;
            }
            if block.is_full() {
                match block.last_line_end() {
                    Some(end) => break end,
                    None => return self.skip_line(block),
                }
            }
            if self.at_end {
                // After a failure the last line may lack its end.
                break if self.failure.is_some() { block.last_line_end().unwrap_or(0) } else { block.len };
            }
            self.read(block, if block.len < BLOCK { BLOCK } else { LINE_LIMIT });
        };
        if end == 0 {
            return Fill::End(self.failure.take());
        }
        self.carried.extend_from_slice(&block.bytes[end..block.len]);
        block.len = end;
        if self.at_start && block.text().starts_with(BYTE_ORDER_MARK) {
            block.drop_before(BYTE_ORDER_MARK.len());
        }
        self.at_start = false;
        Fill::Lines
    }

    /// Where to cut the block if it holds enough lines.
    fn complete(&self, block: &Block) -> Option<usize> {
        if block.len < BLOCK && !self.is_live {
            return None;
        }
        let end = block.last_line_end()?;
        (self.parser.is_some() || detect::is_enough(&block.text()[..end])).then_some(end)
    }

    /// Reads once, behind what the block holds and up to `limit`.
    fn read(&mut self, block: &mut Block, limit: usize) {
        match self.input.read(&mut block.bytes[block.len..limit]) {
            Ok(0) => self.at_end = true,
            Ok(read) => block.len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                self.at_end = true;
                self.failure = Some(error);
            }
        }
    }

    /// Drops the rest of a line that is longer than a block.
    fn skip_line(&mut self, block: &mut Block) -> Fill {
        while !self.at_end {
            block.len = KEPT;
            self.read(block, BLOCK);
            let read = &block.bytes[KEPT..block.len];
            if let Some(end) = memchr(b'\n', read) {
                self.carried.extend_from_slice(&read[end + 1..]);
                break;
            }
        }
        block.len = KEPT;
        self.at_start = false;
        Fill::TooLong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LINE, options};

    /// Returns its bytes in pieces of these sizes, and then fails if `fails`.
    struct Pieces {
        text: Vec<u8>,
        at: usize,
        sizes: Vec<usize>,
        fails: bool,
    }

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = self.sizes.pop().unwrap_or(usize::MAX);
            let size = size.min(buffer.len()).min(self.text.len() - self.at);
            if size == 0 && self.fails {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer[..size].copy_from_slice(&self.text[self.at..self.at + size]);
            self.at += size;
            Ok(size)
        }
    }

    fn blocks(pieces: Pieces, is_live: bool) -> Blocks {
        let mut blocks = Blocks::new(&[], &options(), &Arc::default());
        blocks.current = Some(OpenSource {
            file: 0,
            name: "pieces".to_owned(),
            input: Box::new(pieces),
            is_live,
            parser: None,
            carried: Vec::new(),
            at_start: true,
            at_end: false,
            failure: None,
        });
        blocks
    }

    /// The blocks of a text, an overlong line as `too long`, and whether an error ended the
    /// reading.
    fn cut(pieces: Pieces, is_live: bool) -> (Vec<String>, bool) {
        let (mut blocks, mut block) = (blocks(pieces, is_live), Block::new());
        let (mut texts, mut expected) = (Vec::new(), 0);
        while let Some((number, info)) = blocks.next(&mut block) {
            assert_eq!(number, expected, "blocks are numbered without a gap");
            expected += 1;
            match info {
                Err(_) => {
                    assert!(blocks.next(&mut block).is_none(), "nothing follows an error");
                    return (texts, true);
                }
                Ok(BlockInfo { content: Content::TooLong, .. }) => texts.push("too long".to_owned()),
                Ok(_) => texts.push(String::from_utf8(block.text().to_vec()).expect("the text is a text")),
            }
        }
        (texts, false)
    }

    fn whole(text: &str) -> Pieces {
        Pieces { text: text.into(), at: 0, sizes: Vec::new(), fails: false }
    }

    #[test]
    fn blocks_end_with_a_line_and_together_are_the_text() {
        let text = format!("{LINE}\n").repeat(10_000) + LINE;
        let (blocks, _) = cut(whole(&text), false);
        assert!(blocks.len() > 2, "{}", blocks.len());
        assert!(blocks.iter().rev().skip(1).all(|block| block.ends_with('\n') && block.len() <= BLOCK));
        assert!(blocks.concat() == text);
    }

    #[test]
    fn a_live_source_hands_on_whole_lines_as_they_come() {
        let text = format!("{LINE}\n{LINE}\n");
        let sizes = vec![LINE.len(), 1 + LINE.len() / 2, LINE.len() / 2 + 1];
        let (blocks, _) = cut(Pieces { sizes, ..whole(&text) }, true);
        assert_eq!(blocks, [format!("{LINE}\n"), format!("{LINE}\n")]);
    }

    #[test]
    fn a_live_source_waits_for_a_line_with_a_format() {
        let text = format!("\n# a comment\n{LINE}\n");
        let (blocks, failed) = cut(Pieces { sizes: vec![3, 1], ..whole(&text) }, true);
        assert_eq!((blocks, failed), (vec![text], false));
    }

    #[test]
    fn the_line_after_an_overlong_line_is_whole() {
        let long = "x".repeat(3 * LINE_LIMIT);
        let text = format!("{LINE}\n{long}\n{LINE}\n{long}");
        let (blocks, _) = cut(whole(&text), false);
        assert_eq!(blocks, [format!("{LINE}\n"), "too long".into(), format!("{LINE}\n"), "too long".into()]);
    }

    #[test]
    fn the_longest_line_is_read() {
        let text = format!("{LINE} {}\n", "x".repeat(LINE_LIMIT - LINE.len() - 2));
        assert_eq!(text.len(), LINE_LIMIT);
        let (blocks, _) = cut(whole(&format!("{LINE}\n{text}{LINE}")), false);
        assert!(blocks.concat().contains(&text));
    }

    #[test]
    fn a_failure_keeps_the_whole_lines_before_it() {
        let text = format!("{LINE}\n{LINE}\n192.0.2.7 - - [20/Feb");
        let (blocks, failed) = cut(Pieces { fails: true, ..whole(&text) }, false);
        assert_eq!((blocks, failed), (vec![format!("{LINE}\n{LINE}\n")], true));
        assert_eq!(cut(Pieces { fails: true, ..whole("") }, false), (vec![], true));
    }

    #[test]
    fn a_byte_order_mark_is_removed() {
        let (blocks, _) = cut(whole("\u{feff}time,client\n"), false);
        assert_eq!(blocks, ["time,client\n"]);
    }

    #[test]
    fn a_source_of_blank_lines_needs_no_format() {
        assert_eq!(cut(whole("\n \n\r\n"), false), (vec!["\n \n\r\n".to_owned()], false));
        assert_eq!(cut(whole(""), false), (vec![], false));
    }
}
