//! What a document says of itself before its cells, and whether the cells bear it out.

use serde_json::Value;

use super::{Document, FieldError, Fields};
use crate::format::grid::{Grid, GridError, quote};
use crate::placement::Shape;

/// The version that is written, and the only one that is read.
const VERSION: u64 = 1;

/// The fields before the cells. Ranks and what follows are there for whoever reads a file without wanting to count; they are
/// checked, so that they can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::format) struct Head {
    pub(in crate::format) name: Option<String>,
    pub(in crate::format) ranks: u64,
    stages: Option<u64>,
    microbatches: Option<u64>,
    placement: Option<Shape>,
}

impl Head {
    /// What is to be said of a document; of cells that no rank computes, or that are dealt in no way that has a name, less.
    pub(in crate::format) fn of(document: &Document) -> Self {
        let (mut stages, mut microbatches) = (None, None);
        for work in document.grid.rows.iter().flatten().flatten().flat_map(|token| token.works()) {
            stages = stages.max(Some(u64::from(work.stage.0) + 1));
            microbatches = microbatches.max(Some(u64::from(work.microbatch.0) + 1));
        }
        Self {
            name: document.name.clone(),
            ranks: document.grid.rows.len() as u64,
            stages,
            microbatches,
            placement: document.grid.placement().ok().map(|placement| placement.shape()),
        }
    }

    /// Its fields in turn, with their values as JSON.
    pub(in crate::format) fn fields(&self, format: &str) -> Vec<(&'static str, String)> {
        let mut fields = vec![("format", text(format)), ("version", VERSION.to_string())];
        fields.extend(self.name.as_deref().map(|name| ("name", text(name))));
        fields.push(("ranks", self.ranks.to_string()));
        fields.extend(self.stages.map(|stages| ("stages", stages.to_string())));
        fields.extend(self.microbatches.map(|microbatches| ("microbatches", microbatches.to_string())));
        fields.extend(self.placement.map(|shape| ("placement", text(shape.name()))));
        fields
    }

    /// Takes the head's fields.
    pub(in crate::format) fn read(fields: &mut Fields, format: &'static str) -> Result<Self, HeadError> {
        let found = fields.text("format")?;
        if found != format {
            return Err(HeadError::Format { found: quote(&found), expected: format });
        }
        let version = fields.number("version")?;
        if version != VERSION {
            return Err(HeadError::Version { version });
        }
        Ok(Self {
            name: fields.optional_text("name")?,
            ranks: fields.number("ranks")?,
            stages: fields.optional_number("stages")?,
            microbatches: fields.optional_number("microbatches")?,
            placement: fields.optional("placement", "\"loop\" or \"v\"", shape)?,
        })
    }

    /// Whether it is borne out, and the document of both.
    pub(in crate::format) fn document(self, grid: Grid) -> Result<Document, HeadError> {
        let document = Document { name: self.name.clone(), grid };
        let counted = Self::of(&document);
        let check = |name, given: Option<u64>, counted: Option<u64>| match given {
            Some(given) if given != counted.unwrap_or(0) => {
                Err(HeadError::Count { name, given, counted: counted.unwrap_or(0) })
            }
            _ => Ok(()),
        };
        check("ranks", Some(self.ranks), Some(counted.ranks))?;
        check("stages", self.stages, counted.stages)?;
        check("microbatches", self.microbatches, counted.microbatches)?;
        if let Some(given) = self.placement
            && self.placement != counted.placement
        {
            let given = given.name();
            return Err(match document.grid.placement() {
                Ok(placement) => HeadError::Placement { given, found: placement.shape().name() },
                Err(source) => HeadError::NoPlacement { given, source },
            });
        }
        Ok(document)
    }
}

/// A text as JSON.
fn text(text: &str) -> String {
    Value::from(text).to_string()
}

fn shape(value: &Value) -> Option<Shape> {
    [Shape::Loop, Shape::V].into_iter().find(|shape| value.as_str() == Some(shape.name()))
}

/// What is wrong with what a document says of itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// A field is missing, unknown or has a value of the wrong kind.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// It is of something else.
    #[error("`format` is \"{found}\": expected \"{expected}\"")]
    Format {
        /// What it says it is.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// It is of a version that this does not know.
    #[error("`version` is {version}, but this reads version {VERSION} only")]
    Version {
        /// The version.
        version: u64,
    },
    /// A number is another than its cells have.
    #[error("`{name}` is {given}, but the actions have {counted}; correct it{}", if *name == "ranks" { "" } else { ", or leave it out" })]
    Count {
        /// The field.
        name: &'static str,
        /// Its value.
        given: u64,
        /// What is there.
        counted: u64,
    },
    /// The stages are dealt in another shape.
    #[error(
        "`placement` is \"{given}\", but the stages are dealt to ranks as \"{found}\"; correct it, or leave it out"
    )]
    Placement {
        /// The shape given.
        given: &'static str,
        /// The shape there is.
        found: &'static str,
    },
    /// The stages are dealt in no shape.
    #[error("`placement` is \"{given}\", but the actions have none: {source}; leave it out")]
    NoPlacement {
        /// The shape given.
        given: &'static str,
        /// Why there is none.
        source: GridError,
    },
}
