//! The `lanes` program of an order that nobody knows anything about: with as little prefetch as lets it pass.

use crate::lower::lanes::{self, Options};
use crate::order::Order;
use crate::program::Program;
use crate::verify::{VerifiedProgram, VerifyError, verify};

/// An order that no prefetch helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("with transfers added by the lanes policy, {} ahead per channel: {error}", tried.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))]
pub struct Unprovable {
    /// How many messages ahead were tried.
    pub tried: Vec<u32>,
    /// The last program tried.
    pub program: Box<Program>,
    /// What is wrong with it.
    pub error: VerifyError,
}

/// The program of an order, verified, with 1, 2, 4, .. messages ahead per channel, the first that passes.
///
/// ```
/// use pp_schedule::format::csv::Grid;
/// use pp_schedule::lower::lower_proved;
///
/// let order = Grid::parse("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n").unwrap().to_order().unwrap();
/// let (verified, options) = lower_proved(&order).unwrap();
/// assert_eq!((verified.program().ranks.len(), options.receives_ahead), (2, 1));
/// ```
///
/// # Errors
/// [`Unprovable`] when it deadlocks however far transfers run ahead, or is wrong in another way.
pub fn lower_proved(order: &Order) -> Result<(VerifiedProgram, Options), Unprovable> {
    lower_judged(order, |program| verify(program.clone()))
}

/// The same under another judge, such as [`crate::verify::check_under`] with other queues.
///
/// # Errors
/// As [`lower_proved`].
pub fn lower_judged<T>(
    order: &Order,
    mut judge: impl FnMut(&mut Program) -> Result<T, VerifyError>,
) -> Result<(T, Options), Unprovable> {
    // No channel carries more messages than a rank has computations.
    let most = order.rows().iter().map(Vec::len).max().unwrap_or(0) as u64;
    let mut tried = Vec::new();
    loop {
        let ahead = 1 << tried.len();
        let options = Options { receives_ahead: ahead, ring_receives_ahead: ahead, sends_in_flight: ahead };
        let mut program = lanes::lower_order(order, options);
        tried.push(ahead);
        match judge(&mut program) {
            Ok(judged) => return Ok((judged, options)),
            Err(VerifyError::Deadlock(_)) if u64::from(ahead) < most => {}
            Err(error) => return Err(Unprovable { tried, program: Box::new(program), error }),
        }
    }
}
