//! The planner's estimates from a shape, against what the model has and what it really allocates.

use cap::Cap;
use pp_model::chunk::ChunkOutput;
use pp_model::{ChunkSpec, DType, GptChunk, GptConfig, GptOptions, Inputs, MicroBatch, Moments, Numbers, catalog};
use pp_schedule::Stage;
use pp_schedule::plan::{GptRun, GptShape, Keeps, Model, Precision};

/// Counts the bytes that are allocated. One test only looks at it, so that no other disturbs it.
#[global_allocator]
static ALLOCATED: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

const RUN: GptRun =
    GptRun { micro_batch: 2, precision: Precision::F32, keeps: Keeps::PpModel, teraflops: 0.1, shard_optimizer: false };

const SHAPES: [GptShape; 3] = [
    GptShape { hidden: 64, layers: 3, heads: 4, seq: 96, vocab: 300, tied: true },
    GptShape { hidden: 96, layers: 4, heads: 2, seq: 64, vocab: 1000, tied: false },
    // Attention's scores are most of it.
    GptShape { hidden: 32, layers: 2, heads: 8, seq: 256, vocab: 64, tied: false },
];

fn config(shape: GptShape) -> GptConfig {
    let [vocab, seq_len, hidden, n_layers, n_heads] =
        [shape.vocab, shape.seq, shape.hidden, shape.layers, shape.heads].map(|size| size as usize);
    let options = GptOptions { vocab, seq_len, hidden, n_layers, n_heads, tied: shape.tied, ..GptOptions::default() };
    GptConfig::new(options).expect("a model")
}

#[test]
fn estimates_are_what_the_model_has_and_takes() {
    for shape in SHAPES {
        parameters(shape);
        for (precision, dtype) in [(Precision::F32, DType::F32), (Precision::Bf16, DType::BF16)] {
            let model = shape.model(&GptRun { precision, ..RUN }).expect("an estimate");
            bytes(shape, &model, &Numbers { dtype, ..Numbers::f32_on_cpu(7) });
        }
    }
}

fn parameters(shape: GptShape) {
    let config = config(shape);
    assert_eq!(shape.parameters(), catalog::n_parameters(&config) as u128);
    let len = |names: &dyn Fn(&str) -> bool| -> u128 {
        let specs = catalog::catalog(&config);
        // A tied head is called as what it copies, but stands last.
        let (last, others) = specs.split_last().expect("parameters");
        let last_name = "lm_head.weight";
        let others = others.iter().filter(|spec| names(&spec.name)).map(|spec| spec.len() as u128);
        others.sum::<u128>() + if names(last_name) { last.len() as u128 } else { 0 }
    };
    assert_eq!(shape.layer_parameters(), len(&|name| name.starts_with("h.0.")));
    assert_eq!(shape.embedding_parameters(), len(&|name| name.starts_with("wte.") || name.starts_with("wpe.")));
    assert_eq!(shape.head_parameters(), len(&|name| name.starts_with("ln_f.") || name.starts_with("lm_head.")));
}

/// The first stage has the embedding and all layers but the last, the last stage the last layer and the head.
fn bytes(shape: GptShape, model: &Model, numbers: &Numbers) {
    let config = config(shape);
    let batch = Inputs::new(microbatch(shape), numbers.dtype, &numbers.device).expect("inputs");
    let (first, last) = (shape.layers as u64 - 1, shape.layers);
    let spec =
        |stage, layers| ChunkSpec { stage: Stage(stage), pre_process: stage == 0, post_process: stage == 1, layers };
    let layer = model.layers[0].part;

    let before = ALLOCATED.allocated();
    let mut front = GptChunk::new(&config, spec(0, 0..last - 1), numbers).expect("a chunk");
    let moments: Vec<Moments> = front.params().map(|param| Moments::zeros_like(param).expect("zeros")).collect();
    let weights = first * layer.weights.replicated + model.embedding.weights.replicated;
    close("weights", ALLOCATED.allocated() - before, weights, 5 * HEAD * moments.len() as u64);
    drop(moments);
    let mut back = GptChunk::new(&config, spec(1, last - 1..last), numbers).expect("a chunk");

    // Twice: what the first run sets up once (threads and their buffers) is no part of it.
    for measured in [false, true] {
        let check = |what, since: usize, expected| {
            if measured {
                close(what, ALLOCATED.allocated() - since, expected, HEADS);
            }
        };
        let start = ALLOCATED.allocated();
        let (out, saved) = front.forward(None, &batch, config.seq_len()).expect("a forward");
        let ChunkOutput::Activation(x) = out else { panic!("the first stage has no loss") };
        // Its output is the next stage's input, and counted there.
        check("front, kept", start, first * layer.activation + model.embedding.activation + model.message);

        let middle = ALLOCATED.allocated();
        let (loss, saved_back) = back.forward(Some(x), &batch, config.seq_len()).expect("a forward");
        check("back, kept", middle, layer.activation + model.head.activation - model.message);
        drop(loss);

        let (dx, work_back) = back.backward_input(saved_back, None).expect("a backward");
        let dx = dx.expect("a gradient");
        // What is left of the two stages: all that the first keeps, what the second puts off, the gradient between.
        let front_kept = first * layer.activation + model.embedding.activation;
        check("back, put off", start, front_kept + layer.deferred + model.head.deferred + model.message);
        back.backward_weight(work_back, &batch).expect("a backward");
        let (none, work) = front.backward_input(saved, Some(dx)).expect("a backward");
        assert!(none.is_none());
        check("front, put off", start, first * layer.deferred + model.embedding.deferred);
        front.backward_weight(work, &batch).expect("a backward");
        check("nothing", start, 0);
    }
}

fn microbatch(shape: GptShape) -> MicroBatch {
    let n = (RUN.micro_batch * shape.seq) as usize;
    let token = |at: usize| (at * 31 % shape.vocab as usize) as u32;
    MicroBatch { tokens: (0..n).map(token).collect(), labels: (0..n).map(|at| i64::from(token(at + 1))).collect() }
}

/// A tensor's shape, layout and counters, or a parameter's name.
const HEAD: u64 = 400;
/// Those of all tensors that two stages keep. Less than one activation `[b, s, h]` of any of the shapes, which is 49 KB.
const HEADS: u64 = 40_000;

/// No more than the heads of tensors and names of parameters beyond the estimate.
fn close(what: &str, counted: usize, estimated: u64, heads: u64) {
    let counted = counted as u64;
    let fits = (estimated..=estimated + heads).contains(&counted);
    assert!(fits, "{what}: {counted} bytes are allocated, {estimated} were estimated");
}
