//! The memory of real processes: what 1F1B holds does not grow with the number of microbatches.

use serde_json::Value;

use crate::process::{self, Scratch, start, trainer};

/// A microbatch is 256 KiB between stages; a stage keeps about 4.4 MiB of it for the backward.
const SIZES: &str = "--mock-data --hidden-size 64 --num-heads 1 --num-layers 4 --seq-length 64 --micro-batch-size 16 \
                     --train-iters 1 --eval-iters 1 --threads 1 --pp 4 --world-size 4 --timeout 60";

/// How much larger the peak may be with eight times the microbatches. Some 35 MiB are held by stage 0; were every message it
/// sends kept, 14 MiB would come on top, and some 246 MiB were it the activations.
const GROWTH: f64 = 1.2;

/// The last line of a run's metrics.
fn figures(scratch: &Scratch, microbatches: u32) -> Value {
    let (meeting, metrics) = (scratch.file("meeting"), scratch.file("metrics"));
    let ranks = [0, 1, 2, 3].map(|rank| {
        start(&mut trainer(&format!(
            "{SIZES} --microbatches {microbatches} --rank {rank} --rendezvous-file {} --metrics {}",
            meeting.display(),
            metrics.display()
        )))
    });
    for ended in ranks.map(process::Running::wait) {
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let text = std::fs::read_to_string(metrics).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn the_memory_of_1f1b_is_flat_in_the_number_of_microbatches() {
    let scratch = Scratch::new("memory");
    let [few, many] = [8, 64].map(|microbatches| figures(&scratch, microbatches));
    for held in ["peak_saved", "peak_message_bytes"] {
        assert_eq!(few[held], many[held], "{held}");
    }
    assert_eq!(few["peak_saved"], serde_json::json!([4, 3, 2, 1]));
    for rank in 0..4 {
        let mib = |figures: &Value| figures["peak_rss_mib"][rank].as_f64().expect("the system tells it");
        let (few, many) = (mib(&few), mib(&many));
        assert!(many < few * GROWTH, "rank {rank}: {few} MiB with 8 microbatches, {many} MiB with 64");
    }
}
