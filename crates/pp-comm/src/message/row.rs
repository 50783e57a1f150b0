//! Boundaries as rows of integers: how ranks tell each other what messages will be.

use super::boundary::{Boundary, DType, MAX_DIMS};
use super::header::HeaderError;

/// What stands for a boundary: element type, number of dimensions, dimensions.
pub(crate) const ROW: usize = 2 + MAX_DIMS;

/// The row of a boundary; dimensions that it does not have are 0.
pub(crate) fn encode_row(boundary: &Boundary) -> [i64; ROW] {
    let mut row = [0; ROW];
    row[0] = boundary.dtype() as i64;
    row[1] = boundary.shape().len() as i64;
    for (field, &dim) in row[2..].iter_mut().zip(boundary.shape()) {
        // A message has at most 2^32 bytes; a dimension beyond that stands beside one of 0.
        *field = i64::try_from(dim).unwrap_or(i64::MAX);
    }
    row
}

/// The boundary of a row.
pub(crate) fn decode_row(row: &[i64; ROW]) -> Result<Boundary, HeaderError> {
    let field = |field, value: i64| HeaderError::Field { field, value: value.cast_unsigned() };
    let dtype = u8::try_from(row[0]).ok().and_then(DType::from_code).ok_or(field("element type", row[0]))?;
    let n_dims = usize::try_from(row[1]).ok().filter(|&n_dims| n_dims <= MAX_DIMS);
    let dims = &row[2..2 + n_dims.ok_or(field("number of dimensions", row[1]))?];
    let dims = dims.iter().map(|&dim| usize::try_from(dim).map_err(|_| field("dimension", dim)));
    Ok(Boundary::new(dtype, &dims.collect::<Result<Vec<_>, HeaderError>>()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_survive_the_way() {
        let shapes: [&[usize]; 4] = [&[], &[5], &[2, 0, 7], &[1; MAX_DIMS]];
        for (dtype, shape) in DType::ALL.into_iter().flat_map(|dtype| shapes.map(|shape| (dtype, shape))) {
            let boundary = Boundary::new(dtype, shape).expect("small");
            assert_eq!(decode_row(&encode_row(&boundary)), Ok(boundary));
        }
    }

    #[test]
    fn what_no_message_can_be_is_refused_by_its_field() {
        let good = encode_row(&Boundary::new(DType::F32, &[4, 8]).expect("small"));
        let spoilt = |at: usize, value| {
            let mut row = good;
            row[at] = value;
            decode_row(&row).expect_err("spoilt").to_string()
        };
        assert!(spoilt(0, 9).contains("element type is 9"), "{}", spoilt(0, 9));
        assert!(spoilt(0, -1).contains("element type"));
        assert!(spoilt(1, 9).contains("number of dimensions is 9"));
        assert!(spoilt(2, -4).contains("dimension"));
        assert!(spoilt(2, 1 << 40).contains("is more than"));
    }
}
