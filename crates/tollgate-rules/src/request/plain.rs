//! A request as data.

use std::net::IpAddr;

use super::{Field, Request, is_misspelled};

/// A request as data: a step of a test, a line of a log, a question.
///
/// # Examples
///
/// ```
/// use tollgate_rules::PlainRequest;
///
/// let login = PlainRequest {
///     method: Some("POST".into()),
///     target: Some("/login?next=/".into()),
///     client: Some([203, 0, 113, 9].into()),
///     headers: vec![("user-agent".into(), "curl/8".into())],
///     ..PlainRequest::default()
/// };
/// assert_eq!(login.labels, []);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlainRequest {
    /// The method.
    pub method: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// The path and the query, as they were sent.
    pub target: Option<Vec<u8>>,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// Names, in any case, and values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// What a trusted caller says of the request.
    pub labels: Vec<(String, Vec<u8>)>,
    /// The domain of a call by Envoy.
    pub domain: Option<String>,
    /// The entries of its descriptor.
    pub entries: Vec<(String, Vec<u8>)>,
}

impl Request for PlainRequest {
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8])) {
        let mut text = |text: &Option<String>| text.iter().for_each(|text| see(text.as_bytes()));
        match field {
            Field::Method => text(&self.method),
            Field::Host => {
                text(&self.host);
                let named = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host"));
                named.for_each(|(_, value)| see(value));
            }
            Field::Target => self.target.iter().for_each(|target| see(target)),
            Field::Header(name) => {
                let named = self.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
                named.for_each(|(_, value)| see(value));
            }
            Field::Misspelled(name) => {
                let named = self.headers.iter().filter(|(own, _)| is_misspelled(own, name));
                named.for_each(|(_, value)| see(value));
            }
            Field::Label(name) => named(&self.labels, name, see),
            Field::Domain => text(&self.domain),
            Field::Entry(name) => named(&self.entries, name, see),
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }
}

fn named(pairs: &[(String, Vec<u8>)], name: &str, see: &mut dyn FnMut(&[u8])) {
    pairs.iter().filter(|(own, _)| own == name).for_each(|(_, value)| see(value));
}
