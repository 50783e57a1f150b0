//! Megatron's queues as a view of a rank's program: the published example, and what holds for all.

use std::fmt::Write as _;
use std::path::Path;

use pp_schedule::lower::lanes;
use pp_schedule::lower::megatron::{self, Issue, Options, Overlap};
use pp_schedule::view::{ChunkQueues, Event, Moment, Place, queues};
use pp_schedule::{Chunk, Direction, Rank, RankProgram, ScheduleConfig, ScheduleKind, ScheduleSpec, SlotClass};

fn moments(config: &ScheduleConfig, options: Options, rank: u32) -> Vec<Moment> {
    let (program, _) = megatron::trace(config, options, Rank(rank)).expect("Megatron runs it");
    queues(config, &program).expect("it has queues")
}

fn walk_through(config: &ScheduleConfig) -> String {
    let mut text =
        String::from("interleaved 1F1B, p 2 v 2 m 4: Megatron's queues, chunk by chunk, after each step\n\n");
    text +=
        "Fk is forward step k, Bk backward step k, c0/m1 chunk 0 on microbatch 1. A forward reads its input at index\n";
    text += "microbatch - released. (n) is the place of microbatch n without a tensor: nothing is received at that end of\n";
    text += "the pipeline. A receive stands after the step that it follows.\n";
    for rank in 0..config.pp() {
        let _ = writeln!(text, "\nrank {rank}");
        let _ = writeln!(text, "{:<36}| chunk 0 {:<30}| chunk 1", "", "");
        let _ = write!(text, "{:<36}", "");
        for _ in 0..2 {
            let _ = write!(text, "| {:<17}{:<10}{:<11}", "inputs", "outputs", "gradients");
        }
        text = text.trim_end().to_owned() + "\n";
        for moment in moments(config, Options::default(), rank) {
            let mut line = format!("{:<36}", event(&moment.event));
            for ChunkQueues { inputs, outputs, gradients } in &moment.queues {
                line += "| ";
                for (queue, width) in [(inputs, 17), (outputs, 10), (gradients, 11)] {
                    let places: Vec<String> = queue.iter().map(Place::to_string).collect();
                    let _ = write!(line, "{:<width$}", places.join(" "));
                }
            }
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}

fn event(event: &Event) -> String {
    match event {
        Event::Received { direction, chunk, microbatch } => {
            let what = if *direction == Direction::Forward { "input" } else { "gradient" };
            format!("     receives {what} c{chunk}/m{microbatch}")
        }
        Event::Forward(read) => {
            let found = read.found.map_or("nothing".to_owned(), |place| place.to_string());
            let (vid, chunk, m, released) = (read.vid, read.chunk, read.microbatch, read.released);
            format!("F{vid}   c{chunk}/m{m} reads at {m} - {released}: {found}")
        }
        Event::Backward { vid, chunk, microbatch, taken } => {
            let taken = taken.map(|place| place.map_or("nothing".to_owned(), |place| place.to_string()));
            format!("B{vid}   c{chunk}/m{microbatch} takes {}", taken.join(" "))
        }
    }
}

/// `UPDATE_GOLDEN=1` writes the file anew; the diff is then reviewed by hand.
#[test]
fn the_walk_through_of_two_ranks_two_chunks_four_microbatches() {
    let config = ScheduleConfig::new(&ScheduleSpec::new(2, 2, 4)).expect("valid");
    let text = walk_through(&config);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/p2_v2_m4_queues.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).expect("writable");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("the walk-through"), text);
}

/// Where the published walk-through errs: nothing is received after forward step 4, and step 6 finds one input in its queue.
#[test]
fn the_corrected_steps() {
    let config = ScheduleConfig::new(&ScheduleSpec::new(2, 2, 4)).expect("valid");
    let moments = moments(&config, Options::default(), 0);
    let at = |wanted| {
        let is = |moment: &Moment| matches!(&moment.event, Event::Forward(read) if read.vid == wanted);
        moments.iter().position(is).expect("a step")
    };
    let input = |moment: &&Moment| matches!(moment.event, Event::Received { direction: Direction::Forward, .. });
    let arrivals: Vec<usize> =
        (0..7).filter(|&vid| moments[at(vid)..at(vid + 1)].iter().any(|moment| input(&moment))).collect();
    assert_eq!(arrivals, [1, 2, 5, 6]);
    let microbatches =
        |moment: &Moment| -> Vec<u32> { moment.queues[1].inputs.iter().map(|place| place.microbatch.0).collect() };
    assert_eq!(microbatches(&moments[at(6) - 1]), [2], "before the read of step 6");
    assert_eq!(microbatches(&moments[at(7) - 1]), [2, 3], "microbatch 3 is received after step 6");
}

fn configs() -> Vec<ScheduleConfig> {
    let mut specs = Vec::new();
    for (pp, m) in (2..=5).flat_map(|pp| (1..=11).map(move |m| (pp, m))) {
        specs.push(ScheduleSpec::new(pp, 1, m));
        for (vp, group) in (1..=3).flat_map(|vp| (pp..=m).map(move |group| (vp, group))) {
            let schedule = Some(ScheduleKind::Interleaved);
            specs.push(ScheduleSpec { schedule, group_size: Some(group), ..ScheduleSpec::new(pp, vp, m) });
        }
    }
    let configs = specs.iter().filter_map(|spec| ScheduleConfig::new(spec).ok());
    configs.flat_map(|config| [config, config.to_forward_only()]).collect()
}

/// The index finds the right microbatch's input, a backward takes its own three, and nothing is left. Gives the reads.
fn check_rank(config: &ScheduleConfig, program: &RankProgram) -> usize {
    let (rank, last_rank) = (program.rank.0, config.pp() - 1);
    let (first, last) = (Chunk(0), Chunk(config.vp() - 1));
    let moments = queues(config, program).expect("it has queues");
    let mut n_reads = 0;
    for Moment { event, .. } in &moments {
        match event {
            Event::Forward(read) => {
                let tensor = rank != 0 || read.chunk != first;
                assert_eq!(
                    read.found,
                    Some(Place { microbatch: read.microbatch, tensor }),
                    "{config:?} {rank} {read:?}"
                );
                n_reads += 1;
            }
            Event::Backward { chunk, microbatch, taken, .. } => {
                let tensors = [rank != 0 || *chunk != first, true, rank != last_rank || *chunk != last];
                let right = tensors.map(|tensor| Some(Place { microbatch: *microbatch, tensor }));
                assert_eq!(taken, &right, "{config:?} rank {rank}");
            }
            Event::Received { .. } => {}
        }
    }
    let left = moments.last().map(|moment| moment.queues.clone());
    assert_eq!(left, Some(vec![ChunkQueues::default(); config.vp() as usize]), "{config:?} rank {rank}");
    // As many outputs are kept as the program has slots for what forwards leave.
    let kept = |moment: &Moment| moment.queues.iter().map(|queues| queues.outputs.len()).sum::<usize>();
    assert_eq!(moments.iter().map(kept).max(), Some(program.n_slots(SlotClass::Saved)), "{config:?} rank {rank}");
    n_reads
}

#[test]
fn the_right_microbatch_is_found_everywhere() {
    let ways =
        [(Issue::Batched, Overlap::Off), (Issue::EvenOdd, Overlap::Steady), (Issue::EvenOdd, Overlap::WarmupFlush)];
    let mut n_reads = 0;
    for config in configs() {
        for rank in (0..config.pp()).map(Rank) {
            for (issue, overlap) in ways {
                let options = Options { issue, overlap, ..Options::default() };
                let traced = megatron::trace(&config, options, rank);
                n_reads += traced.map_or(0, |(program, _)| check_rank(&config, &program));
            }
            // Receives posted early stand in the same order.
            n_reads += check_rank(&config, &lanes::lower_rank(&config, rank).0);
        }
    }
    println!("{n_reads} reads");
    assert!(n_reads > 50_000, "{n_reads}");
}

#[test]
fn other_schedules_have_no_queues() {
    let gpipe = ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..ScheduleSpec::new(2, 1, 2) };
    for spec in [gpipe, ScheduleSpec::new(1, 2, 2)] {
        let config = ScheduleConfig::new(&spec).expect("valid");
        let program = lanes::lower(&config);
        let error = queues(&config, &program.ranks[0]).expect_err("none").to_string();
        assert!(error.contains("interleaved and 1f1b only"), "{error}");
    }
}
