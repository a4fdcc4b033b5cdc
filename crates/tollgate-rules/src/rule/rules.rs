//! The rules of a file, and what the file says for all of them.

use ipnet::IpNet;

use crate::rule::{Refusal, Rule, RuleTest};

/// Rules, and the settings of all of them: those of a rules file and of the files that it includes,
/// with lists in place of their names. A program may make them, too.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rules {
    /// The rules, in the order of the files. The order means nothing.
    pub rules: Vec<Rule>,
    /// Where a request's client address comes from.
    pub clients: Clients,
    /// Whether conditions that restrict see paths folded: `/Login/` as `/login`.
    pub fold_paths: bool,
    /// How refused requests are answered, as far as their rule does not say.
    pub answer: Refusal,
    /// The origins of pages that read limits and refusals, and whose preflights are free; `*` is
    /// any.
    pub cors: Vec<Box<str>>,
    /// Which limit headers a response has whose service has written some.
    pub upstream_limits: UpstreamLimits,
    /// How many bytes the tables of all limits together may come to take.
    pub memory_budget: usize,
    /// The tests of the rules.
    pub tests: Vec<RuleTest>,
}

impl Default for Rules {
    /// No rules, and the defaults of a rules file.
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            clients: Clients::default(),
            fold_paths: true,
            answer: Refusal::default(),
            cors: Vec::new(),
            upstream_limits: UpstreamLimits::default(),
            memory_budget: 1 << 30,
            tests: Vec::new(),
        }
    }
}

impl Rules {
    /// These rules, and the defaults of a rules file for all else.
    #[must_use]
    pub fn of(rules: Vec<Rule>) -> Self {
        Self { rules, ..Self::default() }
    }

    /// The same rules with all counts in this process, as for a look back at a log: no store is
    /// asked or changed.
    #[must_use]
    pub fn in_process(mut self) -> Self {
        self.rules.iter_mut().for_each(|rule| rule.store = None);
        self
    }
}

/// Where a request's client address comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Clients {
    /// The networks of the proxies whose header is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The header that they write, in lower case. `forwarded` is read as RFC 7239 says, any other
    /// as `X-Forwarded-For`.
    pub header: Box<str>,
    /// The bits of an IPv6 address that make one client, 1 to 128.
    pub ipv6_prefix: u8,
}

impl Default for Clients {
    /// No trusted proxies; their header would be `x-forwarded-for`; a /64 is one client.
    fn default() -> Self {
        Self { trusted_proxies: Vec::new(), header: "x-forwarded-for".into(), ipv6_prefix: 64 }
    }
}

/// Which limit headers a response has whose service has written some. A client reads all of them as
/// one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpstreamLimits {
    /// Those of the limit that leaves less, or as much for longer.
    #[default]
    Stricter,
    /// Those of these rules.
    Ours,
}
