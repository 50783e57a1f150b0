//! The header before every payload: fixed size, little-endian, enough to refuse a frame before its payload is read.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `PPMF` |
//! | 4 | version |
//! | 5 | byte order of the payload: 1 little, 2 big |
//! | 6 | direction: 0 forward, 1 backward |
//! | 7 | element type |
//! | 8..16 | step |
//! | 16..20 | consuming stage |
//! | 20..24 | microbatch |
//! | 24..32 | payload length in bytes |
//! | 32..40 | number of dimensions |
//! | 40..104 | dimensions, unused ones zero |

use pp_schedule::{Direction, Message, Microbatch, Stage};

use super::Envelope;
use super::boundary::{Boundary, BufferError, DType, MAX_DIMS};

/// Bytes of a header.
pub(crate) const HEADER_LEN: usize = 40 + 8 * MAX_DIMS;

const MAGIC: [u8; 4] = *b"PPMF";
const VERSION: u8 = 1;
/// Payloads travel as they lie in memory, so both ends must lay them out alike.
const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };

/// Bytes that are no header of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Not a frame at all.
    #[error("a frame starts with {MAGIC:02x?}, but {found:02x?} arrived")]
    Magic {
        /// What arrived.
        found: [u8; 4],
    },
    /// A frame of another version.
    #[error("the frame is of version {found}, but this program speaks version {VERSION}")]
    Version {
        /// Its version.
        found: u8,
    },
    /// A frame from a machine of the other byte order.
    #[error("the payload's byte order ({found}) is not this machine's ({BYTE_ORDER})")]
    ByteOrder {
        /// Its byte order.
        found: u8,
    },
    /// A field with a value it cannot have.
    #[error("the header's {field} is {value}, which means nothing")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A shape no message may have.
    #[error(transparent)]
    Boundary(#[from] BufferError),
    /// The declared length is not that of the declared shape.
    #[error("the header declares {declared} bytes for {boundary}, which has {}", boundary.n_bytes())]
    Length {
        /// The declared length.
        declared: u64,
        /// The declared type and shape.
        boundary: Boundary,
    },
}

/// The header of a message.
pub(crate) fn encode(envelope: Envelope, boundary: &Boundary) -> [u8; HEADER_LEN] {
    let Envelope { step, message } = envelope;
    let mut bytes = [0; HEADER_LEN];
    bytes[0..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[5] = BYTE_ORDER;
    bytes[6] = message.direction as u8;
    bytes[7] = boundary.dtype() as u8;
    bytes[8..16].copy_from_slice(&step.to_le_bytes());
    bytes[16..20].copy_from_slice(&message.stage.0.to_le_bytes());
    bytes[20..24].copy_from_slice(&message.microbatch.0.to_le_bytes());
    bytes[24..32].copy_from_slice(&(boundary.n_bytes() as u64).to_le_bytes());
    bytes[32..40].copy_from_slice(&(boundary.shape().len() as u64).to_le_bytes());
    for (place, dim) in bytes[40..].chunks_exact_mut(8).zip(boundary.shape()) {
        place.copy_from_slice(&(*dim as u64).to_le_bytes());
    }
    bytes
}

/// What a header says. Nothing as large as a payload is allocated for it.
pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<(Envelope, Boundary), HeaderError> {
    let found = [bytes[0], bytes[1], bytes[2], bytes[3]];
    if found != MAGIC {
        return Err(HeaderError::Magic { found });
    }
    if bytes[4] != VERSION {
        return Err(HeaderError::Version { found: bytes[4] });
    }
    if bytes[5] != BYTE_ORDER {
        return Err(HeaderError::ByteOrder { found: bytes[5] });
    }
    let direction = match bytes[6] {
        0 => Direction::Forward,
        1 => Direction::Backward,
        value => return Err(HeaderError::Field { field: "direction", value: value.into() }),
    };
    let dtype =
        DType::from_code(bytes[7]).ok_or(HeaderError::Field { field: "element type", value: bytes[7].into() })?;
    let n_dims = word64(bytes, 32);
    if n_dims > MAX_DIMS as u64 {
        return Err(HeaderError::Field { field: "number of dimensions", value: n_dims });
    }
    let mut shape = [0; MAX_DIMS];
    for (index, dim) in shape[..n_dims as usize].iter_mut().enumerate() {
        let value = word64(bytes, 40 + 8 * index);
        *dim = usize::try_from(value).map_err(|_| HeaderError::Field { field: "dimension", value })?;
    }
    let boundary = Boundary::new(dtype, &shape[..n_dims as usize])?;
    let declared = word64(bytes, 24);
    if declared != boundary.n_bytes() as u64 {
        return Err(HeaderError::Length { declared, boundary });
    }
    let stage = Stage(word32(bytes, 16));
    let message = Message { direction, stage, microbatch: Microbatch(word32(bytes, 20)) };
    Ok((Envelope { step: word64(bytes, 8), message }, boundary))
}

fn word32(bytes: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn word64(bytes: &[u8; HEADER_LEN], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (Envelope, Boundary) {
        let message = Message { direction: Direction::Backward, stage: Stage(3), microbatch: Microbatch(7) };
        let boundary = Boundary::new(DType::F64, &[2, 5, 1]).expect("a small shape");
        (Envelope { step: 1 << 40, message }, boundary)
    }

    #[test]
    fn a_header_round_trips() {
        let (envelope, boundary) = example();
        assert_eq!(decode(&encode(envelope, &boundary)), Ok((envelope, boundary)));
        let scalar = Boundary::new(DType::I64, &[]).expect("a scalar");
        assert_eq!(decode(&encode(envelope, &scalar)), Ok((envelope, scalar)));
    }

    #[test]
    fn every_corrupted_field_is_refused_before_allocation() {
        let (envelope, boundary) = example();
        let good = encode(envelope, &boundary);
        // Magic, version, byte order, direction, type, length, number of dimensions, a dimension.
        for at in [0, 4, 5, 6, 7, 24, 31, 32, 39, 40, 47] {
            let mut bad = good;
            bad[at] ^= 0x40;
            assert!(decode(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn huge_shapes_are_refused() {
        let (envelope, boundary) = example();
        let mut bytes = encode(envelope, &boundary);
        bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(decode(&bytes), Err(HeaderError::Boundary(BufferError::TooLarge { .. }))));
    }
}
