//! JSON to documents.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::FORMAT;
use crate::format::document::{Document, FieldError, Fields, Head, HeadError};
use crate::format::grid::{Grid, MAX_CELLS, Token};

const ACTIONS: &str = "actions";

/// What a document may have.
const FIELDS: &[&str] = &["format", "version", "name", "ranks", "stages", "microbatches", "placement", ACTIONS];

/// Reads a document.
///
/// # Errors
/// [`JsonError`], which names the field or the action (`actions[2][5]` is step 5 of rank 2), what stands there and what was
/// expected.
pub fn read(text: &str) -> Result<Document, JsonError> {
    // First without the actions: a file of another format or version is called that, whatever its actions look like.
    Head::read(&mut parse::<IgnoredAny>(text)?.fields, FORMAT)?;
    let Raw { mut fields, actions } = parse::<Rows>(text)?;
    let head = Head::read(&mut fields, FORMAT)?;
    fields.finish(FIELDS)?;
    let Rows(rows) = actions.ok_or(FieldError::Missing { name: ACTIONS })?;
    Ok(head.document(Grid { rows })?)
}

fn parse<'de, T: Deserialize<'de>>(text: &'de str) -> Result<Raw<T>, JsonError> {
    serde_json::from_str(text).map_err(|error| JsonError::Malformed { why: error.to_string() })
}

/// Why a text is no document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// It is no JSON, or an action is none.
    #[error("{why}")]
    Malformed {
        /// What is wrong, and the line and column where.
        why: String,
    },
    /// A field other than the actions is wrong, or does not fit them.
    #[error(transparent)]
    Head(#[from] HeadError),
}

impl From<FieldError> for JsonError {
    fn from(error: FieldError) -> Self {
        Self::Head(error.into())
    }
}

/// A document with its actions read as `T`.
struct Raw<T> {
    fields: Fields,
    actions: Option<T>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Raw<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = Raw<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a schedule: an object in braces")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw<T>, A::Error> {
                let mut raw = Raw { fields: Fields::new(), actions: None };
                while let Some(name) = map.next_key::<String>()? {
                    match name == ACTIONS {
                        true if raw.actions.is_some() => return Err(A::Error::duplicate_field(ACTIONS)),
                        true => raw.actions = Some(map.next_value()?),
                        false => raw.fields.read(name, &mut map)?,
                    }
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(Object(PhantomData))
    }
}

/// The actions: a row per rank.
struct Rows(Vec<Vec<Option<Token>>>);

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Rows;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{ACTIONS}: a list for each rank")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut ranks: A) -> Result<Rows, A::Error> {
                let (mut rows, mut room) = (Vec::new(), MAX_CELLS);
                while let Some(row) = ranks.next_element_seed(Row { rank: rows.len(), room: &mut room })? {
                    rows.push(row);
                }
                Ok(Rows(rows))
            }
        }
        deserializer.deserialize_seq(All)
    }
}

/// Reads one rank's actions.
struct Row<'a> {
    rank: usize,
    /// Cells that may still come.
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = Vec<Option<Token>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = Vec<Option<Token>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ACTIONS}[{}]: a list of what rank {} does", self.rank, self.rank)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut steps: A) -> Result<Self::Value, A::Error> {
        let mut row = Vec::new();
        while let Some(cell) = steps.next_element_seed(Cell { rank: self.rank, step: row.len() })? {
            *self.room = self.room.checked_sub(1).ok_or_else(|| {
                let most =
                    format_args!("more than {MAX_CELLS} actions, the most a text may have; use fewer microbatches");
                A::Error::custom(most)
            })?;
            row.push(cell);
        }
        Ok(row)
    }
}

/// Reads one action.
struct Cell {
    rank: usize,
    step: usize,
}

impl<'de> DeserializeSeed<'de> for Cell {
    type Value = Option<Token>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Cell {
    type Value = Option<Token>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ACTIONS}[{}][{}]: a token such as \"2F0\", or null for an idle step", self.rank, self.step)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: Error>(self, token: &str) -> Result<Self::Value, E> {
        let token = token.parse();
        token.map(Some).map_err(|error| E::custom(format_args!("{ACTIONS}[{}][{}]: {error}", self.rank, self.step)))
    }
}
