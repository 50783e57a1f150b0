//! What the emulator is there for: an endpoint that is wrong, though its results may be right, is reported, with the memory and
//! both places.

use crate::common::Kind;
use crate::faults::{FAULTS, program, step};
use crate::gpu::Way;
use crate::harness::Run;

/// What the emulator reports of a step in which rank `rank`'s endpoint does something wrong.
fn report(rank: u32, fault: &str) -> String {
    let verified = program(2);
    let env = vec![(Some(rank), FAULTS, fault.to_owned())];
    let run = Run { env, ..Run::new(Kind::Nccl(Way::DEFAULT), 2, &verified.program().channels) };
    run.within(
        |joined| {
            let mut seat = match joined.try_seat() { Ok(seat) => seat, Err(error) => return error };
            seat.member.endpoint.set_deadline(std::time::Duration::from_secs(3));
            match step(&mut seat, &verified, 0) {
                Ok(()) => { seat.member.close(); "ok".to_owned() }
                Err(error) => format!("{error}: {}", error.fault),
            }
        },
        |outcome| { println!("{:?}", outcome.ended.ends); outcome.report },
    )
}

#[test]
fn explore() {
    let what = std::env::var("WHAT").unwrap_or_default();
    let n: u32 = std::env::var("N").unwrap_or_default().parse().unwrap_or(1);
    for n in 1..=n {
        let report = report(1, &format!("{what}={n}"));
        println!("=== {what}={n}: {} violations: {:?}", report.matches("violation: ").count(), report.lines().filter(|l| l.starts_with("violation")).collect::<Vec<_>>());
        if n == std::env::var("SHOW").unwrap_or_default().parse().unwrap_or(0) {
            println!("{report}");
        }
    }
}
