//! Fields of rules that keep refused requests for later.

use super::kinds::{Field, Kind, TIME, Table, optional, table};
use crate::file::text::Text;

pub(super) const RULE_ON_REFUSAL: Field = optional(
    "on_refusal",
    Kind::Choice(&["answer", "park"]),
    "answer",
    "park: the proxy keeps what the rule refuses for a time (in the rule's store, or else in --park FILE), \
     answers 202, and sends it later.",
);

pub(super) const RULE_PARK: Field =
    optional("park", Kind::Table(&PARK), "see there", "How much is kept, and for how long.");

static PARK: Table = table(
    "park",
    &[
        optional(
            "requests",
            Kind::Integer { least: 1, most: 1_000_000 },
            "1000",
            "How many requests of the rule are kept, dead ones included.",
        ),
        optional(
            "requests_per_key",
            Kind::Integer { least: 1, most: 1_000_000 },
            "100",
            "How many of one key.",
        ),
        optional(
            "bytes",
            Kind::Integer { least: 1, most: 1 << 40 },
            "67108864",
            "How many bytes of heads and bodies are kept for the rule.",
        ),
        optional(
            "bytes_per_key",
            Kind::Integer { least: 1, most: 1 << 40 },
            "8388608",
            "How many of one key.",
        ),
        optional(
            "body",
            Kind::Integer { least: 0, most: 1 << 26 },
            "65536",
            "The longest body of a request that is kept, in bytes.",
        ),
        optional("age", TIME, "1d", "How long a request is kept before it expires."),
        optional(
            "tries",
            Kind::Integer { least: 1, most: 1_000 },
            "5",
            "How often a request is sent that the upstream does not take. Then it is dead.",
        ),
        optional(
            "retry",
            TIME,
            "1s",
            "The time before the second try. It doubles with each, up to a minute.",
        ),
        optional(
            "headers",
            Kind::List { of: &Kind::Text(Text::HeaderName), least: 0, most: 100 },
            "all",
            "The headers that are kept, beside `Host` and those in which proxies name the client.",
        ),
    ],
);
