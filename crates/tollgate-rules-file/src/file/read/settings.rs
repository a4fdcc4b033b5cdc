//! What a file says for all rules: clients, paths, answers.

use toml::de::DeTable;

use super::{Reader, boxed, each, inner, number, text};
use crate::file::problem::Code;
use crate::file::text::{limit, value};
use tollgate_rules::{BodyFormat, Clients, HeaderStyle, Mode, Refusal};

/// The headers of a response that a file cannot set.
const OWN_HEADERS: [&str; 8] = [
    "connection",
    "content-length",
    "content-type",
    "date",
    "retry-after",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The mode that a table says.
pub(in crate::file) fn mode(table: &DeTable<'_>) -> Option<Mode> {
    match text(table, "mode")? {
        "enforce" => Some(Mode::Enforce),
        "shadow" => Some(Mode::Shadow),
        "off" => Some(Mode::Off),
        _ => None,
    }
}

impl Reader<'_, '_> {
    pub(in crate::file) fn clients(&mut self, file: &DeTable<'_>) -> Clients {
        let mut clients = Clients::default();
        let Some(table) = inner(file, "clients") else { return clients };
        if let Some(proxies) = table.get("trusted_proxies") {
            let networks = each(proxies).filter_map(|value| self.parsed(value, value::network));
            clients.trusted_proxies = networks.collect();
            let all = ipnet::IpNet::aggregate(&clients.trusted_proxies);
            if all.iter().any(|network| network.prefix_len() == 0) {
                let message = "the trusted proxies are the whole internet: any client could name its address";
                self.add(proxies.span(), Code::BadValue, message, "the networks of your own proxies");
            }
        }
        if let Some(header) = text(table, "header") {
            clients.header = header.to_ascii_lowercase().into();
            if let (None, Some(value)) = (table.get("trusted_proxies"), table.get("header")) {
                let message = "`header` is read from trusted proxies only, and there are none";
                self.add(value.span(), Code::Unfit, message, "trusted_proxies = [\"10.0.0.0/8\"]");
            }
        }
        clients.ipv6_prefix = number(table, "ipv6_prefix").unwrap_or(clients.ipv6_prefix);
        clients
    }

    /// `[answer]`, or a rule's `refuse`.
    pub(in crate::file) fn answer(&mut self, table: &DeTable<'_>) -> Refusal {
        let style = |text: &str| {
            Some(match text {
                "ietf" => HeaderStyle::Ietf,
                "x-ratelimit" => HeaderStyle::XRateLimit,
                "x-ratelimit-epoch" => HeaderStyle::XRateLimitEpoch,
                "x-ratelimit-retry-after" => HeaderStyle::XRateLimitRetryAfter,
                "trio" => HeaderStyle::Trio,
                _ => return None,
            })
        };
        let header = |(name, value): (_, &super::Value<'_>)| {
            let name: &str = toml::Spanned::<toml::de::DeString<'_>>::get_ref(name);
            Some((name.to_ascii_lowercase().into(), value.get_ref().as_str()?.into()))
        };
        let styles = table.get("styles").map(|styles| {
            each(styles).filter_map(|value| value.get_ref().as_str().and_then(style)).collect()
        });
        for (name, _) in inner(table, "headers").into_iter().flatten() {
            if OWN_HEADERS.iter().any(|own| name.get_ref().eq_ignore_ascii_case(own)) {
                let message = format!("the server writes `{}` itself", name.get_ref());
                self.add(
                    name.span(),
                    Code::BadValue,
                    message,
                    "content_type for the type, jitter for Retry-After",
                );
            }
        }
        if let (Some(value), None) = (table.get("content_type"), table.get("body")) {
            let message = "`content_type` is the type of `body`, and there is none";
            self.add(
                value.span(),
                Code::Unfit,
                message,
                "format = \"json\" for a body that the server writes",
            );
        }
        let mut answer = Refusal::default();
        answer.status = number(table, "status");
        answer.format = text(table, "format").and_then(|format| match format {
            "problem" => Some(BodyFormat::Problem),
            "json" => Some(BodyFormat::Json),
            "text" => Some(BodyFormat::Text),
            _ => None,
        });
        answer.body = boxed(table, "body");
        answer.content_type = boxed(table, "content_type");
        answer.headers = inner(table, "headers").into_iter().flatten().filter_map(header).collect();
        answer.styles = styles;
        answer.jitter = table.get("jitter").and_then(|value| self.parsed(value, limit::time));
        answer
    }
}
