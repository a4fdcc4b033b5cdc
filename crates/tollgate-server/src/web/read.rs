//! From JSON to a type of ours.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tollgate_net::web::{Answer, problem_at};

use super::pointer::pointer_at;

/// The longest text of an error that is told: it may repeat a part of the body.
const LONGEST: usize = 200;

/// A type that is read from an object only. A derived reader takes an array of its fields as well.
pub(crate) struct Object<T>(pub(crate) T);

impl<'b, T: Deserialize<'b>> Deserialize<'b> for Object<T> {
    fn deserialize<D: Deserializer<'b>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);

        impl<'b, T: Deserialize<'b>> Visitor<'b> for Read<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'b>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Read(PhantomData))
    }
}

/// Reads JSON. An error says where it is.
pub(crate) fn read_json<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, Box<Answer>> {
    // Once for all texts, many bytes at a time. If not, the reader says where it is no UTF-8.
    let read = match str::from_utf8(body) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(body),
    };
    read.map_err(|error| Box::new(refuse(body, &error)))
}

#[cold]
fn refuse(body: &[u8], error: &serde_json::Error) -> Answer {
    let mut detail = error.to_string();
    if let Some((end, _)) = detail.char_indices().nth(LONGEST) {
        detail.truncate(end);
    }
    problem_at(&pointer_at(body, error.line(), error.column()), &detail)
}
