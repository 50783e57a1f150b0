//! The fields of a JSON object, read strictly: each once, none that is unknown, and errors that name field and value.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::format::grid::{quote, shorten};

/// The fields of an object that were not taken out yet.
pub(in crate::format) struct Fields {
    values: Map<String, Value>,
}

impl Fields {
    pub(in crate::format) fn new() -> Self {
        Self { values: Map::new() }
    }

    /// Reads the value of `name` and keeps it.
    pub(in crate::format) fn read<'de, A: MapAccess<'de>>(
        &mut self,
        name: String,
        map: &mut A,
    ) -> Result<(), A::Error> {
        if self.values.contains_key(&name) {
            return Err(A::Error::custom(format!("`{}` stands twice", quote(&name))));
        }
        self.values.insert(name, map.next_value()?);
        Ok(())
    }

    /// A whole number that has to be there.
    pub(in crate::format) fn number(&mut self, name: &'static str) -> Result<u64, FieldError> {
        self.optional_number(name)?.ok_or(FieldError::Missing { name })
    }

    /// A whole number, if the field is there.
    pub(in crate::format) fn optional_number(&mut self, name: &'static str) -> Result<Option<u64>, FieldError> {
        self.optional(name, "a whole number that is not negative", Value::as_u64)
    }

    /// A stage's or microbatch's number, if the field is there.
    pub(in crate::format) fn optional_id(&mut self, name: &'static str) -> Result<Option<u32>, FieldError> {
        let id = |value: &Value| value.as_u64().and_then(|number| number.try_into().ok());
        self.optional(name, "a whole number below 4294967296", id)
    }

    /// A text, if the field is there.
    pub(in crate::format) fn optional_text(&mut self, name: &'static str) -> Result<Option<String>, FieldError> {
        self.optional(name, "a text in quotes", |value| value.as_str().map(str::to_owned))
    }

    /// A text that has to be there.
    pub(in crate::format) fn text(&mut self, name: &'static str) -> Result<String, FieldError> {
        self.optional_text(name)?.ok_or(FieldError::Missing { name })
    }

    /// Whatever `take` makes of a field that is there.
    pub(in crate::format) fn optional<T>(
        &mut self,
        name: &'static str,
        expected: &'static str,
        take: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, FieldError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        match take(&value) {
            Some(taken) => Ok(Some(taken)),
            // JSON has it escaped.
            None => Err(FieldError::Wrong { name, value: shorten(&value.to_string(), String::from), expected }),
        }
    }

    /// Nothing is left over.
    pub(in crate::format) fn finish(self, known: &'static [&'static str]) -> Result<(), FieldError> {
        match self.values.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(FieldError::Unknown { name: quote(&name), known }),
        }
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object in braces")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::new();
                while let Some(name) = map.next_key()? {
                    fields.read(name, &mut map)?;
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// What is wrong with a field of a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// It has to be there.
    #[error("`{name}` is missing")]
    Missing {
        /// The field.
        name: &'static str,
    },
    /// Its value is none it may have.
    #[error("`{name}` is {value}: expected {expected}")]
    Wrong {
        /// The field.
        name: &'static str,
        /// Its value, shortened if it is long.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// There is no such field.
    #[error("unknown field `{name}`; known here: {}", known.join(", "))]
    Unknown {
        /// The field.
        name: String,
        /// The fields there are.
        known: &'static [&'static str],
    },
}
