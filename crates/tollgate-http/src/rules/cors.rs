//! Pages of other origins, in browsers (CORS): those that the file names read limits and refusals,
//! and their preflights are free.

use http::header::{ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, VARY};
use http::{HeaderMap, HeaderValue, Method};

use crate::{RequestHead, expose_limits};

/// The origins of the file.
#[derive(Debug)]
pub(super) struct Cors {
    origins: Box<[Box<str>]>,
    is_any: bool,
}

/// A page that may read a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page<'h> {
    /// The file names its origin.
    Named(&'h [u8]),
    /// Any page may.
    Any,
}

impl Cors {
    pub(super) fn new(origins: &[Box<str>]) -> Self {
        let is_any = origins.iter().any(|origin| **origin == *"*");
        Self { origins: origins.into(), is_any }
    }

    /// Returns the page that sends a request, if it may read the response.
    #[inline]
    fn page<'h>(&self, head: RequestHead<'h>) -> Option<Page<'h>> {
        if self.origins.is_empty() { None } else { self.named(head) }
    }

    fn named<'h>(&self, head: RequestHead<'h>) -> Option<Page<'h>> {
        let origin = head.header("origin")?;
        let is_named = self.origins.iter().any(|named| named.as_bytes() == origin);
        let any = if self.is_any { Some(Page::Any) } else { None };
        if is_named { Some(Page::Named(origin)) } else { any }
    }

    /// Whether a page that may read the response sends a request.
    #[inline]
    pub(super) fn concerns(&self, head: RequestHead<'_>) -> bool {
        self.page(head).is_some()
    }

    /// Whether a browser asks by this request whether such a page may send another one.
    #[inline]
    pub(super) fn is_preflight(&self, head: RequestHead<'_>) -> bool {
        head.method() == Method::OPTIONS
            && self.page(head).is_some()
            && head.header("access-control-request-method").is_some()
    }

    /// Lets a page read a response that Tollgate makes.
    pub(super) fn permit(&self, head: RequestHead<'_>, headers: &mut HeaderMap) {
        if self.origins.is_empty() {
            return;
        }
        // Also for a page that may not: a cache must not answer another one by it.
        headers.append(VARY, HeaderValue::from_static("Origin"));
        let origin = match self.page(head) {
            None => return,
            Some(Page::Any) => HeaderValue::from_static("*"),
            Some(Page::Named(origin)) => {
                let Ok(origin) = HeaderValue::from_bytes(origin) else { return };
                // A request with cookies may be read with them only.
                headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
                origin
            }
        };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        expose_limits(headers);
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn request(method: &str, headers: &[(&str, &str)]) -> Request<()> {
        let request = Request::builder().method(method).uri("/x");
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(()).unwrap()
    }

    #[test]
    fn only_a_question_of_a_named_page_is_a_preflight() {
        let asks = ("access-control-request-method", "PUT");
        let shop = ("origin", "https://shop.example");
        let cors = Cors::new(&["https://shop.example".into()]);
        for (method, headers, is_preflight) in [
            ("OPTIONS", &[shop, asks][..], true),
            ("OPTIONS", &[shop], false),
            ("OPTIONS", &[asks], false),
            ("POST", &[shop, asks], false),
            ("OPTIONS", &[("origin", "https://shop.example.evil"), asks], false),
            ("OPTIONS", &[("origin", "http://shop.example"), asks], false),
            ("OPTIONS", &[("origin", "null"), asks], false),
        ] {
            let request = request(method, headers);
            assert_eq!(cors.is_preflight(RequestHead::of(&request)), is_preflight, "{headers:?}");
            assert!(!Cors::new(&[]).is_preflight(RequestHead::of(&request)));
            assert!(!Cors::new(&[]).concerns(RequestHead::of(&request)));
        }
    }

    #[test]
    fn a_named_page_reads_with_cookies_and_any_page_without() {
        let answer = |origins: &[&str], origin: &str| {
            let origins: Vec<Box<str>> = origins.iter().map(|origin| (*origin).into()).collect();
            let mut headers = HeaderMap::new();
            let request = request("GET", &[("origin", origin)]);
            Cors::new(&origins).permit(RequestHead::of(&request), &mut headers);
            let text = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            [ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_ALLOW_CREDENTIALS, VARY].map(text)
        };
        let (shop, some) = ("https://shop.example", |text: &str| Some(text.to_owned()));
        assert_eq!(answer(&[shop], shop), [some(shop), some("true"), some("Origin")]);
        assert_eq!(answer(&[shop], "https://evil.example"), [None, None, some("Origin")]);
        assert_eq!(answer(&["*", shop], shop), [some(shop), some("true"), some("Origin")]);
        assert_eq!(answer(&["*"], shop), [some("*"), None, some("Origin")]);
        assert_eq!(answer(&[], shop), [None, None, None]);
    }
}
