//! What another project does with pp-schedule: take a schedule and walk its actions, or bring an order of its own and
//! have it proved.
//!
//! Run it with `cargo run --manifest-path examples/import-schedule/Cargo.toml`.

use std::error::Error;

use pp_schedule::lower::lanes;
use pp_schedule::simulate::{Costs, Timeline};
use pp_schedule::{Extent, Order, ScheduleConfig, ScheduleSpec, Step, Work, verify};

fn main() -> Result<(), Box<dyn Error>> {
    walk_a_schedule()?;
    prove_an_own_order()
}

/// An executor of one's own is one match over the steps of a rank.
fn walk_a_schedule() -> Result<(), Box<dyn Error>> {
    let config = ScheduleConfig::new(&ScheduleSpec::new(4, 2, 8))?;
    let verified = verify(lanes::lower(&config))?;
    let (mut computes, mut transfers, mut waits) = (0, 0, 0);
    for step in verified.program().ranks[0].steps() {
        match step {
            Step::Compute(_) => computes += 1,
            Step::Post(_, posted) => transfers += posted.len(),
            Step::Wait(..) => waits += 1,
            // Other policies than `lanes` have these.
            Step::Free(_) | Step::Mark(_) => {}
        }
    }
    println!("rank 0 of interleaved 1F1B: {computes} computations, {transfers} transfers, {waits} waits");
    Ok(())
}

/// An order made by hand: eager 1F1B, one more forward ahead than 1F1B has.
fn prove_an_own_order() -> Result<(), Box<dyn Error>> {
    let base = ScheduleConfig::new(&ScheduleSpec::new(2, 1, 4))?;
    let rows = ["0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3", "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3"];
    let parse = |row: &str| row.split(' ').map(str::parse::<Work>).collect::<Result<Vec<_>, _>>();
    let rows = rows.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let order = Order::new(Extent::from(&base), rows)?;
    let verified = verify(lanes::lower_order(&order, lanes::Options::for_config(&base)))?;
    let timeline = Timeline::of_order(&order, &Costs::UNIT)?;
    println!("an order of one's own: proved for {} ranks", verified.program().ranks.len());
    println!("{}", pp_schedule::format::text::draw(&timeline, 100));
    Ok(())
}
