//! Agreement on the boundaries of a step whose microbatches differ, such as in the length of their sequences.
//!
//! Only whoever reads the data knows them: the pipeline's first rank tells the next one, and so on to the last. That goes
//! over the program's own channels, before the first message of the step, each rank sending only after it has received: no
//! rank waits for one behind it, whatever channels buffer, and once the last rank knows, the program runs as it was proved,
//! every receive with the boundary that its send will have.

use pp_schedule::{CertifiedProgram, Channel, Direction, Message, Microbatch, Rank, Stage};

use super::spec::{Boundaries, StepSpec};
use crate::endpoint::Endpoint;
use crate::error::CommError;
use crate::group::Group;
use crate::message::{Boundary, Buffer, DType, Envelope, Label, ROW, decode_row, encode_row};

/// Tells all ranks of a pipeline the boundaries of its next step. Every rank of `spec.group` calls it before it executes
/// `program` as `spec.step`; those that the first rank gives in `spec` are what all get, those of the others are not looked at.
///
/// # Errors
/// [`CommError`] when a rank is lost or late, tells of what no message can be, or, on the first rank, when there is a
/// microbatch without a boundary ([`CommError::NoBoundary`]).
pub fn agree(program: &CertifiedProgram, spec: StepSpec<'_>, endpoint: &mut Endpoint) -> Result<Boundaries, CommError> {
    let place = program.program().rank;
    let microbatches =
        program.program().computes.iter().map(|compute| compute.work.microbatch.0 + 1).max().unwrap_or(0);
    let table = [microbatches as usize, ROW];
    let label = |place: Rank| {
        let (direction, stage, microbatch) = (Direction::Forward, Stage(place.0), Microbatch(0));
        Label::Shapes(Envelope { step: spec.step, message: Message { direction, stage, microbatch } })
    };
    let boundaries = match place.0.checked_sub(1) {
        None => of_all(spec.boundaries, microbatches)?,
        Some(before) => {
            let channel = channel(program, spec.group, Rank(before), endpoint.rank())?;
            let ticket = endpoint.post_recv(channel, label(place), Boundary::new(DType::I64, &table)?)?;
            decode(&endpoint.wait_recv(ticket)?, channel)?
        }
    };
    let after = Rank(place.0 + 1);
    if after.idx() < spec.group.ranks().len() {
        let channel = channel(program, spec.group, place, endpoint.rank())?;
        let buffer = Buffer::i64(&table, boundaries.iter().flat_map(encode_row).collect())?;
        let ticket = endpoint.post_send(channel, label(after), buffer)?;
        drop(endpoint.wait_send(ticket)?);
    }
    Ok(Boundaries::by_microbatch(boundaries))
}

fn of_all(boundaries: &Boundaries, microbatches: u32) -> Result<Vec<Boundary>, CommError> {
    let of = |microbatch| boundaries.of(microbatch).cloned().ok_or(CommError::NoBoundary { microbatch });
    (0..microbatches).map(Microbatch).map(of).collect()
}

/// The channel by which activations go from a place of the pipeline to the one after it.
fn channel(program: &CertifiedProgram, group: &Group, place: Rank, me: Rank) -> Result<Channel, CommError> {
    let goes = |channel: &&Channel| {
        channel.source == place && channel.destination.0 == place.0 + 1 && channel.carries.includes(Direction::Forward)
    };
    let found = program.channels().iter().find(goes).and_then(|&channel| group.channel(channel));
    found.ok_or(CommError::NoWay { rank: me, place: place.0, after: place.0 + 1 })
}

fn decode(table: &Buffer, channel: Channel) -> Result<Vec<Boundary>, CommError> {
    let rows = table.as_i64()?.as_chunks::<ROW>().0;
    rows.iter().map(decode_row).collect::<Result<_, _>>().map_err(|fault| CommError::Malformed { channel, fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_microbatch_needs_a_boundary() {
        let one = Boundary::new(DType::F32, &[1]).expect("small");
        assert!(of_all(&Boundaries::same(one.clone()), 3).is_ok_and(|all| all.len() == 3));
        let error = of_all(&Boundaries::by_microbatch(vec![one; 2]), 3).expect_err("the third has none");
        assert_eq!(error, CommError::NoBoundary { microbatch: Microbatch(2) });
    }
}
