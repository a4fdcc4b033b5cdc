//! The head of a plain answer, as bytes.

use std::cell::RefCell;
use std::io::Write;
use std::time::{Duration, SystemTime};

use http::{Response, StatusCode};
use hyper::body::Body;
use hyper::ext::ReasonPhrase;

use super::headers;

/// The longest body of a plain answer: it is in memory as a whole.
pub const LONGEST: u64 = 64 << 10;

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
    let Some(has) = headers::write(answer.headers(), digits, out) else {
        out.truncate(begin);
        return None;
    };
    if !has.length {
        headers::line("content-length", digits, out);
    }
    if ends {
        headers::line("connection", b"close", out);
    }
    if !has.date {
        Date::with_now(|date| headers::line("date", date, out));
    }
    out.extend_from_slice(b"\r\n");
    Some(length)
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
