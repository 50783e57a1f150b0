//! Messages of another length or type than agreed. Between GPUs these are a case of their own: NCCL itself must not be asked for
//! them, and where the sender has done so, nothing is promised to either end but an error.

use pp_comm::{Boundary, CommError, DType};
use pp_schedule::Rank;

use crate::common::{EVERY, FORTH, envelope, floats, floats_of, meeting, run};

/// Rank 0 sends 3 elements of `f32`; rank 1 expects something else, must say both, and neither may hang.
#[test]
fn another_length_or_type_than_agreed_is_an_error_that_names_both() {
    let agreed = [(DType::F32, vec![4]), (DType::F32, vec![5]), (DType::F64, vec![3]), (DType::I64, vec![3])];
    let kinds = EVERY.into_iter().filter(|kind| kind.sends_boundaries());
    for (kind, (dtype, shape)) in kinds.flat_map(|kind| agreed.clone().map(|agreed| (kind, agreed))) {
        let agreed = Boundary::new(dtype, &shape).expect("a small shape");
        let told = meeting(2);
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                let ticket = endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(3, 0.0)).expect("posted");
                endpoint.wait_send(ticket).expect("sent: it is the receiver who minds");
            } else {
                let ticket = endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), agreed.clone()).expect("posted");
                let error = endpoint.wait_recv(ticket).expect_err("something else was sent");
                let CommError::WrongBoundary { channel, expected, found, .. } = &error else { panic!("{error}") };
                assert_eq!((channel, expected, found), (&FORTH, &agreed, &floats_of(3)));
                let text = error.to_string();
                assert!(text.contains(&agreed.to_string()) && text.contains("f32 [3]"), "{text}");
                assert!(text.contains("from rank 0 to rank 1"), "{text}");
            }
            told.wait();
        });
    }
}
