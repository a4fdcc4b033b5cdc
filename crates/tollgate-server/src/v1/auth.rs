//! `/v1/auth`: whether a proxy may let a request pass.
//!
//! The proxy says the request in headers: `X-Forwarded-Method`, `-Uri`, `-Host`, and in the last
//! entry of `X-Forwarded-For` the address of the connection that it has from the client. They are
//! believed of trusted proxies only. From that address on the client is found as the rules file
//! says (`[clients]`), in the headers of the request, which the proxy passes on.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use ipnet::IpNet;
use tollgate_http::RequestHead;
use tollgate_net::listen::Peer;
use tollgate_net::web::{Answer, RequestBody, problem};
use tollgate_proxy::Generation;
use tollgate_rules::{Ask, Field, Line, Ruling, Ticket, Verdict, is_misspelled};

use super::service::Service;
use crate::clock::ServerClock;
use crate::metrics::Listener;
use crate::settings::Settings;
use crate::web::NoAddress;

const METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Who is believed, and what.
pub(super) struct Auth {
    trusted: Box<[IpNet]>,
    labels: Box<[(String, HeaderName)]>,
    /// Whether an operator was told of a query that means nothing.
    has_told: AtomicBool,
}

/// The request that a proxy asks about.
struct Forwarded<'r> {
    head: &'r Parts,
    method: &'r HeaderValue,
    target: &'r HeaderValue,
    host: Option<&'r HeaderValue>,
    labels: &'r [(String, HeaderName)],
    client: Option<IpAddr>,
}

/// What becomes of the request.
enum Judged {
    Admitted { headers: HeaderMap, turn: Option<(Duration, Turn)> },
    Refused(Box<Response<String>>),
}

/// A request's turn in a queue. Dropping it gives the turn back: the client has left.
struct Turn(Option<Box<Ticket<ServerClock>>>);

impl Turn {
    /// The request acts. What it is charged stays.
    fn act(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(ticket) = self.0.take() {
            ticket.cancel();
        }
    }
}

impl Auth {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            trusted: settings.auth_trusted.clone().into(),
            labels: settings.auth_labels.clone().into(),
            has_told: AtomicBool::new(false),
        }
    }

    /// Tells an operator once of a query that was probably meant to be `deny=`.
    fn tell_of(&self, query: Option<&str>) {
        if !self.has_told.load(Relaxed)
            && let Some(told) = query.and_then(unread)
            && !self.has_told.swap(true, Relaxed)
        {
            tracing::warn!("{told}");
        }
    }

    fn trusts(&self, peer: Peer) -> bool {
        match peer {
            Peer::Tcp(address) => {
                let address = address.ip().to_canonical();
                self.trusted.iter().any(|network| network.contains(&address))
            }
            // The permissions of the socket say who may connect.
            Peer::Unix => true,
        }
    }
}

impl Service {
    /// Answers whether a request may pass. One that has to wait in a queue is answered when its
    /// turn has come.
    pub(super) async fn authorize(&self, peer: Peer, head: &mut Parts, body: RequestBody) -> Answer {
        let refuse = |detail: &str| {
            self.core.metrics.counts(Listener::Http).protocol_error("auth", peer.address());
            problem(StatusCode::BAD_REQUEST, detail)
        };
        if !self.auth.trusts(peer) {
            return refuse("the peer is not trusted to name requests");
        }
        let deny = deny(head.uri.query());
        if deny.is_none() {
            self.auth.tell_of(head.uri.query());
        }
        // Only behind the body it shows that the client leaves.
        if let Err(answer) = self.read(peer, body).await {
            return answer;
        }
        let connection = match take_connection(&mut head.headers) {
            Ok(connection) => connection,
            Err(detail) => return refuse(&detail),
        };
        let judged = match self.judge(head, connection).await {
            Ok(judged) => judged,
            Err(detail) => return refuse(detail),
        };
        match judged {
            Judged::Admitted { headers, turn } => {
                if let Some((delay, turn)) = turn {
                    Box::pin(tokio::time::sleep(delay)).await;
                    turn.act();
                }
                let mut answer = Answer::default();
                *answer.headers_mut() = headers;
                answer
            }
            Judged::Refused(response) => denied(*response, deny),
        }
    }

    /// Answers at once, as if the turn of a request that waits had come.
    pub(crate) fn authorize_now(&self, mut head: Parts) -> Result<StatusCode, String> {
        let connection = take_connection(&mut head.headers)?;
        Ok(match crate::core::ready(self.judge(&head, connection))? {
            Judged::Admitted { turn, .. } => {
                turn.into_iter().for_each(|(_, turn)| turn.act());
                StatusCode::OK
            }
            Judged::Refused(response) => response.status(),
        })
    }

    /// Decides the request. An error says what the proxy does not.
    async fn judge(&self, head: &Parts, connection: Option<IpAddr>) -> Result<Judged, &'static str> {
        let [method, target, host] = ones(&head.headers, [&METHOD, &URI, &HOST])?;
        let method = method.ok_or("there is no X-Forwarded-Method")?;
        let target = target.ok_or("there is no X-Forwarded-Uri")?;
        let labels = &*self.auth.labels;
        let request = |generation: &Generation| {
            let client = generation.http.client();
            let client = connection.map(|address| client.of_peer(address, RequestHead::of_parts(head)));
            Forwarded { head, method, target, host, labels, client }
        };
        let ask = Ask { in_flight: false, ..Ask::default() };
        let mut decider = self.core.decider();
        // What a browser asks before it sends a request.
        if method == "OPTIONS" && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            let look = Ask { is_peek: true, ..ask };
            let judged = decider.decide(&self.core, &request, look, |verdict, generation| {
                let is_free = generation.http.is_of_page(RequestHead::of_parts(head));
                is_free.then(|| self.preflight(&verdict, generation, head))
            });
            if let Some(judged) = judged.await {
                return Ok(judged);
            }
        }
        let judged = decider.decide(&self.core, &request, ask, |verdict, generation| {
            self.core.metrics.decided(Listener::Http, &verdict);
            self.judged(verdict, generation, head)
        });
        Ok(judged.await)
    }

    /// Lets the preflight of a page pass that the file names (`cors`), unless a rule blocks its
    /// client. It is charged nothing.
    fn preflight(&self, verdict: &Verdict<'_, ServerClock>, generation: &Generation, head: &Parts) -> Judged {
        let blocks = |line: &&Line| matches!(line.ruling, Ruling::Blocked | Ruling::NoKey);
        let blocking: Vec<Line> = verdict.lines().iter().filter(blocks).copied().collect();
        let (head, at) = (RequestHead::of_parts(head), verdict.decided_at());
        match generation.http.refusal(&blocking) {
            Some(refusal) => Judged::Refused(Box::new(refusal.respond(head, at, &self.core.unix_zero))),
            None => Judged::Admitted { headers: HeaderMap::new(), turn: None },
        }
    }

    fn judged(&self, verdict: Verdict<'_, ServerClock>, generation: &Generation, head: &Parts) -> Judged {
        let (http, zero, at) = (&generation.http, &self.core.unix_zero, verdict.decided_at());
        if let Some(refusal) = http.refusal(verdict.lines()) {
            return Judged::Refused(Box::new(refusal.respond(RequestHead::of_parts(head), at, zero)));
        }
        let mut headers = HeaderMap::new();
        let delay = verdict.delay();
        http.write_headers(verdict.lines(), (at, delay), zero, &mut headers);
        let turn = (!delay.is_zero()).then(|| (delay, Turn(Some(Box::new(verdict.ticket())))));
        Judged::Admitted { headers, turn }
    }
}

/// Returns the answer to a refused request, with this status in place of the rules'.
fn denied(response: Response<String>, deny: Option<StatusCode>) -> Answer {
    let (mut parts, body) = response.into_parts();
    let Some(status) = deny else { return Response::from_parts(parts, Full::new(Bytes::from(body))) };
    parts.status = status;
    // The body tells the rules' status.
    parts.headers.remove(CONTENT_TYPE);
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Full::default())
}

/// Returns the status of the query `deny=403`. Other queries mean nothing: Caddy appends that of
/// its client.
fn deny(query: Option<&str>) -> Option<StatusCode> {
    let status = query?.strip_prefix("deny=")?.parse().ok();
    let status = status.filter(|status| (401..=599).contains(status))?;
    StatusCode::from_u16(status).ok()
}

/// What an operator is told of a query that means nothing, and whose name is `deny` or whose value
/// is a status. A client's own query may look so, too, so it is no error.
fn unread(query: &str) -> Option<String> {
    let (name, value) = query.split_once('=').unwrap_or((query, ""));
    let is_word = (1..=16).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_status = value.parse().is_ok_and(|status: u16| (400..=599).contains(&status));
    (is_word && (name == "deny" || is_status)).then(|| {
        format!(
            "/v1/auth was asked with `{name}=`, which means nothing: the status of a refusal is set by \
             `?deny=STATUS`, from 401 to 599. (It may be the query of a client, which Caddy appends.)"
        )
    })
}

/// Returns the values of headers that may not come twice. One pass finds all: to look each one up
/// costs more.
fn ones<'h, const N: usize>(
    headers: &'h HeaderMap,
    names: [&HeaderName; N],
) -> Result<[Option<&'h HeaderValue>; N], &'static str> {
    let mut values = [None; N];
    for (name, value) in headers {
        if let Some(place) = names.iter().position(|own| *own == name)
            && values[place].replace(value).is_some()
        {
            return Err("a header X-Forwarded-* comes twice");
        }
    }
    Ok(values.map(|value| value.filter(|value| !value.is_empty())))
}

/// Takes the last entry out of `X-Forwarded-For`: the address of the connection that the proxy has
/// from its client. The rest is sent by the client, or by another proxy.
fn take_connection(headers: &mut HeaderMap) -> Result<Option<IpAddr>, String> {
    let is_one = headers.iter().filter(|(name, _)| **name == FOR).nth(1).is_none();
    let mut kept: Vec<HeaderValue> = match is_one {
        true => Vec::new(),
        false => headers.get_all(FOR).iter().cloned().collect(),
    };
    let removed = headers.remove(FOR);
    let Some(last) = kept.pop().or(removed) else { return Ok(None) };
    let bytes = last.as_bytes();
    let (rest, entry) = match bytes.iter().rposition(|byte| *byte == b',') {
        Some(comma) => (&bytes[..comma], &bytes[comma + 1..]),
        None => (&[][..], bytes),
    };
    let Some(address) = str::from_utf8(entry).ok().and_then(|entry| address(entry.trim())) else {
        let entry = String::from_utf8_lossy(entry);
        return Err(format!("the last entry of X-Forwarded-For: {}", NoAddress::of(&entry)));
    };
    if !rest.is_empty() {
        kept.extend(HeaderValue::from_bytes(rest));
    }
    for line in kept {
        headers.append(FOR, line);
    }
    Ok(Some(address))
}

/// An address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let plain = || text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    plain().or_else(with_port).or_else(bracketed).map(|address: IpAddr| address.to_canonical())
}

impl tollgate_rules::Request for Forwarded<'_> {
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8])) {
        match field {
            Field::Method => see(self.method.as_bytes()),
            Field::Host => self.host.iter().for_each(|host| see(host.as_bytes())),
            Field::Target => see(self.target.as_bytes()),
            // That of the proxy's own request is tollgate's.
            Field::Header("host") => self.host.iter().for_each(|host| see(host.as_bytes())),
            Field::Header(name) => {
                self.head.headers.get_all(name).iter().for_each(|value| see(value.as_bytes()));
            }
            Field::Misspelled(name) => {
                let named = self.head.headers.iter().filter(|(own, _)| is_misspelled(own.as_str(), name));
                named.for_each(|(_, value)| see(value.as_bytes()));
            }
            Field::Label(name) => {
                let label = self.labels.iter().find(|(own, _)| own == name);
                let values = label.map(|(_, header)| self.head.headers.get_all(header));
                values.into_iter().flatten().for_each(|value| see(value.as_bytes()));
            }
            // Those of calls by Envoy.
            _ => {}
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_told_of_a_misspelt_deny() {
        for (query, name) in
            [("dny=403", "dny"), ("deny=200", "deny"), ("deny", "deny"), ("status=401", "status")]
        {
            let told = unread(query).expect(query);
            assert!(
                told.starts_with(&format!("/v1/auth was asked with `{name}=`, which means nothing")),
                "{told}"
            );
            assert!(told.contains("`?deny=STATUS`, from 401 to 599"), "{told}");
        }
        for query in ["", "id=7", "id=200", "x=403&y=1", "q=hunter2", "token-of-a-client=403", "a%20b=403"] {
            assert_eq!(unread(query), None, "{query}");
        }
    }
}
