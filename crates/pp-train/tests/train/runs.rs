//! Whole runs: validation between steps, learning, outcomes.

use crate::harness::{bits, config, run, run_on};
use pp_train::Text;

#[test]
fn validation_between_steps_changes_nothing() {
    for cut in ["--pp 1", "--pp 2 --vp 2", "--pp 4 --schedule gpipe --gpipe-backward ascending"] {
        let plain = run(cut);
        let often = run(&format!("{cut} --eval-interval 2"));
        let at: Vec<u32> = often.validations.iter().map(|record| record.iteration).collect();
        assert_eq!(at, [2, 4, 6, 8, 10]);
        let last = bits(&plain).validations;
        assert_eq!(bits(&often).validations[4..], last);
        assert_eq!((bits(&plain).losses, bits(&plain).weights), (bits(&often).losses, bits(&often).weights), "{cut}");
    }
}

#[test]
fn validation_is_a_mean_over_tokens_however_it_is_cut() {
    // 199 labels: neither the last window nor the last step is full.
    let bytes: Vec<u8> = (0..2000_u32).map(|i| (i * i % 251) as u8).collect();
    let validate = |line: &str| {
        let config = config(&format!("--train-iters 1 --lr 0 --eval-iters 100 {line}"));
        run_on(&config, &Text::of(bytes.clone(), 16, "a text").unwrap(), 1).validation_loss.unwrap()
    };
    let whole = validate("--micro-batch-size 1 --microbatches 1");
    for line in ["--micro-batch-size 3 --microbatches 2", "--micro-batch-size 2 --microbatches 4 --pp 4 --vp 2"] {
        let loss = validate(line);
        assert!((loss - whole).abs() < 1e-6 * whole, "{line}: {loss}, {whole}");
    }
}

#[test]
fn it_learns() {
    let outcome = run("--pp 2 --train-iters 100 --microbatches 4 --micro-batch-size 4 --eval-iters 4");
    let (first, last) = (outcome.iterations[0].loss, outcome.validation_loss.unwrap());
    assert!((first - 256_f64.ln()).abs() < 0.2, "at first it knows nothing: {first}");
    assert!(last < outcome.unigram_entropy, "{last}, unigram entropy {}", outcome.unigram_entropy);
}

#[test]
fn an_outcome_has_its_figures() {
    let outcome = run("--pp 2 --train-iters 3");
    assert_eq!(outcome.iterations.iter().map(|record| record.iteration).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(outcome.iterations.iter().all(|record| record.tokens == 8 * 2 * 16 && record.step_ms > 0.0));
    assert!(outcome.median_tokens_per_s() > 0.0 && outcome.overall_tokens_per_s() > 0.0);
    for rank in &outcome.ranks {
        assert!(rank.busy_share() > 0.0 && rank.busy_share() + rank.wait_share() < 1.01, "{rank:?}");
    }
}

#[test]
fn memory_is_what_the_closed_form_says() {
    for line in ["--pp 4 --microbatches 8", "--pp 4 --microbatches 16", "--pp 2 --vp 2", "--pp 2 --schedule gpipe"] {
        let line = format!("{line} --train-iters 1");
        let config = config(&line);
        let expected: Vec<usize> = config.plan().peaks_saved().into_iter().map(|peak| peak as usize).collect();
        let measured: Vec<usize> = run(&line).ranks.iter().map(|rank| rank.peak_saved).collect();
        assert_eq!(measured, expected, "{line}");
    }
}
