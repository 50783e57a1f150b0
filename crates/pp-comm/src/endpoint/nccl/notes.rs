//! Notes: what goes over a channel's host link for every message that goes over NCCL, which carries bytes without a word about
//! them. A note has the message's label, as any frame; its payload says which message it is among all that its source sends
//! this rank on the communicator, and what type and shape it has.

use pp_schedule::Channel;

use crate::error::CommError;
use crate::message::{Boundary, Buffer, BufferError, DType, Label, ROW, decode_row, encode_row};

/// Integers of a note.
const LEN: usize = 1 + ROW;

/// What a note is received as.
pub(super) fn boundary() -> Result<Boundary, BufferError> {
    Boundary::new(DType::I64, &[LEN])
}

/// The note of message number `place`.
pub(super) fn write(place: i64, message: &Boundary) -> Result<Buffer, BufferError> {
    let mut words = Vec::with_capacity(LEN);
    words.push(place);
    words.extend(encode_row(message));
    Buffer::i64(&[LEN], words)
}

/// Compares what a note says with what was expected; its label the host link has compared already.
pub(super) fn check(
    note: &Buffer,
    channel: Channel,
    label: Label,
    (place, expected): (i64, &Boundary),
) -> Result<(), CommError> {
    let words = note.as_i64()?;
    let &[sent, ref row @ ..] = <&[i64; LEN]>::try_from(words)
        .map_err(|_| BufferError::Length { boundary: note.boundary().clone(), given: words.len() })?;
    let found = decode_row(row).map_err(|fault| CommError::Malformed { channel, fault })?;
    if found != *expected {
        return Err(CommError::WrongBoundary { channel, label, expected: expected.clone(), found });
    }
    if sent != place {
        return Err(CommError::OutOfTurn { channel, label, sent, expected: place });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pp_schedule::{Carries, Direction, Message, Microbatch, Rank, Stage};

    use super::*;
    use crate::message::Envelope;

    #[test]
    fn a_note_tells_another_message_from_the_one_expected() {
        let carries = Carries::Only(Direction::Forward);
        let channel = Channel { source: Rank(0), destination: Rank(1), carries, queue: 0 };
        let message = Message { direction: Direction::Forward, stage: Stage(1), microbatch: Microbatch(0) };
        let label = Label::from(Envelope { step: 0, message });
        let of = |dtype, shape: &[usize]| Boundary::new(dtype, shape).expect("small");
        let sent = of(DType::Bf16, &[2, 3]);
        let note = write(7, &sent).expect("small");
        assert_eq!(note.boundary(), &boundary().expect("small"));
        let check = |place, expected: &Boundary| check(&note, channel, label, (place, expected));
        assert_eq!(check(7, &sent), Ok(()));
        for other in [of(DType::Bf16, &[3, 2]), of(DType::F32, &[2, 3])] {
            assert!(matches!(check(7, &other), Err(CommError::WrongBoundary { found, .. }) if found == sent));
        }
        let error = check(8, &sent).expect_err("another place").to_string();
        assert!(error.contains("was message 7 from rank 0 to rank 1") && error.contains("message 8"), "{error}");
    }
}
