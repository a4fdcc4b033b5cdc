//! A request as JSON, and many.
//!
//! Texts without escapes are borrowed from the body. Nothing is built of unknown fields: an
//! unknown field is an error where it stands.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tollgate_rules::{Field, Request, is_misspelled};

use crate::web::Client;

/// The most requests of a batch.
pub(super) const MOST_REQUESTS: usize = 1000;

/// The most headers of a request, and the most labels.
const MOST_LINES: usize = 100;

/// What a caller asks of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// To decide and to charge them.
    Check,
    /// To look only.
    Peek,
    /// As a check, and to tell when they may act.
    Reserve,
    /// As a check, by the limits of requests in flight, too.
    Acquire,
}

/// The body of `/v1/check` and its like: a request, or a batch.
#[derive(Debug, Default)]
pub(super) struct Body<'b> {
    pub(super) one: Call<'b>,
    pub(super) requests: Option<Vec<Call<'b>>>,
    pub(super) together: Option<bool>,
}

/// A request that rules are asked about.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Call<'b> {
    method: Option<Text<'b>>,
    host: Option<Text<'b>>,
    target: Option<Text<'b>>,
    client: Option<Client>,
    headers: Option<Lines<'b>>,
    labels: Option<Lines<'b>>,
    pub(super) cost: Option<u64>,
    pub(super) ticket: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Method,
    Host,
    Target,
    Client,
    Headers,
    Labels,
    Cost,
    Ticket,
    Requests,
    Together,
}

/// The fields of a body. Those of a request are the first [`OF_A_REQUEST`].
const NAMES: [(&str, Name); 10] = [
    ("method", Name::Method),
    ("host", Name::Host),
    ("target", Name::Target),
    ("client", Name::Client),
    ("headers", Name::Headers),
    ("labels", Name::Labels),
    ("cost", Name::Cost),
    ("ticket", Name::Ticket),
    ("requests", Name::Requests),
    ("together", Name::Together),
];
pub(super) const OF_A_REQUEST: usize = 8;

/// The names of [`NAMES`].
pub(super) const FIELDS: [&str; NAMES.len()] = {
    let mut names = [""; NAMES.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = NAMES[index].0;
        index += 1;
    }
    names
};

impl Body<'_> {
    /// The first field beside `requests` and `together`.
    pub(super) fn field_of_one(&self) -> Option<&'static str> {
        let Call { method, host, target, client, headers, labels, cost, ticket } = &self.one;
        let has = [
            method.is_some(),
            host.is_some(),
            target.is_some(),
            client.is_some(),
            headers.is_some(),
            labels.is_some(),
            cost.is_some(),
            ticket.is_some(),
        ];
        has.iter().position(|has| *has).map(|index| FIELDS[index])
    }
}

/// Reads the fields of a request, and of a batch if it may be one.
fn read<'b, A: MapAccess<'b>>(mut map: A, may_be_batch: bool) -> Result<Body<'b>, A::Error> {
    let mut body = Body::default();
    let names = if may_be_batch { &NAMES[..] } else { &NAMES[..OF_A_REQUEST] };
    while let Some(FieldName(name)) = map.next_key()? {
        let Some((known, field)) = names.iter().find(|(known, _)| *known == name.0) else {
            let names = if may_be_batch { &FIELDS[..] } else { &FIELDS[..OF_A_REQUEST] };
            return Err(Error::unknown_field(&name.0, names));
        };
        let one = &mut body.one;
        match field {
            Name::Method => set(&mut one.method, known, &mut map)?,
            Name::Host => set(&mut one.host, known, &mut map)?,
            Name::Target => set(&mut one.target, known, &mut map)?,
            Name::Client => set(&mut one.client, known, &mut map)?,
            Name::Headers => set(&mut one.headers, known, &mut map)?,
            Name::Labels => set(&mut one.labels, known, &mut map)?,
            Name::Cost => set(&mut one.cost, known, &mut map)?,
            Name::Ticket => set(&mut one.ticket, known, &mut map)?,
            Name::Requests => {
                let mut requests: Option<Calls<'b>> = body.requests.take().map(Calls);
                set(&mut requests, known, &mut map)?;
                body.requests = requests.map(|Calls(calls)| calls);
            }
            Name::Together => set(&mut body.together, known, &mut map)?,
        }
    }
    Ok(body)
}

/// Reads the value of a field that may come once.
fn set<'b, T: Deserialize<'b>, A: MapAccess<'b>>(
    field: &mut Option<T>,
    name: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    if field.is_some() {
        return Err(Error::duplicate_field(name));
    }
    *field = Some(map.next_value()?);
    Ok(())
}

macro_rules! deserialize {
    ($type:ty, $method:ident, $expecting:literal, { $($visit:item)* }) => {
        impl<'b> Deserialize<'b> for $type {
            fn deserialize<D: Deserializer<'b>>(deserializer: D) -> Result<Self, D::Error> {
                struct Read;

                impl<'b> Visitor<'b> for Read {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    $($visit)*
                }

                deserializer.$method(Read)
            }
        }
    };
}

deserialize!(Body<'b>, deserialize_map, "a request or a batch", {
    fn visit_map<A: MapAccess<'b>>(self, map: A) -> Result<Self::Value, A::Error> {
        read(map, true)
    }
});

deserialize!(Call<'b>, deserialize_map, "a request", {
    fn visit_map<A: MapAccess<'b>>(self, map: A) -> Result<Self::Value, A::Error> {
        Ok(read(map, false)?.one)
    }
});

/// The name of a field.
struct FieldName<'b>(Text<'b>);

impl<'b> Deserialize<'b> for FieldName<'b> {
    fn deserialize<D: Deserializer<'b>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(Self)
    }
}

/// A text, borrowed if it has no escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text<'b>(Cow<'b, str>);

deserialize!(Text<'b>, deserialize_str, "a string", {
    fn visit_borrowed_str<E: Error>(self, text: &'b str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.into())))
    }
});

/// The requests of a batch.
struct Calls<'b>(Vec<Call<'b>>);

deserialize!(Calls<'b>, deserialize_seq, "an array of requests", {
    fn visit_seq<A: SeqAccess<'b>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut calls = Vec::new();
        // One more than allowed tells that there are too many.
        while calls.len() <= MOST_REQUESTS
            && let Some(call) = elements.next_element()?
        {
            calls.push(call);
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Calls(calls))
    }
});

/// Names and values: headers or labels.
#[derive(Debug, Default, PartialEq)]
struct Lines<'b>(Vec<(Text<'b>, Text<'b>)>);

deserialize!(Lines<'b>, deserialize_map, "an object of names with values", {
    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut lines = Lines::default();
        while let Some(name) = map.next_key::<Text<'b>>()? {
            if lines.0.iter().any(|(other, _)| *other == name) {
                return Err(A::Error::custom("the name comes twice: give its values as an array"));
            }
            match map.next_value()? {
                Values::One(value) => lines.0.push((name, value)),
                Values::Many(values) => {
                    lines.0.extend(values.into_iter().map(|value| (name.clone(), value)));
                }
            }
            if lines.0.len() > MOST_LINES {
                return Err(A::Error::custom(format_args!("more than {MOST_LINES} values")));
            }
        }
        Ok(lines)
    }
});

/// The values of a name: a text, a number, or several texts.
enum Values<'b> {
    One(Text<'b>),
    Many(Vec<Text<'b>>),
}

deserialize!(Values<'b>, deserialize_any, "a string, a whole number, or an array of strings", {
    fn visit_borrowed_str<E: Error>(self, text: &'b str) -> Result<Self::Value, E> {
        Ok(Values::One(Text(Cow::Borrowed(text))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Values::One(Text(Cow::Owned(text.into()))))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Values::One(Text(Cow::Owned(number.to_string()))))
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = elements.next_element()? {
            if values.len() == MOST_LINES {
                return Err(A::Error::custom(format_args!("more than {MOST_LINES} values")));
            }
            values.push(value);
        }
        Ok(Values::Many(values))
    }
});

impl<'b> Call<'b> {
    fn lines<'l>(lines: &'l Option<Lines<'b>>) -> &'l [(Text<'b>, Text<'b>)] {
        lines.as_ref().map_or(&[], |lines| &lines.0)
    }
}

impl Request for &Call<'_> {
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8])) {
        let mut text = |text: &Option<Text<'_>>| text.iter().for_each(|text| see(text.0.as_bytes()));
        let headers = |is_named: &dyn Fn(&str) -> bool, see: &mut dyn FnMut(&[u8])| {
            let named = Call::lines(&self.headers).iter().filter(|(own, _)| is_named(&own.0));
            named.for_each(|(_, value)| see(value.0.as_bytes()));
        };
        match field {
            Field::Method => text(&self.method),
            Field::Host => {
                text(&self.host);
                headers(&|own| own.eq_ignore_ascii_case("host"), see);
            }
            Field::Target => text(&self.target),
            Field::Header(name) => headers(&|own| own.eq_ignore_ascii_case(name), see),
            Field::Misspelled(name) => headers(&|own| is_misspelled(own, name), see),
            Field::Label(name) => {
                let named = Call::lines(&self.labels).iter().filter(|(own, _)| own.0 == name);
                named.for_each(|(_, value)| see(value.0.as_bytes()));
            }
            // Those of calls by Envoy.
            _ => {}
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.client.map(|Client(address)| address)
    }
}

#[cfg(test)]
mod tests;
