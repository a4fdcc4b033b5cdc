//! Integers as numbers or as texts, and units by name, as proto3 reads them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use crate::rls::proto::RateLimitUnit;

/// An integer from 0 to `MOST`: `3`, `3.0`, `"3"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer<const MOST: u64>(pub(super) u64);

/// A unit: its name or its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitName(pub(super) i32);

struct IntegerVisitor<const MOST: u64>;

impl<const MOST: u64> Visitor<'_> for IntegerVisitor<MOST> {
    type Value = Integer<MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {MOST}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        if number <= MOST {
            Ok(Integer(number))
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(number), &self))
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        // Above 2^53 a float is not exact.
        let is_whole = number >= 0.0 && number <= (1_u64 << 53) as f64 && number.fract() == 0.0;
        if is_whole {
            self.visit_u64(number as u64)
        } else {
            Err(E::invalid_value(Unexpected::Float(number), &self))
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if is_number => self.visit_u64(number),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

impl<'de, const MOST: u64> Deserialize<'de> for Integer<MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(IntegerVisitor)
    }
}

struct UnitVisitor;

impl Visitor<'_> for UnitVisitor {
    type Value = UnitName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SECOND, MINUTE, HOUR, DAY, MONTH or YEAR")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<UnitName, E> {
        let known = i32::try_from(number).map(UnitName);
        known.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<UnitName, E> {
        let unit = RateLimitUnit::from_str_name(text);
        let unit = unit.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))?;
        Ok(UnitName(unit.into()))
    }
}

impl<'de> Deserialize<'de> for UnitName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UnitVisitor)
    }
}
