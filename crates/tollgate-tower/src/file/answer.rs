//! The response to a refused request, as the rule (`refuse`) and the file (`[answer]`) say.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tollgate_http::{GrpcResponder, HeaderStyles, HttpResponder, Refusal, RequestHead, Respond};
use tollgate_rules::{BodyFormat, Refusal as Said};

use super::generation::styles;

/// How a refusal is answered: what the rule leaves out, the file says.
pub(super) struct Answer<'g> {
    rule: &'g Said,
    file: &'g Said,
}

impl<'g> Answer<'g> {
    pub(super) fn new(rule: &'g Said, file: &'g Said) -> Self {
        Self { rule, file }
    }

    pub(super) fn styles(&self) -> HeaderStyles {
        styles(self.rule.styles.as_deref().or(self.file.styles.as_deref()))
    }

    /// Returns a wait with the jitter that clients are told.
    pub(super) fn jittered(&self, wait: Duration) -> Duration {
        match self.rule.jitter.or(self.file.jitter) {
            Some(jitter) => wait.saturating_add(random_up_to(jitter)),
            None => wait,
        }
    }

    /// Returns the response without the headers of the limits. A client of gRPC understands no
    /// other status and body than its protocol's.
    pub(super) fn respond(&self, refusal: &Refusal<'_>) -> Response<String> {
        let mut response =
            if is_grpc(refusal.head()) { GrpcResponder.respond(refusal) } else { self.respond_http(refusal) };
        for (name, value) in self.file.headers.iter().chain(&self.rule.headers) {
            add(response.headers_mut(), name, value);
        }
        response
    }

    fn respond_http(&self, refusal: &Refusal<'_>) -> Response<String> {
        let status = self.rule.status.or(self.file.status);
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        let status = status.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        match self.body() {
            Some((kind, body)) => {
                let mut response = Response::new(String::from(body));
                *response.status_mut() = status;
                if let Ok(kind) = HeaderValue::from_str(kind) {
                    response.headers_mut().insert(CONTENT_TYPE, kind);
                }
                response
            }
            None => {
                let format = match self.rule.format.or(self.file.format).unwrap_or(BodyFormat::Problem) {
                    BodyFormat::Problem => HttpResponder::problem(),
                    BodyFormat::Json => HttpResponder::json(),
                    BodyFormat::Text => HttpResponder::text(),
                };
                format.status(status).respond(refusal)
            }
        }
    }

    /// Returns the text in place of a body that the server writes, with its type. A rule's format
    /// wins over the file's text.
    fn body(&self) -> Option<(&'g str, &'g str)> {
        let said =
            [self.rule, self.file].into_iter().find(|said| said.body.is_some() || said.format.is_some())?;
        Some((said.content_type.as_deref().unwrap_or("text/plain"), said.body.as_deref()?))
    }
}

/// Returns whether the client of a request speaks gRPC or grpc-web: by the content type, in any
/// case, with or without a message format (`application/grpc-web+proto`).
fn is_grpc(head: RequestHead<'_>) -> bool {
    let kind = head.header("content-type").unwrap_or_default();
    let Some((start, rest)) = kind.split_at_checked(b"application/grpc".len()) else { return false };
    start.eq_ignore_ascii_case(b"application/grpc")
        && rest.first().is_none_or(|next| matches!(next, b'+' | b'-' | b';' | b' '))
}

/// Adds a header in place of one of the same name. The reader of the file has checked both.
fn add(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
        headers.insert(name, value);
    }
}

/// Returns a random time of at most `most`.
fn random_up_to(most: Duration) -> Duration {
    // Each `RandomState` has another key.
    let random = u128::from(RandomState::new().build_hasher().finish());
    let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos((((u128::from(most) + 1) * random) >> u64::BITS) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_within_its_bound_and_spread() {
        let most = Duration::from_millis(100);
        let waits: Vec<_> = (0..1_000).map(|_| random_up_to(most)).collect();
        assert!(waits.iter().all(|wait| *wait <= most));
        let short = waits.iter().filter(|wait| **wait < most / 2).count();
        assert!((300..700).contains(&short), "{short} of 1,000");
        assert_eq!(random_up_to(Duration::ZERO), Duration::ZERO);
    }
}
