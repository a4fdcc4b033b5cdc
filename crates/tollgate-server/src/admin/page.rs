//! The live page: one file, which loads nothing.

use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use http::{HeaderValue, StatusCode};
use sha2::{Digest, Sha256};
use tollgate_net::web::{self, Answer};

const PAGE: &str = include_str!("live.html");

/// What a browser may do with the page: run its own script, use its own style, ask its own server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash("script"),
        hash("style"),
    );
    HeaderValue::from_str(&policy).expect("hashes and directives are visible ASCII")
});

pub(super) fn answer() -> Answer {
    let mut answer = web::with(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

/// The hash of the only element of this name, as a policy writes it.
fn hash(element: &str) -> String {
    let (_, after) = PAGE.split_once(&format!("<{element}>")).expect("the page has it");
    let (inside, _) = after.split_once(&format!("</{element}>")).expect("it is closed");
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(inside)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_and_writes_no_markup() {
        for forbidden in [
            "://",
            "src=",
            "innerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            " style=\"",
            " onclick",
        ] {
            // The one name that looks like an address is that of SVG.
            let page = PAGE.replace("http://www.w3.org/2000/svg", "");
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!((PAGE.matches("<script").count(), PAGE.matches("<style").count()), (1, 1));
        let policy = POLICY.to_str().unwrap();
        assert!(!policy.contains("unsafe") && policy.starts_with("default-src 'none'; script-src 'sha256-"));
    }
}
