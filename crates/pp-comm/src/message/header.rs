//! The header before every payload: fixed size, little-endian, enough to refuse a frame before its payload is read.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `PPMF` |
//! | 4 | version |
//! | 5 | byte order of the payload: 1 little, 2 big |
//! | 6 | what it is: 0 a tensor between stages, 1 the shapes of such tensors, 2 a piece of a collective |
//! | 7 | element type |
//! | 8..16 | step; of a piece: the collective's number |
//! | 16..20 | consuming stage; of a piece: the group |
//! | 20..24 | microbatch; of a piece: which one |
//! | 24..32 | payload length in bytes |
//! | 32..36 | number of dimensions |
//! | 36 | direction: 0 forward, 1 backward; of a piece: the collective |
//! | 37 | zero |
//! | 38..40 | which tensor of the message |
//! | 40..104 | dimensions, unused ones zero |

use pp_schedule::{Direction, Message, Microbatch, Stage};

use super::boundary::{Boundary, BufferError, DType, MAX_DIMS};
use super::{Envelope, Label};
use crate::collective::Collective;

/// Bytes of a header.
pub(crate) const HEADER_LEN: usize = 40 + 8 * MAX_DIMS;

const MAGIC: [u8; 4] = *b"PPMF";
const VERSION: u8 = 2;
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

/// What byte 6 says.
const TENSOR: u8 = 0;
const SHAPES: u8 = 1;
const PIECE: u8 = 2;

/// A label's numbers, as they stand in a header.
struct Fields {
    what: u8,
    number: u64,
    place: u32,
    index: u32,
    kind: u8,
    part: u16,
}

impl Fields {
    fn of(label: Label) -> Self {
        let of_message = |what, Envelope { step, message }: Envelope, part| Self {
            what,
            number: step,
            place: message.stage.0,
            index: message.microbatch.0,
            kind: message.direction as u8,
            part,
        };
        match label {
            Label::Tensor { envelope, part } => of_message(TENSOR, envelope, part),
            Label::Shapes(envelope) => of_message(SHAPES, envelope, 0),
            Label::Piece { collective, group, round, piece } => {
                Self { what: PIECE, number: round, place: group, index: piece, kind: collective as u8, part: 0 }
            }
        }
    }

    fn label(&self) -> Result<Label, HeaderError> {
        let &Self { what, number, place, index, kind, part } = self;
        let unknown = |field| HeaderError::Field { field, value: kind.into() };
        let envelope = || {
            let direction = match kind {
                0 => Direction::Forward,
                1 => Direction::Backward,
                _ => return Err(unknown("direction")),
            };
            Ok(Envelope {
                step: number,
                message: Message { direction, stage: Stage(place), microbatch: Microbatch(index) },
            })
        };
        match what {
            TENSOR => Ok(Label::Tensor { envelope: envelope()?, part }),
            SHAPES => Ok(Label::Shapes(envelope()?)),
            PIECE => {
                let collective = Collective::from_code(kind).ok_or_else(|| unknown("collective"))?;
                Ok(Label::Piece { collective, group: place, round: number, piece: index })
            }
            value => Err(HeaderError::Field { field: "kind of content", value: value.into() }),
        }
    }
}

/// The header of a frame.
pub(crate) fn encode(label: Label, boundary: &Boundary) -> [u8; HEADER_LEN] {
    let Fields { what, number, place, index, kind, part } = Fields::of(label);
    let mut bytes = [0; HEADER_LEN];
    bytes[0..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[5] = BYTE_ORDER;
    bytes[6] = what;
    bytes[7] = boundary.dtype() as u8;
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..20].copy_from_slice(&place.to_le_bytes());
    bytes[20..24].copy_from_slice(&index.to_le_bytes());
    bytes[24..32].copy_from_slice(&(boundary.n_bytes() as u64).to_le_bytes());
    bytes[32..36].copy_from_slice(&(boundary.shape().len() as u32).to_le_bytes());
    bytes[36] = kind;
    bytes[38..40].copy_from_slice(&part.to_le_bytes());
    for (place, dim) in bytes[40..].chunks_exact_mut(8).zip(boundary.shape()) {
        place.copy_from_slice(&(*dim as u64).to_le_bytes());
    }
    bytes
}

/// What a header says. Nothing as large as a payload is allocated for it.
pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<(Label, Boundary), HeaderError> {
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
    let fields = Fields {
        what: bytes[6],
        number: word64(bytes, 8),
        place: word32(bytes, 16),
        index: word32(bytes, 20),
        kind: bytes[36],
        part: u16::from_le_bytes([bytes[38], bytes[39]]),
    };
    let label = fields.label()?;
    let dtype =
        DType::from_code(bytes[7]).ok_or(HeaderError::Field { field: "element type", value: bytes[7].into() })?;
    let n_dims = word32(bytes, 32);
    if n_dims > MAX_DIMS as u32 {
        return Err(HeaderError::Field { field: "number of dimensions", value: n_dims.into() });
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
    Ok((label, boundary))
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

    fn envelope() -> Envelope {
        let message = Message { direction: Direction::Backward, stage: Stage(3), microbatch: Microbatch(7) };
        Envelope { step: 1 << 40, message }
    }

    fn example() -> (Label, Boundary) {
        let boundary = Boundary::new(DType::F64, &[2, 5, 1]).expect("a small shape");
        (Label::Tensor { envelope: envelope(), part: 258 }, boundary)
    }

    #[test]
    fn a_header_round_trips() {
        let (label, boundary) = example();
        assert_eq!(decode(&encode(label, &boundary)), Ok((label, boundary)));
        let scalar = Boundary::new(DType::I64, &[]).expect("a scalar");
        let piece = Label::Piece { collective: Collective::ReduceScatter, group: 5, round: 1 << 50, piece: 9 };
        for label in [label, Label::Shapes(envelope()), piece] {
            assert_eq!(decode(&encode(label, &scalar)), Ok((label, scalar.clone())));
        }
    }

    #[test]
    fn every_corrupted_field_is_refused_before_allocation() {
        let (label, boundary) = example();
        let good = encode(label, &boundary);
        // Magic, version, byte order, content, type, length, number of dimensions, direction, a dimension.
        for at in [0, 4, 5, 6, 7, 24, 31, 32, 35, 36, 40, 47] {
            let mut bad = good;
            bad[at] ^= 0x40;
            assert!(decode(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn huge_shapes_are_refused() {
        let (label, boundary) = example();
        let mut bytes = encode(label, &boundary);
        bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(
            decode(&bytes),
            Err(HeaderError::Boundary(BufferError::TooLarge { .. } | BufferError::Dim { .. }))
        ));
    }
}
