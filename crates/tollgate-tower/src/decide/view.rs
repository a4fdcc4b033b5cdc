//! A request as rules see it.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::HOST;
use http::uri::PathAndQuery;
use tollgate::CallQuota;
use tollgate_rules::{Field, Request, is_misspelled};

use super::generation::Generation;
use crate::RequestHead;
use crate::rule::{Closures, tell};

/// Reads a label of a request.
pub(crate) type Label = Box<dyn for<'r> Fn(RequestHead<'r>) -> Option<Cow<'r, str>> + Send + Sync>;

/// What tells the labels of a request.
pub(crate) enum Labels {
    /// Closures, by the names of the labels.
    #[cfg_attr(not(feature = "rules"), expect(dead_code, reason = "only files name labels"))]
    Named(Vec<(Box<str>, Label)>),
    /// The closures of the rules, by their indices.
    OfRules(Box<[Closures]>),
}

/// The head of a request, with what the layer knows beside it. It copies nothing.
pub(super) struct HeadView<'r> {
    pub(super) head: RequestHead<'r>,
    pub(super) generation: &'r Generation,
    pub(super) labels: &'r Labels,
    /// A bit for each rule whose backend has failed.
    pub(super) failed: u64,
}

impl HeadView<'_> {
    fn see_label(&self, name: &str, see: &mut dyn FnMut(&[u8])) {
        match self.labels {
            Labels::Named(labels) => {
                let label = labels.iter().find(|(own, _)| **own == *name);
                let value = label.and_then(|(_, label)| label(self.head));
                value.into_iter().for_each(|value| see(value.as_bytes()));
            }
            Labels::OfRules(rules) => {
                let lacks_key = |rule| self.generation.telemetry_of(rule).warn_missing_key();
                tell(rules, name, &self.head, self.failed, lacks_key, see);
            }
        }
    }
}

impl Request for HeadView<'_> {
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8])) {
        let head = &self.head;
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
            Field::Label(name) => self.see_label(name, see),
            // Those of calls by Envoy.
            _ => {}
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.generation.http.client().of(self.head)
    }

    fn quota(&self, rule: &str) -> Option<CallQuota> {
        let Labels::OfRules(rules) = self.labels else { return None };
        rules.iter().find(|closures| closures.name() == rule)?.quota_of(&self.head)
    }
}
