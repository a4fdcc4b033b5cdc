//! The fields of a store, and of a rule's `on_failure`.

use super::{Kind, TIME, Table, optional, required, table};
use crate::file::text::Text;

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

pub(super) static LEASES: Table = table(
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

pub(super) static LOCAL: Table = table(
    "on_failure",
    &[required(
        "local",
        Kind::Integer { least: 1, most: 1_000_000 },
        "How many processes share the limits: each decides by its share.",
    )],
);
