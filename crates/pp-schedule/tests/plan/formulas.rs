//! Estimates from a shape, against published figures and sums done by hand.

use pp_schedule::Placement;
use pp_schedule::plan::{GptError, GptRun, GptShape, Keeps, Machine, Precision, Recompute, Stages};

const RUN: GptRun = GptRun {
    micro_batch: 1,
    precision: Precision::Bf16,
    keeps: Keeps::Megatron,
    teraflops: 100.0,
    shard_optimizer: false,
};

const GPT2: GptShape = GptShape { hidden: 768, layers: 12, heads: 12, seq: 1024, vocab: 50257, tied: true };
const GPT3: GptShape = GptShape { hidden: 12288, layers: 96, heads: 96, seq: 2048, vocab: 50257, tied: true };

#[test]
fn parameters_are_those_published() {
    assert_eq!(GPT2.parameters(), 124_439_808);
    assert_eq!(GPT3.parameters() / 100_000_000, 1746);
    // Narayanan et al. 2021, table 1: hidden size, layers, billions of parameters; vocabulary 51200, sequences of 2048.
    for (hidden, layers, billions) in [
        (2304, 24, 1.7),
        (3072, 30, 3.6),
        (4096, 36, 7.5),
        (6144, 40, 18.4),
        (8192, 48, 39.1),
        (10240, 60, 76.1),
        (12288, 80, 145.6),
        (16384, 96, 310.1),
        (20480, 105, 529.6),
        (25600, 128, 1008.0),
    ] {
        let shape = GptShape { hidden, layers, heads: 1, seq: 2048, vocab: 51200, tied: true };
        let counted = shape.parameters() as f64 / 1e9;
        assert_eq!(format!("{counted:.1}"), format!("{billions:.1}"), "hidden {hidden}, {layers} layers");
    }
    // A head of its own is trained as well; what is held does not change.
    let untied = GptShape { tied: false, ..GPT2 };
    assert_eq!(untied.parameters() - GPT2.parameters(), 50257 * 768);
    assert_eq!(untied.model(&RUN), GPT2.model(&RUN));
}

/// Narayanan et al. 2021, section 5.1: `96 B s l h^2 (1 + s / 6h + V / 16 l h)` operations per step with layers computed
/// again, and `72 B s l h^2 (1 + s / 6h + V / 12 l h)` without.
#[test]
fn operations_are_those_published() {
    for shape in [GPT2, GPT3] {
        let [s, l, h, v] = [shape.seq, shape.layers, shape.hidden, shape.vocab].map(f64::from);
        let sum = |operations: pp_schedule::plan::Operations| {
            operations.forward + operations.backward_input + operations.backward_weight
        };
        let layers = u128::from(shape.layers);
        let once = layers * sum(shape.layer_operations(3)) + sum(shape.head_operations(3));
        let again = once + layers * shape.layer_operations(3).forward;
        let close = |ours: u128, theirs: f64| (ours as f64 / theirs - 1.0).abs() < 1e-12;
        assert!(close(once, 72.0 * 3.0 * s * l * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * l * h))));
        assert!(close(again, 96.0 * 3.0 * s * l * h * h * (1.0 + s / (6.0 * h) + v / (16.0 * l * h))));
    }
}

#[test]
fn operations_become_time() {
    let model = GPT3.model(&RUN).unwrap();
    // 24 * 2048 * 12288^2 + 4 * 2048^2 * 12288 operations at 10^5 per nanosecond.
    assert_eq!(model.layers[0].part.forward, (7_421_703_487_488_u64 + 206_158_430_208 + 50_000) / 100_000);
    assert_eq!(model.layers[0].part.backward_weight, (7_421_703_487_488_u64 + 50_000) / 100_000);
    assert_eq!(model.layers[0].part.backward_input, (7_421_703_487_488_u64 + 2 * 206_158_430_208 + 50_000) / 100_000);
    assert_eq!(model.head.forward, (2 * 2048 * 12288 * 50257_u64 + 50_000) / 100_000);
    assert_eq!(model.embedding.forward, 0);
    // The smallest model there is still takes time.
    let least = GptShape { hidden: 1, layers: 1, heads: 1, seq: 1, vocab: 1, tied: true };
    assert_eq!(least.model(&GptRun { teraflops: 1e9, ..RUN }).unwrap().layers[0].part.forward, 1);
}

/// Korthikanti et al. 2022: `s b h (34 + 5 a s / h)` bytes per layer, of which selective recomputation leaves 34 and full
/// recomputation 2; for GPT-3, `5 a s / h` is 80. Qi et al. 2023: `32 s b h` are put off until W.
#[test]
fn bytes_are_those_published() {
    let run = GptRun { micro_batch: 2, ..RUN };
    let model = GPT3.model(&run).unwrap();
    let sbh = 2048 * 2 * 12288;
    let layer = model.layers[0];
    assert_eq!(layer.part.activation, sbh * (34 + 80));
    assert_eq!(layer.part.deferred, sbh * 32);
    assert_eq!((layer.input, model.message), (2 * sbh, 2 * sbh));
    let loads = |recompute| {
        Stages::balanced(&model, recompute, Placement::looped(96, 1), &Machine::default()).unwrap().loads[3]
    };
    assert_eq!(loads(Recompute::None).bytes.activation, sbh * 114);
    assert_eq!(loads(Recompute::Selective).bytes.activation, sbh * 34);
    assert_eq!(loads(Recompute::Full).bytes.activation, sbh * 2);
    // What is computed again is there for a while, and costs a forward of what it is.
    assert_eq!(loads(Recompute::Selective).working, sbh * 80);
    assert_eq!(loads(Recompute::Full).working, sbh * 112);
    let (none, selective, full) = (loads(Recompute::None), loads(Recompute::Selective), loads(Recompute::Full));
    assert_eq!(full.costs.backward - none.costs.backward, none.costs.forward);
    assert_eq!(selective.costs.backward - none.costs.backward, layer.core.unwrap().forward);
    assert_eq!(full.costs.backward_weight, none.costs.backward_weight);
}

#[test]
fn weights_take_18_bytes_per_parameter_or_16() {
    let bytes = |run: &GptRun, replicas| GPT2.model(run).unwrap().layers[0].part.weights.on_replica(replicas);
    let parameters = 12 * 768 * 768 + 13 * 768;
    assert_eq!(bytes(&RUN, 1), 18 * parameters);
    assert_eq!(bytes(&GptRun { precision: Precision::F32, ..RUN }, 4), 16 * parameters);
    // A sharded optimizer: 6 + 12 / d.
    assert_eq!(bytes(&GptRun { shard_optimizer: true, ..RUN }, 4), 9 * parameters);
}

#[test]
fn shapes_that_are_none_are_refused_with_what_works() {
    let refused = |shape: GptShape, run: GptRun| shape.model(&run).unwrap_err().to_string();
    assert!(refused(GptShape { hidden: 770, ..GPT2 }, RUN).contains("--hidden-size 768"));
    assert!(refused(GptShape { seq: 0, ..GPT2 }, RUN).contains("--seq-length is 0"));
    assert!(refused(GptShape { layers: 5000, ..GPT2 }, RUN).contains("4096"));
    assert!(refused(GPT2, GptRun { micro_batch: 0, ..RUN }).contains("--micro-batch-size is 0"));
    assert!(refused(GPT2, GptRun { teraflops: f64::NAN, ..RUN }).contains("such as 400"));
    let most = 1 << 24;
    let huge = GptShape { hidden: most, layers: 1, heads: 1, seq: most, vocab: most, tied: true };
    let error = huge.model(&GptRun { micro_batch: most, ..RUN }).unwrap_err();
    assert!(matches!(error, GptError::TooLarge { .. }), "{error}");
}
