//! Times forward and backward of one microbatch through a whole model on the CPU, the shape the performance notes use.
//!
//! `cargo run --release -p pp-model --example microbatch -- [repetitions]`

use std::error::Error;
use std::time::Instant;

use pp_comm::{StageCompute, Task};
use pp_model::{ChunkSpec, GptConfig, GptOptions, GptStage, MicroBatch, Numbers};
use pp_schedule::{Microbatch, Slot, SlotClass, Stage, Work};

const BATCH: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let n_repetitions: usize = std::env::args().nth(1).map_or(Ok(20), |text| text.parse())?;
    let options =
        GptOptions { vocab: 8192, seq_len: 128, hidden: 256, n_layers: 8, n_heads: 8, ..GptOptions::default() };
    let config = GptConfig::new(options)?;
    let whole = ChunkSpec { stage: Stage(0), pre_process: true, post_process: true, layers: 0..8 };
    let mut stage = GptStage::new(&config, BATCH, vec![whole], &Numbers::f32_on_cpu(1))?;
    let tokens: Vec<u32> = (0..BATCH as u32 * 128).map(|at| at * 7919 % 8192).collect();
    let labels = tokens.iter().map(|&token| i64::from(token)).collect();
    stage.set_step(vec![MicroBatch { tokens, labels }])?;

    let saved = Some(Slot::new(SlotClass::Saved, 0));
    let (mut forwards, mut backwards) = (Vec::new(), Vec::new());
    for _ in 0..n_repetitions.max(1) + 1 {
        let start = Instant::now();
        stage.forward(Task { work: Work::forward(Stage(0), Microbatch(0)), saved }, None)?;
        let middle = Instant::now();
        stage.backward(Task { work: Work::backward(Stage(0), Microbatch(0)), saved }, None)?;
        forwards.push((middle - start).as_secs_f64() * 1e3);
        backwards.push(middle.elapsed().as_secs_f64() * 1e3);
    }
    let totals: Vec<f64> = forwards.iter().zip(&backwards).map(|(forward, backward)| forward + backward).collect();
    for (name, mut times) in [("forward", forwards), ("backward", backwards), ("both", totals)] {
        // The first repetition touches all memory for the first time.
        times.remove(0);
        times.sort_by(f64::total_cmp);
        println!("{name:9} median {:7.1} ms, least {:7.1} ms", times[times.len() / 2], times[0]);
    }
    Ok(())
}
