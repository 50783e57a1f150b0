//! The shapes of a message's items, as they are sent ahead of it where they vary.
//!
//! A row of 64-bit integers per item: its element type as numbered in frames (0 for an integer), how many dimensions it
//! has, and its dimensions, the unused ones 0.

use super::contents::{Contents, Item, Part, Verdict};
use super::error::P2pError;
use crate::message::{Boundary, Buffer, BufferError, DType, Envelope, MAX_DIMS};

/// Integers per item.
const ROW: usize = 2 + MAX_DIMS;

/// What the shapes of `n_items` travel as.
pub(super) fn boundary(n_items: usize) -> Result<Boundary, BufferError> {
    Boundary::new(DType::I64, &[n_items, ROW])
}

/// How many items such a boundary is for; none if it is not one of shapes.
pub(super) fn n_items(boundary: &Boundary) -> Option<usize> {
    match (boundary.dtype(), boundary.shape()) {
        (DType::I64, &[n_items, ROW]) => Some(n_items),
        _ => None,
    }
}

/// The shapes of items.
pub(super) fn encode(items: &[Item]) -> Result<Buffer, BufferError> {
    let mut rows = Vec::with_capacity(items.len() * ROW);
    for item in items {
        let mut row = [0; ROW];
        if let Item::Tensor(buffer) = item {
            let boundary = buffer.boundary();
            (row[0], row[1]) = (boundary.dtype() as i64, boundary.shape().len() as i64);
            for (place, &dim) in row[2..].iter_mut().zip(boundary.shape()) {
                // A boundary that exists has fewer than 2^63 elements along any dimension that a message can have.
                *place = i64::try_from(dim).unwrap_or(i64::MAX);
            }
        }
        rows.extend(row);
    }
    Buffer::i64(&[items.len(), ROW], rows)
}

/// The items that shapes announce, each checked against what it may be at most. Nothing of their size is allocated
/// here.
pub(super) fn decode(shapes: &Buffer, contents: &Contents, envelope: Envelope) -> Result<Vec<Part>, P2pError> {
    let rows = shapes.as_i64()?.chunks_exact(ROW);
    let parts = rows.zip(contents.parts()).enumerate();
    parts.map(|(index, (row, agreed))| decode_row(row, (index, agreed), contents, envelope)).collect()
}

fn decode_row(
    row: &[i64],
    (part, agreed): (usize, &Part),
    contents: &Contents,
    envelope: Envelope,
) -> Result<Part, P2pError> {
    let damaged = || P2pError::Shapes { envelope, part, row: row.to_vec() };
    let n_dims = usize::try_from(row[1]).ok().filter(|&n_dims| n_dims <= MAX_DIMS).ok_or_else(damaged)?;
    let dims = &row[2..2 + n_dims];
    let found = match row[0] {
        0 if n_dims == 0 => Part::Integer,
        code => {
            let dtype = u8::try_from(code).ok().and_then(DType::from_code).ok_or_else(damaged)?;
            let shape = dims.iter().map(|&dim| usize::try_from(dim)).collect::<Result<Vec<usize>, _>>();
            let shape = shape.map_err(|_| damaged())?;
            // A shape that no message can have is beyond every bound.
            let beyond = |_| P2pError::BeyondBound { envelope, part, bound: agreed.clone(), found: dims.to_vec() };
            Part::Tensor(Boundary::new(dtype, &shape).map_err(beyond)?)
        }
    };
    match contents.admits(agreed, &found) {
        Verdict::Fine => Ok(found),
        Verdict::Beyond => Err(P2pError::BeyondBound { envelope, part, bound: agreed.clone(), found: dims.to_vec() }),
        Verdict::Other => Err(P2pError::WrongItem { envelope, part, agreed: agreed.clone(), given: found }),
    }
}

#[cfg(test)]
mod tests {
    use pp_schedule::{Direction, Message, Microbatch, Stage};

    use super::*;

    const MESSAGE: Message = Message { direction: Direction::Forward, stage: Stage(1), microbatch: Microbatch(0) };
    const ENVELOPE: Envelope = Envelope { step: 0, message: MESSAGE };

    fn contents() -> Contents {
        let bound = Boundary::new(DType::F32, &[16, 4]).expect("a small shape");
        Contents::up_to(vec![Part::Tensor(bound), Part::Integer])
    }

    fn rows(first: [i64; 4], second: [i64; 4]) -> Buffer {
        let row = |head: [i64; 4]| head.into_iter().chain([0; ROW - 4]).collect::<Vec<i64>>();
        Buffer::i64(&[2, ROW], [row(first), row(second)].concat()).expect("two rows")
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let tensor = Buffer::f32(&[0, 4], vec![]).expect("no elements");
        let items = [Item::Tensor(tensor), Item::Integer(7)];
        let shapes = encode(&items).expect("two rows");
        assert_eq!(Ok(shapes.boundary().clone()), boundary(2));
        assert_eq!(n_items(shapes.boundary()), Some(2));
        let parts = decode(&shapes, &contents(), ENVELOPE).expect("within bounds");
        assert_eq!(parts, items.iter().map(Part::of).collect::<Vec<_>>());
    }

    #[test]
    fn whatever_is_not_within_the_bound_is_refused_before_it_is_allocated() {
        let f32 = DType::F32 as i64;
        let integer = [0, 0, 0, 0];
        for found in [[f32, 2, 17, 4], [f32, 2, i64::MAX, 4], [f32, 2, i64::MAX, i64::MAX], [f32, 1, 64, 0]] {
            let error = decode(&rows(found, integer), &contents(), ENVELOPE).expect_err("too large");
            assert!(matches!(error, P2pError::BeyondBound { part: 0, .. }), "{error}");
            assert!(error.to_string().contains("f32 [16, 4]"), "{error}");
        }
        for damaged in [[9, 2, 1, 1], [f32, 9, 1, 1], [f32, -1, 1, 1], [f32, 2, -1, 1], [0, 1, 1, 1], [-3, 0, 0, 0]] {
            let error = decode(&rows(damaged, integer), &contents(), ENVELOPE).expect_err("damaged");
            assert!(matches!(error, P2pError::Shapes { part: 0, .. }), "{error}");
        }
        for (first, second) in [([f32 + 1, 2, 1, 1], integer), (integer, integer), ([f32, 2, 1, 1], [f32, 0, 0, 0])] {
            let error = decode(&rows(first, second), &contents(), ENVELOPE).expect_err("another type");
            assert!(matches!(error, P2pError::WrongItem { .. }), "{error}");
        }
    }
}
