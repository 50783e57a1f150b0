//! Typed access to a question's fields.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

/// The largest number of table rows a question may ask for.
const MAX_ROWS: u64 = 1 << 24;

/// A whole number of at least 1.
pub(super) fn size(question: &Map<String, Value>, name: &str) -> Result<u32> {
    optional_size(question, name)?.with_context(|| format!("field `{name}` is missing or null"))
}

/// A whole number of at least 1, or nothing when the field is null or absent.
pub(super) fn optional_size(question: &Map<String, Value>, name: &str) -> Result<Option<u32>> {
    match optional_number(question, name)? {
        Some(0) => bail!("field `{name}` is 0, but must be a whole number of at least 1"),
        number => Ok(number),
    }
}

/// A whole number, or nothing when the field is null or absent.
pub(super) fn optional_number(question: &Map<String, Value>, name: &str) -> Result<Option<u32>> {
    let value = match question.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    let wrong = || format!("field `{name}` is {value}, but must be a whole number of at most {}", u32::MAX);
    Ok(Some(number.with_context(wrong)?))
}

/// True or false, or nothing when the field is null or absent.
pub(super) fn flag(question: &Map<String, Value>, name: &str) -> Result<Option<bool>> {
    match question.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            Ok(Some(value.as_bool().with_context(|| format!("field `{name}` is {value}, but must be true or false"))?))
        }
    }
}

pub(super) fn text<'a>(question: &'a Map<String, Value>, name: &str) -> Result<&'a str> {
    question.get(name).and_then(Value::as_str).with_context(|| format!("field `{name}` is missing or no text"))
}

/// Refuses sizes whose answer would not fit in memory.
pub(super) fn check_rows(factors: &[u32]) -> Result<()> {
    let rows = factors.iter().fold(1_u64, |rows, factor| rows.saturating_mul(u64::from(*factor)));
    if rows > MAX_ROWS {
        bail!("the answer would have {rows} rows; at most {MAX_ROWS} are given");
    }
    Ok(())
}

/// The question's own fields among `names`, in that order.
pub(super) fn keep(question: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), question.get(*name)?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_out_of_range_are_told_the_range() {
        let Value::Object(question) = json!({ "m": 4_294_967_296_u64, "pp": u32::MAX, "v": 1.5 }) else {
            panic!("an object")
        };
        assert_eq!(size(&question, "pp").expect("the most"), u32::MAX);
        for (name, value) in [("m", "4294967296"), ("v", "1.5")] {
            let error = size(&question, name).expect_err(name).to_string();
            let says = format!("field `{name}` is {value}, but must be a whole number of at most 4294967295");
            assert_eq!(error, says);
        }
    }
}
