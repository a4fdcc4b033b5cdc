//! A request as rules see it.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::HOST;
use http::uri::PathAndQuery;
use tollgate_rules::{Field, Request, is_misspelled};

use crate::{ClientAddress, RequestHead};

/// Reads a label of a request.
pub(super) type Label = Box<dyn for<'r> Fn(RequestHead<'r>) -> Option<Cow<'r, str>> + Send + Sync>;

/// Labels by name.
pub(super) type Labels = Vec<(Box<str>, Label)>;

/// The head of a request, with what the layer knows beside it. It copies nothing.
pub(super) struct HeadView<'r> {
    pub(super) head: RequestHead<'r>,
    pub(super) client: &'r ClientAddress,
    pub(super) labels: &'r Labels,
}

impl Request for HeadView<'_> {
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8])) {
        let Self { head, labels, .. } = self;
        match field {
            Field::Method => see(head.method().as_str().as_bytes()),
            Field::Host => {
                let authority = head.uri().authority().map(|authority| authority.as_str().as_bytes());
                authority.into_iter().for_each(&mut *see);
                // HTTP/2 and absolute targets have the host twice.
                let is_other = |host: &[u8]| !authority.is_some_and(|one| one.eq_ignore_ascii_case(host));
                let hosts = head.headers().get_all(HOST).into_iter().map(http::HeaderValue::as_bytes);
                hosts.filter(|host| is_other(host)).for_each(see);
            }
            Field::Target => see(head.uri().path_and_query().map_or("/", PathAndQuery::as_str).as_bytes()),
            Field::Header(name) => {
                head.headers().get_all(name).into_iter().for_each(|value| see(value.as_bytes()));
            }
            Field::Misspelled(name) => {
                let named = head.headers().iter().filter(|(own, _)| is_misspelled(own.as_str(), name));
                named.for_each(|(_, value)| see(value.as_bytes()));
            }
            Field::Label(name) => {
                let label = labels.iter().find(|(own, _)| **own == *name);
                let value = label.and_then(|(_, label)| label(*head));
                value.into_iter().for_each(|value| see(value.as_bytes()));
            }
            // Those of calls by Envoy.
            _ => {}
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.client.of(self.head)
    }
}
