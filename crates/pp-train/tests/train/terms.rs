//! Ranks that were started otherwise than rank 0 are named before any link is made.

use crate::process::{self, Scratch, start, trainer};

/// Whatever decides what is done, down to the step that is traced by all of them.
#[test]
fn ranks_with_other_arguments_do_not_start() {
    let scratch = Scratch::new("terms");
    let trace = format!("--trace {} --trace-iteration 2", scratch.file("trace").display());
    let pairs = [
        ["--variable-seq-lengths 5,7", "--variable-seq-lengths 7,5"],
        ["--seed 1", "--seed 2"],
        ["", "--untie"],
        [&trace, ""],
    ];
    for (number, flags) in pairs.into_iter().enumerate() {
        let meeting = scratch.file(&format!("meeting-{number}"));
        let ranks = flags.into_iter().enumerate().map(|(rank, flags)| {
            start(&mut trainer(&format!(
                "{} {flags} --pp 2 --world-size 2 --rank {rank} --timeout 30 --rendezvous-file {}",
                process::TINY,
                meeting.display()
            )))
        });
        for ended in ranks.collect::<Vec<_>>().into_iter().map(process::Running::wait) {
            ended.failed(2, &["rank 1 was started with other arguments"]);
        }
    }
}
