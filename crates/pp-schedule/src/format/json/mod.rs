//! A schedule as one JSON document.
//!
//! | field | value |
//! |---|---|
//! | `format` | `"pp-schedule"` |
//! | `version` | `1`; another version is refused |
//! | `name` | a text for people, may be left out |
//! | `ranks` | how many there are |
//! | `stages`, `microbatches` | how many the computations name; may be left out, checked when there |
//! | `placement` | `"loop"` or `"v"`, as [`crate::Placement`] has them; may be left out, checked when there |
//! | `actions` | for each rank a list of what it does in turn: [tokens](super::csv), or `null` for an idle step |
//!
//! There are no other fields. docs/schedule.schema.json states the same as a JSON Schema. A later version may add fields or
//! tokens; it then has another number.
//!
//! ```
//! use pp_schedule::format::json;
//! let text = r#"{"format": "pp-schedule", "version": 1, "ranks": 2,
//!                "actions": [["0F0", "0F1", null, "0B0", "0B1"], [null, "1F0", "1B0", "1F1", "1B1"]]}"#;
//! let document = json::read(text).unwrap();
//! assert_eq!(document.grid.to_csv(), "0F0,0F1,,0B0,0B1\r\n,1F0,1B0,1F1,1B1\r\n");
//! assert_eq!(json::read(&json::write(&document)), Ok(document));
//!
//! let error = json::read(&text.replace("1B1", "1C1")).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "actions[1][4]: `1C1`: expected one of F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD \
//!      after `1`, but found `C` at line 2 column 96"
//! );
//! ```

mod read;
mod write;

pub use read::{JsonError, read};
pub use write::write;

/// What `format` says.
pub(super) const FORMAT: &str = "pp-schedule";
