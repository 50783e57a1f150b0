//! What a program would do wrong, done for it on request: to show that it is found out.

use super::call::Call;
use super::kinds::{Code, Refusal};
use crate::driver;
use crate::fault::{self, Fault};

fn strikes(fault: Fault, call: &Call) -> bool {
    fault::asked().is_ok_and(|faults| faults.strikes(fault, Some(call.comm.place().rank)))
}

/// Whether a group's operations are to go as groups of one.
pub(crate) fn splits(calls: &[Call]) -> bool {
    calls.len() > 1 && strikes(Fault::SplitGroup, &calls[0])
}

/// A new stream of the same context. It stays for as long as the context does.
fn stream_beside(stream: usize) -> Result<usize, driver::Error> {
    let before = driver::current_context();
    driver::set_current(Some(driver::context_of_stream(stream)?))?;
    let made = driver::create_stream(false);
    driver::set_current(before)?;
    made
}

/// Puts an operation on a stream of its own, where that is asked for.
///
/// # Errors
/// What the driver says.
pub(crate) fn before(calls: &mut [Call]) -> Result<(), Refusal> {
    for call in calls {
        if strikes(Fault::WrongStream, call) {
            call.stream = stream_beside(call.stream)
                .map_err(|error| Refusal { code: Code::CudaError, text: error.to_string() })?;
        }
    }
    Ok(())
}

/// Frees the memory of an operation, where that is asked for, as if its owner had let go of it too early.
pub(crate) fn after(calls: &[Call]) {
    for call in calls {
        if strikes(Fault::EarlyFree, call) {
            let place = call.comm.place();
            let first = call.operation.accesses(place.rank, place.n_ranks).next();
            if let Some(access) = first {
                // What is wrong with it is reported by the driver.
                let _ = stream_beside(call.stream).and_then(|stream| driver::free_async(access.address, stream));
            }
        }
    }
}
