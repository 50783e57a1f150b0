//! Runs of several ranks, each on a thread of its own, over memory that holds no message in flight.

use std::time::Duration;

use pp_comm::{MemorySpec, memory_fabric};
use pp_schedule::Rank;
use pp_train::args::Args;
use pp_train::{Invalid, Machine, Outcome, OwnPrograms, Report, Stop, Text, TrainConfig, channels, prove, train};

/// A model that trains in no time. A dry run, so that `--pp` needs no world.
pub(crate) const TINY: &str = "--dry-run --mock-data --hidden-size 16 --num-heads 2 --num-layers 8 --seq-length 16 \
                        --micro-batch-size 2 --train-iters 10 --eval-iters 2 --lr 1e-2";

pub(crate) fn config(line: &str) -> TrainConfig {
    try_config(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

pub(crate) fn try_config(line: &str) -> Result<TrainConfig, Invalid> {
    let args = Args::from_words(TINY.split_whitespace().chain(line.split_whitespace())).unwrap();
    TrainConfig::new(&args)
}

/// Trains [`TINY`] with these arguments on top.
pub(crate) fn run(line: &str) -> Outcome {
    let config = config(line);
    run_on(&config, &Text::load(&config).unwrap(), 1)
}

/// Trains on a text with a number of kernel threads per rank; all ranks must tell the same.
pub(crate) fn run_on(config: &TrainConfig, text: &Text, threads: usize) -> Outcome {
    let certificates = prove(config.plan()).unwrap();
    let n_ranks = config.plan().n_ranks();
    let spec = MemorySpec {
        n_ranks,
        channels: channels(config, &OwnPrograms::build(config.plan(), Rank(0)).unwrap()),
        capacity: 0,
        deadline: Duration::from_secs(60),
    };
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let ranks = memory_fabric(spec).unwrap().into_iter().map(|builder| {
            let certificates = &certificates;
            scope.spawn(move || {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let own = OwnPrograms::build(config.plan(), builder.rank()).unwrap();
                    let programs = own.certify(certificates).unwrap();
                    let mut member = builder.build();
                    let machine = Machine::open(config).unwrap();
                    let (stop, mut report) = (Stop::default(), Report::silent());
                    let outcome = train(config, text, &machine, programs, &mut member, &stop, &mut report).unwrap();
                    member.close();
                    outcome
                })
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    assert!(outcomes.iter().all(|outcome| bits(outcome) == bits(&outcomes[0])), "the ranks disagree");
    assert_eq!(outcomes[0].ranks.len(), n_ranks as usize);
    outcomes.into_iter().next().unwrap()
}

/// Everything in an outcome that does not depend on the clock, to the bit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) losses: Vec<u64>,
    pub(crate) grad_norms: Vec<u64>,
    pub(crate) validations: Vec<u64>,
    pub(crate) initial: u128,
    pub(crate) weights: u128,
}

pub(crate) fn bits(outcome: &Outcome) -> Bits {
    let of = |value: fn(&pp_train::IterationRecord) -> f64| {
        outcome.iterations.iter().map(|record| value(record).to_bits()).collect()
    };
    Bits {
        losses: of(|record| record.loss),
        grad_norms: of(|record| record.grad_norm),
        validations: outcome.validations.iter().map(|record| record.validation_loss.to_bits()).collect(),
        initial: outcome.initial_fingerprint,
        weights: outcome.weights_fingerprint,
    }
}

/// Losses and gradient norms agree within a relative tolerance.
pub(crate) fn assert_close(a: &Outcome, b: &Outcome, tolerance: f64) {
    let close = |a: f64, b: f64| (a - b).abs() <= tolerance * b.abs();
    assert_eq!(a.iterations.len(), b.iterations.len());
    for (a, b) in a.iterations.iter().zip(&b.iterations) {
        assert!(close(a.loss, b.loss), "losses {} and {} at iteration {}", a.loss, b.loss, a.iteration);
        assert!(
            close(a.grad_norm, b.grad_norm),
            "gradient norms {} and {} at iteration {}",
            a.grad_norm,
            b.grad_norm,
            a.iteration
        );
    }
}
