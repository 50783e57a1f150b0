//! The text: splits, windows, entropy.

use pp_model::{IGNORE, MicroBatch};
use pp_train::args::Args;
use pp_train::{Text, TrainConfig};

fn config(line: &str) -> TrainConfig {
    TrainConfig::new(&Args::from_words(line.split_whitespace()).unwrap()).unwrap()
}

/// The sequences of a step, whatever its microbatches.
fn sequences(batch: &[MicroBatch], seq_len: usize) -> Vec<(Vec<u32>, Vec<i64>)> {
    let one = |batch: &MicroBatch| -> Vec<_> {
        let pairs = batch.tokens.chunks(seq_len).zip(batch.labels.chunks(seq_len));
        pairs.map(|(tokens, labels)| (tokens.to_vec(), labels.to_vec())).collect()
    };
    batch.iter().flat_map(one).collect()
}

#[test]
fn a_step_has_the_same_sequences_however_it_is_cut() {
    let cut = |line: &str| {
        let config = config(&format!("--mock-data --seq-length 16 {line}"));
        let text = Text::load(&config).unwrap();
        let step = |iteration| sequences(&text.training_batch(&config, iteration), 16);
        (step(0), step(7))
    };
    let whole = cut("--micro-batch-size 8 --microbatches 1");
    assert_eq!(whole, cut("--micro-batch-size 4 --microbatches 2"));
    assert_eq!(whole, cut("--micro-batch-size 2 --microbatches 4"));
    assert_eq!(whole, cut("--micro-batch-size 1 --microbatches 8 --dry-run --pp 4 --vp 2"));
    assert_ne!(whole.0, whole.1, "steps differ");
    assert_ne!(whole.0[0], whole.0[1], "sequences differ");
    assert_ne!(whole, cut("--micro-batch-size 8 --microbatches 1 --seed 7"), "seeds differ");
}

#[test]
fn a_label_is_the_token_after() {
    let config = config("--mock-data --seq-length 16 --micro-batch-size 2 --microbatches 2");
    let text = Text::load(&config).unwrap();
    for (tokens, labels) in sequences(&text.training_batch(&config, 3), 16) {
        assert!(tokens[1..].iter().zip(&labels).all(|(&token, &label)| i64::from(token) == label));
        let window: Vec<u8> = tokens.iter().map(|&token| token as u8).chain([labels[15] as u8]).collect();
        assert!(text.training().windows(17).any(|at| at == window), "it stands in the training text");
    }
}

#[test]
fn validation_counts_every_token_once() {
    let config = config("--mock-data --seq-length 8 --micro-batch-size 2 --microbatches 3 --eval-iters 100");
    let bytes: Vec<u8> = (0..2000_u32).map(|i| (i % 251) as u8).collect();
    let text = Text::of(bytes, 8, "a text").unwrap();
    assert_eq!((text.training().len(), text.validation().len()), (1800, 200));
    // 199 labels in 25 windows of 8, six to a step.
    assert_eq!(text.n_validation_steps(&config), 5);
    let steps = (0..5).flat_map(|step| sequences(&text.validation_batch(&config, step), 8));
    let labels: Vec<i64> = steps.flat_map(|(_, labels)| labels).collect();
    assert_eq!(labels.len(), 5 * 6 * 8);
    let counted: Vec<i64> = labels.into_iter().filter(|&label| label != IGNORE).collect();
    assert_eq!(counted, text.validation()[1..].iter().map(|&byte| i64::from(byte)).collect::<Vec<_>>());
}

#[test]
fn validation_stops_where_it_is_told_to() {
    let config = config("--mock-data --eval-iters 2");
    assert_eq!(Text::load(&config).unwrap().n_validation_steps(&config), 2);
}

#[test]
fn entropy_is_that_of_single_bytes() {
    let text = Text::of(b"abab".repeat(50), 4, "a text").unwrap();
    assert!((text.unigram_entropy() - std::f64::consts::LN_2).abs() < 1e-12);
    assert_eq!(Text::of(vec![b'a'; 200], 4, "a text").unwrap().unigram_entropy(), 0.0);
}

#[test]
fn the_synthetic_text_is_its_seeds() {
    let text = |seed| Text::load(&config(&format!("--mock-data --seed {seed}"))).unwrap();
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
    assert!(text(1).bytes().is_ascii());
}
