//! Damaged files are errors, and no layer is built.

use std::io::{self, Read};

use super::*;

/// A layer whose saved rule has every part: a tier, a key of its own, and bans.
fn settings() -> Builder {
    let rule = Rule::new("api", hourly_bucket(3))
        .key(by_header("k"))
        .tier(|head| head.path() == "/paid", [SlidingLog::new(Rate::per_hour(3))])
        .for_key("own", hourly_bucket(3))
        .ban(BAN)
        .max_keys(8);
    let by_claim = Rule::per_request("plan", |_| None).max_keys(8);
    layer_with(rule).rule(by_claim).clock(clock(SECOND))
}

async fn file() -> Vec<u8> {
    let layer = settings().build().unwrap();
    for (path, key) in [("/", "a"), ("/", "own"), ("/paid", "b"), ("/paid", "b")] {
        assert_eq!(status(&layer, path, &[("k", key)]).await, 200);
    }
    assert_eq!(statuses(&layer, 4, &[("k", "c")]).await, [200, 200, 200, 429]);
    saved(&layer)
}

fn restore(file: impl Read) -> Result<TollgateLayer, RestoreError> {
    settings().restore(file).map(|(layer, _)| layer)
}

#[tokio::test]
async fn a_file_cut_short_anywhere_is_truncated() {
    let file = file().await;
    assert!(restore(&file[..]).is_ok());
    for len in 0..file.len() {
        let error = restore(&file[..len]).expect_err("a part is not the whole");
        assert!(matches!(error, RestoreError::Truncated), "{len} bytes: {error:?}");
    }
}

#[tokio::test]
async fn every_damaged_byte_is_found() {
    let file = file().await;
    for at in 0..file.len() {
        for change in [1, 0x80] {
            let mut damaged = file.clone();
            damaged[at] ^= change;
            let error = restore(&damaged[..]).expect_err("a damaged file");
            let expected = match at {
                0..8 => matches!(error, RestoreError::Foreign { .. }),
                8..12 => matches!(error, RestoreError::Version { known: 5, .. }),
                _ => matches!(error, RestoreError::Corrupt | RestoreError::Truncated),
            };
            assert!(expected, "byte {at}, {change}: {error:?}");
        }
    }
}

#[tokio::test]
async fn a_missing_section_is_found() {
    // The parts of the file of a layer with two rules, and of layers with one of them.
    let of = |names: &[&str]| {
        let rules = names.iter().map(|name| Rule::new(*name, hourly_bucket(3)).max_keys(8));
        saved(&rules.fold(TollgateLayer::builder(), Builder::rule).clock(clock(SECOND)).build().unwrap())
    };
    let (one, both) = (of(&["one"]), of(&["one", "two"]));
    // The block of one behind that of both, and the other way round: a last block is 12 bytes.
    let end = |file: &[u8]| file.len() - 12;
    let swapped = [&both[..end(&both)], &one[12..]].concat();
    assert!(matches!(restore(&swapped[..]), Err(RestoreError::Corrupt)));
    let swapped = [&one[..end(&one)], &both[end(&both)..]].concat();
    assert!(matches!(restore(&swapped[..]), Err(RestoreError::Corrupt)));
}

#[test]
fn a_foreign_file_is_named_so() {
    let limiter = tollgate::Limiter::builder(hourly_bucket(3)[0]).per::<str>().build().unwrap();
    let mut of_the_engine = Vec::new();
    limiter.save(&mut of_the_engine).unwrap();
    for foreign in [&b"# Tollgate\n"[..], b"{\"rules\": []}", &[0; 4_096], &of_the_engine] {
        assert!(matches!(restore(foreign), Err(RestoreError::Foreign { .. })));
    }
    let error = restore(&of_the_engine[..]).unwrap_err();
    assert_eq!(error.to_string(), "this is not a saved layer");
    assert!(matches!(restore(&b""[..]), Err(RestoreError::Truncated)));
}

#[test]
fn a_file_of_a_former_format_is_named_so() {
    let former = b"\xA7gate\r\n\x1A\x02\0\0\0\x01\x03api";
    let error = restore(&former[..]).unwrap_err();
    assert_eq!(error.to_string(), "it was saved in format 2, but only format 5 is known here");
}

#[tokio::test]
async fn an_error_of_the_reader_keeps_its_cause() {
    struct Broken<'a>(&'a [u8]);
    impl Read for Broken<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() { Err(io::Error::other("the disk is on fire")) } else { self.0.read(into) }
        }
    }
    let file = file().await;
    for len in [0, 5, 12, 20, 60, 100, file.len() - 20, file.len() - 1] {
        let error = restore(Broken(&file[..len])).unwrap_err();
        let expected = "the file could not be read: the disk is on fire";
        assert_eq!(error.to_string(), expected, "after {len} bytes");
    }
}

/// Returns one byte at a time, after an interruption.
struct Slow<'a>(&'a [u8], bool);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        let len = into.len().min(1);
        if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(&mut into[..len]) }
    }
}

#[tokio::test]
async fn a_slow_reader_restores_the_same() {
    let file = file().await;
    let layer = restore(Slow(&file, false)).unwrap();
    let left = |key| layer.handle("api").unwrap().key(key).unwrap().peek(0).remaining;
    assert_eq!((left("a"), left("own"), left("c")), (2, 2, 0));
}

/// A reader that never ends: some bytes, and then always the same one.
struct Endless<'a>(&'a [u8], u8);

impl Read for Endless<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            into.fill(self.1);
            return Ok(into.len());
        }
        self.0.read(into)
    }
}

#[tokio::test]
async fn no_length_decides_an_allocation() {
    let file = file().await;
    // Before each byte of the file's first parts, the lengths that follow are as large as can be.
    for len in 12..200 {
        for byte in [0xFF, 0x7F] {
            let allocated = allocation_counter::measure(|| {
                let error = restore(Endless(&file[..len], byte)).unwrap_err();
                assert!(matches!(error, RestoreError::Corrupt), "{error:?}");
            });
            assert!(allocated.bytes_max < 1 << 20, "{allocated:?}");
        }
    }
}

#[tokio::test]
async fn several_layers_fit_in_one_file() {
    let one = settings().build().unwrap();
    assert_eq!(status(&one, "/", &[("k", "a")]).await, 200);
    let two = settings().build().unwrap();
    let mut file = Vec::new();
    assert_eq!(one.save(&mut file).unwrap(), 1);
    assert_eq!(two.save(&mut file).unwrap(), 0);
    file.extend_from_slice(b"more");
    let mut rest = &file[..];
    let left = |layer: &TollgateLayer| layer.handle("api").unwrap().key("a").unwrap().peek(0).remaining;
    assert_eq!(left(&settings().restore(&mut rest).unwrap().0), 2);
    assert_eq!(left(&settings().restore(&mut rest).unwrap().0), 3);
    assert_eq!(rest, b"more");
}

#[test]
fn an_error_of_the_writer_is_that_of_the_save() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let written = bytes.len().min(self.0);
            self.0 -= written;
            Ok(written)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let layer = settings().build().unwrap();
    let len = saved(&layer).len();
    for room in [0, 5, 12, 40, 200, len - 1] {
        assert_eq!(layer.save(Full(room)).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
    assert_eq!(layer.save(Full(len)).unwrap(), 0);
}
