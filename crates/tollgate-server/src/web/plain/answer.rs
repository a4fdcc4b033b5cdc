//! The head of a plain answer, as bytes.

use std::cell::RefCell;
use std::io::Write;
use std::time::{Duration, SystemTime};

use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use http::{Response, StatusCode};
use hyper::body::Body;
use hyper::ext::ReasonPhrase;

/// The longest body of a plain answer: it is in memory as a whole.
const LONGEST: u64 = 64 << 10;

/// The bytes of a date.
const DATE_LENGTH: usize = 29;

/// Appends the head of a plain answer, and returns the length of its body. `ends` tells the client
/// that its connection ends with this answer. `None`: the answer is not plain, and nothing is
/// appended.
pub(super) fn write_head<B: Body>(answer: &Response<B>, ends: bool, out: &mut Vec<u8>) -> Option<u64> {
    let status = answer.status();
    let length = answer.body().size_hint().exact().filter(|length| *length <= LONGEST)?;
    let is_bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if is_bodiless || status.is_informational() || answer.extensions().get::<ReasonPhrase>().is_some() {
        return None;
    }
    let (begin, mut digits) = (out.len(), itoa::Buffer::new());
    let digits = digits.format(length).as_bytes();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or("<none>").as_bytes());
    out.extend_from_slice(b"\r\n");
    let (mut has_length, mut has_date) = (false, false);
    for (name, value) in answer.headers() {
        match *name {
            // They say how the body ends in other ways, or which end the connection.
            TRANSFER_ENCODING | CONNECTION => {
                out.truncate(begin);
                return None;
            }
            CONTENT_LENGTH if has_length || value.as_bytes() != digits => {
                out.truncate(begin);
                return None;
            }
            CONTENT_LENGTH => has_length = true,
            DATE => has_date = true,
            _ => {}
        }
        line(name.as_str(), value.as_bytes(), out);
    }
    if !has_length {
        line("content-length", digits, out);
    }
    if ends {
        line("connection", b"close", out);
    }
    if !has_date {
        Date::with_now(|date| line("date", date, out));
    }
    out.extend_from_slice(b"\r\n");
    Some(length)
}

fn line(name: &str, value: &[u8], out: &mut Vec<u8>) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// The date that a thread has written last.
struct Date {
    second: u64,
    text: [u8; DATE_LENGTH],
}

impl Date {
    fn with_now(show: impl FnOnce(&[u8])) {
        thread_local! {
            static LAST: RefCell<Date> = const { RefCell::new(Date { second: 0, text: [0; DATE_LENGTH] }) };
        }
        // A clock before 1970 is one that was never set.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::from_secs(1));
        LAST.with_borrow_mut(|last| {
            if last.second != now.as_secs() {
                last.second = now.as_secs();
                let date = httpdate::HttpDate::from(SystemTime::UNIX_EPOCH + now);
                // As long as its room, up to the year 9999.
                let _ = write!(&mut last.text[..], "{date}");
            }
            show(&last.text);
        });
    }
}
