//! The one table of fields: what a rules file may say.
//!
//! The walker checks a file by it, the JSON Schema is generated from it, and
//! docs/reference/rules.md lists it. A field has a kind, which is all that can be said of its value
//! alone; what depends on other fields, `read` checks.

mod kinds;
mod park;
mod stores;

use super::text::Text;
pub(in crate::file) use kinds::{Field, Kind, Need, Table};
use kinds::{TIME, optional, required, table};
use park::{RULE_ON_REFUSAL, RULE_PARK};
use stores::{RULE_DENY_CACHE, RULE_LEASES, RULE_ON_FAILURE, RULE_STORE, STORE};

/// The most rules of all files.
pub(in crate::file) const MOST_RULES: usize = 10_000;
/// The most limits of a rule or tier.
const MOST_LIMITS: usize = 8;
/// The most attributes of a key.
pub(in crate::file) const MOST_PARTS: usize = 8;
/// The most keys of a rule.
pub(in crate::file) const MOST_KEYS: u64 = 1 << 36;
/// The most tiers of a rule.
pub(in crate::file) const MOST_TIERS: usize = 64;
/// The status of a request of a test whose end is never told.
pub(in crate::file) const LOST: &str = "lost";
/// The largest integer of TOML.
const MAX: u64 = i64::MAX as u64;

// Before Rust 1.89, what an argument borrows does not live on. In a constant of its own, it does.
macro_rules! one_or_more {
    ($kind:expr, $most:expr) => {
        Kind::Either(const { &[$kind, Kind::List { of: &$kind, least: 1, most: $most }] })
    };
}

const TEXT: Kind = Kind::Text(Text::Any { most: 4096 });
const NAME: Kind = Kind::Text(Text::Name);
const MODE: Kind = Kind::Choice(&["enforce", "shadow", "off"]);
const STATUS: Kind = Kind::Integer { least: 100, most: 599 };
const VALUE: Kind = one_or_more!(Kind::Text(Text::Value), 10_000);
const VALUES: Kind = Kind::Map { key: Text::AttributeName, of: &VALUE, least: 1 };
const HEADERS: Kind = Kind::Map { key: Text::HeaderName, of: &VALUE, least: 1 };
const TEXTS: Kind = Kind::Map { key: Text::AttributeName, of: &TEXT, least: 0 };
const LIMITS: Kind = Kind::Either(&[
    Kind::Text(Text::Limits),
    Kind::List { of: &Kind::Text(Text::Limit), least: 1, most: MOST_LIMITS },
]);
const CONDITIONS: Kind = one_or_more!(Kind::Table(&CONDITION), 1_000);
const LISTS: Kind = Kind::Map {
    key: Text::Name,
    of: &Kind::Either(
        const { &[Kind::List { of: &Kind::Text(Text::Entry), least: 0, most: 100_000 }, Kind::Table(&LIST)] },
    ),
    least: 0,
};
const RULES: Kind = Kind::List { of: &Kind::Table(&RULE), least: 0, most: MOST_RULES };
const TESTS: Kind = Kind::List { of: &Kind::Table(&TEST), least: 0, most: 1_000 };
const VERSION: Field =
    required("version", Kind::Integer { least: 1, most: 1 }, "The version of the format: 1.");
const ALL_LISTS: Field = optional(
    "lists",
    LISTS,
    "none",
    "Lists of values by name, for conditions: `@NAME`. Names are unique over all files.",
);
const ALL_RULES: Field = optional("rule", RULES, "none", "The rules. Their order means nothing.");
const ALL_TESTS: Field = optional("test", TESTS, "none", "Tests of the rules.");

pub(in crate::file) static FILE: Table = table(
    "file",
    &[
        VERSION,
        optional("mode", MODE, "enforce", "The mode of rules that say none, in all files."),
        optional(
            "include",
            one_or_more!(Kind::Text(Text::Files), 1_000),
            "none",
            "Further files, beside this one; `*` in the last part of a path. They hold `version`, `lists`, `rule` and `test`.",
        ),
        optional("clients", Kind::Table(&CLIENTS), "see there", "Where a client's address comes from."),
        optional("paths", Kind::Table(&PATHS), "see there", "How paths are compared."),
        optional(
            "answer",
            Kind::Table(&ANSWER),
            "see there",
            "How refused requests are answered, unless their rule says it.",
        ),
        optional(
            "cors",
            Kind::List { of: &Kind::Text(Text::Origin), least: 1, most: 1_000 },
            "none",
            "Origins of pages that read limits and refusals, and whose preflights are free.",
        ),
        optional(
            "upstream_limits",
            Kind::Choice(&["stricter", "ours"]),
            "stricter",
            "Which limit headers a response has whose service has written some: those of the stricter limit, or ours.",
        ),
        optional(
            "memory_budget_mib",
            Kind::Integer { least: 1, most: 1 << 40 },
            "1024",
            "The most memory, in MiB, that the keys of all rules together may come to take.",
        ),
        optional(
            "stores",
            Kind::Map { key: Text::Name, of: &Kind::Table(&STORE), least: 0 },
            "none",
            "Stores by name, for `store` of rules.",
        ),
        ALL_LISTS,
        ALL_RULES,
        ALL_TESTS,
    ],
);

pub(in crate::file) static INCLUDED: Table =
    table("included file", &[VERSION, ALL_LISTS, ALL_RULES, ALL_TESTS]);

static CLIENTS: Table = table(
    "clients",
    &[
        optional(
            "trusted_proxies",
            Kind::List { of: &Kind::Text(Text::Network), least: 1, most: 10_000 },
            "none",
            "Networks of the proxies whose header is believed. Without it the client is the connection's peer.",
        ),
        optional(
            "header",
            Kind::Text(Text::HeaderName),
            "x-forwarded-for",
            "The header that they write; `forwarded` is read as RFC 7239 says.",
        ),
        optional(
            "ipv6_prefix",
            Kind::Integer { least: 1, most: 128 },
            "64",
            "The bits of an IPv6 address that make one client.",
        ),
    ],
);

static PATHS: Table = table(
    "paths",
    &[optional(
        "fold",
        Kind::Bool,
        "true",
        "Whether rules that restrict see `/Login/` and `//login` as `/login`. Only for backends that tell them apart: false.",
    )],
);

static ANSWER: Table = table(
    "answer",
    &[
        optional("status", Kind::Integer { least: 400, most: 599 }, "429", "The status."),
        optional(
            "format",
            Kind::Choice(&["problem", "json", "text"]),
            "problem",
            "The form of the body that the server writes.",
        ),
        optional("body", Kind::Text(Text::Any { most: 65_536 }), "none", "A text in place of that body."),
        optional("content_type", Kind::Text(Text::HeaderValue), "text/plain", "The type of `body`."),
        optional(
            "headers",
            Kind::Map { key: Text::HeaderName, of: &Kind::Text(Text::HeaderValue), least: 0 },
            "none",
            "Further headers.",
        ),
        optional(
            "styles",
            Kind::List {
                of: &Kind::Choice(&[
                    "ietf",
                    "x-ratelimit",
                    "x-ratelimit-epoch",
                    "x-ratelimit-retry-after",
                    "trio",
                ]),
                least: 0,
                most: 5,
            },
            "[\"ietf\"]",
            "The headers that describe the limits.",
        ),
        optional(
            "jitter",
            TIME,
            "0s",
            "The most that is added at random to all times that clients are told: `Retry-After`, `t` of `RateLimit`, resets.",
        ),
    ],
);

static LIST: Table = Table {
    name: "list",
    fields: &[
        optional(
            "file",
            Kind::Text(Text::File),
            "none",
            "A file with an entry a line, beside the file that names it; `#` begins a comment.",
        ),
        optional(
            "env",
            Kind::Text(Text::Variable),
            "none",
            "An environment variable with entries between commas.",
        ),
    ],
    count: (1, 1),
};

pub(in crate::file) static RULE: Table = table(
    "rule",
    &[
        required("name", NAME, "The name, unique over all files. State is kept by it."),
        optional("was", NAME, "none", "The name before a change of it: the state stays."),
        optional(
            "match",
            CONDITIONS,
            "all requests",
            "The requests that the rule concerns: a table (all must hold), or a list of tables (any).",
        ),
        optional("except", CONDITIONS, "none", "Of those, the ones that it does not concern."),
        required(
            "key",
            Kind::Either(&[
                Kind::Text(Text::Key),
                Kind::List { of: &Kind::Text(Text::KeyPart), least: 1, most: MOST_PARTS },
            ]),
            "Whose limit a request uses: \"everyone\", or attributes.",
        ),
        optional(
            "missing",
            Kind::Choice(&["share", "refuse", "pass"]),
            "share",
            "A request without a part of the key: all such share one limit, are refused, or pass if it is absent.",
        ),
        required("limits", LIMITS, "One to eight limits, all or nothing; or \"unlimited\"; or \"block\"."),
        optional(
            "tier",
            Kind::List { of: &Kind::Table(&TIER), least: 1, most: MOST_TIERS },
            "none",
            "Other limits for some of the requests. The first that fits counts.",
        ),
        optional("cost", COST, "1", "What a request costs: a number, an attribute, or cases. 0 only looks."),
        optional(
            "mode",
            MODE,
            "the file's",
            "shadow: decide and count, refuse nothing. off: only check the text.",
        ),
        optional(
            "replaces",
            Kind::Either(&[
                Kind::Text(Text::NameOrAll),
                Kind::List { of: &Kind::Text(Text::NameOrAll), least: 1, most: MOST_RULES },
            ]),
            "none",
            "Rules that are not asked when this one concerns a request; \"*\": all that do not say \"*\".",
        ),
        optional("charge_if", Kind::Table(&CHARGE_IF), "always", "Which responses are charged."),
        optional(
            "ban",
            TIME,
            "none",
            "How long a key is refused once the rule has refused it. Refusals do not prolong it.",
        ),
        optional("max_wait", TIME, "no limit", "The longest wait in the queue of a leaky bucket."),
        RULE_STORE,
        RULE_ON_FAILURE,
        RULE_DENY_CACHE,
        RULE_LEASES,
        optional(
            "refuse",
            Kind::Table(&ANSWER),
            "the file's answer",
            "How a refusal by this rule is answered.",
        ),
        RULE_ON_REFUSAL,
        RULE_PARK,
        optional(
            "inherit",
            Kind::Choice(&["as-is", "proportional", "additive"]),
            "additive",
            "What becomes of debts when a reload changes the numbers.",
        ),
        optional(
            "forget",
            Kind::Bool,
            "false",
            "Whether a reload may forget debts that it cannot keep. Take it out again.",
        ),
        optional(
            "max_keys",
            Kind::Integer { least: 1, most: MOST_KEYS },
            "65536",
            "How many keys in debt the rule holds at once.",
        ),
    ],
);

pub(in crate::file) static CONDITION: Table = Table {
    name: "condition",
    fields: &[
        optional("method", one_or_more!(Kind::Text(Text::Method), 10_000), "any", "The method."),
        optional(
            "host",
            one_or_more!(Kind::Text(Text::Host), 10_000),
            "any",
            "The host; `*.example.com` is any below it.",
        ),
        optional(
            "path",
            one_or_more!(Kind::Text(Text::Path), 10_000),
            "any",
            "Patterns: `/users/{id}`, `/users/*`, `/static/**`.",
        ),
        optional("client", one_or_more!(Kind::Text(Text::Client), 10_000), "any", "Addresses and networks."),
        optional("header", HEADERS, "any", "Headers by name."),
        optional("cookie", VALUES, "any", "Cookies by name."),
        optional("query", VALUES, "any", "Parameters of the query by name."),
        optional("label", VALUES, "any", "Labels by name: what a trusted caller says."),
        optional("domain", VALUE, "any", "The domain of a call by Envoy."),
        optional("entry", VALUES, "any", "Entries of its descriptor by key."),
    ],
    count: (1, usize::MAX),
};

static TIER: Table = table(
    "tier",
    &[
        required("name", NAME, "The name, unique in the rule."),
        required("match", CONDITIONS, "The requests of the tier."),
        required("limits", LIMITS, "Their limits."),
    ],
);

const COST: Kind = Kind::Either(
    const {
        &[
            Kind::Integer { least: 0, most: MAX },
            Kind::Table(&COST_FROM),
            Kind::List { of: &Kind::Table(&COST_CASE), least: 1, most: 64 },
        ]
    },
);

static COST_FROM: Table = table(
    "cost",
    &[
        required("from", Kind::Text(Text::CostFrom), "The attribute with the number."),
        optional(
            "default",
            Kind::Integer { least: 0, most: MAX },
            "1",
            "The cost where it is missing or no number.",
        ),
    ],
);

static COST_CASE: Table = table(
    "cost case",
    &[
        optional(
            "match",
            CONDITIONS,
            "all requests",
            "The requests. The first case that fits counts; if none does, the cost is 1.",
        ),
        required("is", Kind::Integer { least: 0, most: MAX }, "What they cost."),
    ],
);

static CHARGE_IF: Table = table(
    "charge_if",
    &[required("status", one_or_more!(STATUS, 500), "The statuses of the responses that are charged.")],
);

pub(in crate::file) static TEST: Table = table(
    "test",
    &[
        required("name", Kind::Text(Text::Any { most: 256 }), "What the test says of the rules."),
        optional("at", Kind::DateTime, "2026-01-01T00:00:00Z", "The instant at which its clock starts."),
        required("steps", Kind::List { of: &Kind::Table(&STEP), least: 1, most: 1_000 }, "The requests."),
    ],
);

static STEP: Table = table(
    "step",
    &[
        optional("at", TIME, "as the step before", "The time since the start. It does not go back."),
        optional("times", Kind::Integer { least: 1, most: 1_000_000 }, "1", "How often the request is made."),
        optional("send", Kind::Text(Text::Send), "none", "A method and a target: \"GET /x\"."),
        optional("client", Kind::Text(Text::Address), "none", "The client's address."),
        optional(
            "headers",
            Kind::Map {
                key: Text::HeaderName,
                of: &one_or_more!(Kind::Text(Text::HeaderValue), 100),
                least: 0,
            },
            "none",
            "Headers: a value, or several.",
        ),
        optional("labels", TEXTS, "none", "Labels."),
        optional(
            "cost",
            Kind::Integer { least: 0, most: MAX },
            "1",
            "The cost that the caller names, where no rule computes one.",
        ),
        optional(
            "status",
            Kind::Either(&[Kind::Choice(&[LOST]), STATUS]),
            "200",
            "The status of the response, for rules with `charge_if`; lost: its end is never told, and what it charged stays.",
        ),
        optional(
            "lasts",
            TIME,
            "it ends at once",
            "How long the request lasts: until then it holds what it charged, and its places in flight.",
        ),
        optional(
            "settles",
            Kind::Integer { least: 0, most: MAX },
            "its cost",
            "What it really cost, told at its end to the rules that do not know it.",
        ),
        optional("domain", TEXT, "none", "The domain of a call by Envoy."),
        optional("entries", TEXTS, "none", "The entries of its descriptor."),
        optional(
            "expect",
            Kind::Either(&[OUTCOME, Kind::Table(&EXPECT)]),
            "anything",
            "What must become of it.",
        ),
    ],
);

const OUTCOME: Kind = Kind::Choice(&["admitted", "refused", "never"]);

static EXPECT: Table = table(
    "expectation",
    &[
        optional("outcome", OUTCOME, "any", "admitted, refused, or never: it costs more than a limit."),
        optional("refused_by", NAME, "any", "The rule that the refusal names."),
        optional("retry_after", TIME, "any", "The exact wait of the refusal."),
        optional("delay", TIME, "any", "The wait in a queue."),
        optional(
            "asked",
            Kind::List { of: &NAME, least: 0, most: MOST_RULES },
            "any",
            "All rules that are asked, in any order.",
        ),
    ],
);
