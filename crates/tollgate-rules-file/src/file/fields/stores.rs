//! The fields of a store, and those of a rule with one.

use super::kinds::{Field, Kind, TIME, Table, optional, required, table};
use crate::file::text::Text;

const ON_FAILURE: Kind = Kind::Either(const { &[Kind::Choice(&["refuse", "allow"]), Kind::Table(&LOCAL)] });
const URLS: Kind = Kind::List { of: &Kind::Text(Text::StoreUrl), least: 1, most: 64 };

pub(super) static STORE: Table = table(
    "store",
    &[
        optional(
            "url",
            Kind::Text(Text::StoreUrl),
            "none",
            "The address of Redis or Valkey; with sentinels, its host is the master's name. This or `url_env`.",
        ),
        optional("url_env", Kind::Text(Text::Variable), "none", "An environment variable with the address."),
        optional("cluster", URLS, "no cluster", "Addresses of further nodes of the cluster."),
        optional("sentinels", URLS, "none", "Addresses of the sentinels that know the master."),
        optional("deadline", TIME, "10ms", "The longest wait for an answer, 1ms to 1min."),
        optional("prefix", Kind::Text(Text::Prefix), "tg1", "What the names of all keys begin with."),
    ],
);

static LEASES: Table = table(
    "leases",
    &[
        required(
            "nodes",
            Kind::Integer { least: 1, most: 1_000_000 },
            "How many processes share the limit: each takes its part of the burst at most.",
        ),
        optional("ttl", TIME, "50ms", "How long a permit may be spent, 1ms to 1min: at least 8 trips."),
    ],
);

static LOCAL: Table = table(
    "on_failure",
    &[required(
        "local",
        Kind::Integer { least: 1, most: 1_000_000 },
        "How many processes share the limits: each decides by its share.",
    )],
);

pub(super) const RULE_STORE: Field = optional(
    "store",
    Kind::Text(Text::Store),
    "this process",
    "Where the counts are kept: a name in `stores`, or an address. All processes share them.",
);

pub(super) const RULE_ON_FAILURE: Field =
    optional("on_failure", ON_FAILURE, "refuse", "What decides while the store does not answer.");

pub(super) const RULE_DENY_CACHE: Field = optional(
    "deny_cache",
    Kind::Integer { least: 0, most: 1 << 24 },
    "0",
    "Refusals of how many keys are remembered for up to a second, without a trip.",
);

pub(super) const RULE_LEASES: Field = optional(
    "leases",
    Kind::Table(&LEASES),
    "each request is a trip",
    "Permits are taken from the store ahead, and spent without a trip.",
);
