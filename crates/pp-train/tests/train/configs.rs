//! Arguments to configuration: what is refused, and how it is said.

use pp_train::args::{Args, one_line};
use pp_train::{Text, TrainConfig};

fn configure(line: &str) -> Result<TrainConfig, String> {
    let args = Args::from_words(line.split_whitespace()).map_err(|error| one_line(&error))?;
    TrainConfig::new(&args).map_err(|error| error.to_string())
}

fn resolve(line: &str) -> Result<TrainConfig, String> {
    let config = configure(line)?;
    Text::load(&config).map_err(|error| error.to_string())?;
    Ok(config)
}

/// Arguments, and what the refusal must say: flags, values, the nearest that works.
const REFUSED: &[(&str, &[&str])] = &[
    // The schedule's rules.
    ("--mock-data --dry-run --pp 4 --vp 2 --microbatches 3", &["--microbatches 3", "--pp is 4", "--microbatches 4"]),
    ("--mock-data --dry-run --pp 4 --vp 2 --microbatches 8 --group-size 3", &["--group-size 3", "--pp is 4"]),
    ("--mock-data --dry-run --pp 4 --vp 2 --microbatches 8 --group-size 9", &["--group-size 9", "--microbatches 8"]),
    (
        "--mock-data --dry-run --pp 4 --vp 2 --microbatches 9 --group-size 4",
        &["--microbatches 9", "--group-size 4", "is 1"],
    ),
    (
        "--mock-data --dry-run --pp 4 --vp 2 --allow-bubbles --group-size 4 --microbatches 9",
        &["--allow-bubbles", "--group-size 4"],
    ),
    ("--mock-data --schedule zigzag", &["zigzag", "1f1b, dualpipe-v, gpipe"]),
    ("--mock-data --schedule gpipe --gpipe-backward sideways", &["sideways", "ascending, reverse"]),
    ("--mock-data --gpipe-backward reverse", &["--gpipe-backward", "gpipe only"]),
    ("--mock-data --schedule 1f1b --vp 2 --pp 2 --dry-run", &["--vp is 2", "--vp 1"]),
    // The policy's rules.
    ("--mock-data --policy zigzag", &["zigzag", "lanes, megatron, megatron-even-odd", "stagger"]),
    ("--mock-data --policy megatron --p2p-issue sideways", &["--p2p-issue sideways", "batched, even-odd, ring"]),
    ("--mock-data --policy megatron --p2p-overlap some", &["--p2p-overlap some", "off, steady, warmup-flush"]),
    ("--mock-data --p2p-issue ring", &["--p2p-issue", "--policy is lanes", "--policy megatron"]),
    ("--mock-data --policy stagger --p2p-overlap off", &["--p2p-overlap", "--policy is stagger", "--policy megatron"]),
    ("--mock-data --no-batch-p2p-communication", &["--no-batch-p2p-communication", "--policy megatron"]),
    (
        "--mock-data --dry-run --pp 4 --vp 2 --policy megatron --p2p-overlap steady --p2p-issue batched",
        &["--p2p-issue batched --p2p-overlap steady", "even-odd, or turn the overlap off"],
    ),
    (
        "--mock-data --dry-run --pp 4 --vp 2 --policy megatron-flush --p2p-issue ring",
        &["--p2p-issue ring --p2p-overlap warmup-flush", "even-odd, or turn the overlap off"],
    ),
    (
        "--mock-data --dry-run --pp 4 --policy megatron --overlap-p2p-communication",
        &["--p2p-overlap steady", "1f1b does not overlap", "use interleaved"],
    ),
    (
        "--mock-data --dry-run --pp 2 --vp 2 --policy megatron",
        &["--p2p-issue batched", "--pp 2", "even-odd, use --pp 3 or more, or the lanes policy"],
    ),
    ("--mock-data --dry-run --pp 4 --schedule gpipe --policy megatron", &["`gpipe`", "1f1b, interleaved and none"]),
    (
        "--mock-data --dry-run --pp 4 --vp 2 --microbatches 6 --allow-bubbles --policy megatron",
        &["--policy megatron", "--allow-bubbles", "use the lanes policy"],
    ),
    ("--mock-data --dry-run --pp 4 --vp 2 --policy stagger", &["--policy stagger", "1f1b", "interleaved", "lanes"]),
    (
        "--mock-data --dry-run --pp 4 --microbatches 2 --policy stagger",
        &["--microbatches is 2", "--pp 4", "smaller microbatches", "gpipe", "works: --microbatches 4"],
    ),
    (
        "--mock-data --dry-run --pp 4 --global-batch-size 12 --policy stagger",
        &["--global-batch-size 12 is 3", "--pp 4", "works: --micro-batch-size 3, or --global-batch-size 16"],
    ),
    // Batches.
    (
        "--mock-data --global-batch-size 10 --micro-batch-size 4",
        &["10", "4", "--global-batch-size 8 or 12", "--micro-batch-size 5"],
    ),
    ("--mock-data --global-batch-size 3 --micro-batch-size 4", &["--global-batch-size 3", "--global-batch-size 4"]),
    (
        "--mock-data --global-batch-size 16 --microbatches 3",
        &["--microbatches 3", "--global-batch-size 16", "works: --microbatches 4, or --global-batch-size 12"],
    ),
    ("--mock-data --global-batch-size 16 --microbatches 35000", &["--microbatches 35000", "works: --microbatches 4"]),
    ("--mock-data --global-batch-size 65535 --micro-batch-size 10", &["65535", "works: --global-batch-size 65530, or"]),
    ("--mock-data --global-batch-size 140000", &["--global-batch-size 140000", "--global-batch-size 65536"]),
    (
        "--mock-data --dry-run --pp 4 --vp 2 --global-batch-size 18",
        &["--global-batch-size 18", "works: --global-batch-size 16"],
    ),
    (
        "--mock-data --dry-run --pp 4 --vp 2 --global-batch-size 36",
        &["36 is 9 microbatches", "works: --global-batch-size 32 or 48"],
    ),
    (
        "--mock-data --dry-run --pp 4 --vp 2 --global-batch-size 12",
        &["--global-batch-size 12 is 3 microbatches", "works: --global-batch-size 16"],
    ),
    // Lengths by microbatch.
    (
        "--mock-data --variable-seq-lengths 5,70,3",
        &["--variable-seq-lengths 5,70,3: 70", "--seq-length 64", "5,64,3", "works: --seq-length 70"],
    ),
    ("--mock-data --variable-seq-lengths 5,0", &["--variable-seq-lengths 5,0: 0 is not within 1", "as 5,1 is"]),
    ("--mock-data --variable-seq-lengths 5,x", &["--variable-seq-lengths `5,x`: `x` is no length", "5,7,3,9"]),
    ("--mock-data --variable-seq-lengths -5", &["`-5` is no length", "within 1 and --seq-length 64"]),
    ("--mock-data --variable-seq-lengths 5,,7", &["`5,,7`: `` is no length"]),
    ("--mock-data --variable-seq-lengths", &["--variable-seq-lengths <LENGTHS>", "value is required"]),
    (
        "--mock-data --microbatches 2 --variable-seq-lengths 5,7,3",
        &["5,7,3 has 3 lengths", "microbatches of a step, 2, as 5,7 has", "works: --microbatches 3"],
    ),
    ("--mock-data --global-batch-size 8 --variable-seq-lengths 5,7,3", &["3 lengths", "works: --global-batch-size 12"]),
    // The model.
    ("--mock-data --dry-run --pp 2 --vp 2 --num-layers 10", &["--num-layers 10", "--num-layers 8 or 12"]),
    ("--mock-data --dry-run --pp 4 --num-layers 30", &["--num-layers 30", "28 or 32"]),
    ("--mock-data --dry-run --pp 2 --vp 2 --layer-split 2,2,4", &["--layer-split", "3 counts", "4 stages"]),
    ("--mock-data --dry-run --pp 2 --vp 2 --layer-split 2,2,2,1", &["--layer-split", "7", "--num-layers is 8"]),
    (
        "--mock-data --dry-run --pp 2 --layer-split 4,x",
        &["--layer-split `4,x`", "`x` is no number", "2,2,3,1, or auto"],
    ),
    (
        "--mock-data --dry-run --pp 2 --layer-split auto --pipeline-layout Et*4|t*4L",
        &["--layer-split", "leave one out"],
    ),
    ("--mock-data --dry-run --pp 2 --pipeline-layout Et*4|t*3L", &["7", "8"]),
    ("--mock-data --dry-run --pp 2 --pipeline-layout Et*4|x*4L", &["--pipeline-layout", "`x`", "character"]),
    ("--mock-data --dry-run --pp 2 --pipeline-layout Et*4|t*2|t|tL", &["--vp"]),
    ("--mock-data --dry-run --pp 4 --num-layers 2 --layer-split auto", &["--num-layers", "2", "4"]),
    ("--mock-data --hidden-size 100 --num-heads 8", &["--hidden-size 100", "--num-heads 8", "96", "--num-heads 10"]),
    // Zero for any size.
    ("--mock-data --pp 0", &["--pp is 0", "at least 1"]),
    ("--mock-data --vp 0", &["--vp is 0"]),
    ("--mock-data --microbatches 0", &["--microbatches is 0"]),
    ("--mock-data --dry-run --pp 2 --vp 2 --group-size 0", &["--group-size is 0"]),
    ("--mock-data --micro-batch-size 0", &["--micro-batch-size is 0"]),
    ("--mock-data --global-batch-size 0", &["--global-batch-size is 0"]),
    ("--mock-data --seq-length 0", &["--seq-length is 0"]),
    ("--mock-data --hidden-size 0", &["--hidden-size is 0"]),
    ("--mock-data --num-layers 0", &["--num-layers is 0"]),
    ("--mock-data --num-heads 0", &["--num-heads is 0"]),
    ("--mock-data --train-iters 0", &["--train-iters is 0"]),
    ("--mock-data --eval-interval 0", &["--eval-interval is 0"]),
    ("--mock-data --eval-iters 0", &["--eval-iters is 0"]),
    ("--mock-data --threads 0", &["--threads is 0"]),
    ("--mock-data --dp 0", &["--dp is 0"]),
    ("--mock-data --tp 0", &["--tp is 0"]),
    ("--mock-data --timeout 0", &["--timeout 0", "60"]),
    // Sizes that no machine has.
    ("--mock-data --hidden-size 4000000000 --num-heads 1", &["--hidden-size 4000000000", "65536"]),
    ("--mock-data --num-layers 65536 --hidden-size 65536", &["--num-layers 65536", "--hidden-size 65536", "GiB"]),
    ("--mock-data --dry-run --pp 4 --num-layers 65536 --hidden-size 65536", &["--num-layers 65536", "GiB"]),
    (
        "--mock-data --micro-batch-size 65536 --seq-length 1024",
        &["--micro-batch-size 65536", "4294967296", "works: --micro-batch-size"],
    ),
    ("--mock-data --micro-batch-size 65536 --microbatches 8000000", &["8000000 microbatches", "GiB"]),
    ("--mock-data --threads 100000", &["--threads 100000", "1024"]),
    // Numbers that are none.
    ("--mock-data --pp two", &["--pp `two` is not a whole number of at least 1 and at most 4294967295"]),
    ("--mock-data --pp -1", &["--pp `-1` is not a whole number of at least 1"]),
    ("--mock-data --micro-batch-size 4294967296", &["--micro-batch-size `4294967296`", "at most 4294967295"]),
    ("--mock-data --num-layers 1.5", &["--num-layers `1.5` is not a whole number"]),
    ("--mock-data --seed -1", &["--seed `-1` is not a whole number of at least 0 and at most 18446744073709551615"]),
    ("--mock-data --rank x", &["--rank (PP_RANK) `x` is not a whole number of at least 0"]),
    ("--mock-data --lr fast", &["--lr `fast` is not a number"]),
    ("--mock-data --dry-run --pp 2 --layer-split -1,9", &["--layer-split `-1,9`", "`-1` is no number of layers"]),
    ("--mock-data --pp", &["--pp <N>", "value is required"]),
    ("--mock-data --lr NaN", &["--lr NaN", "6e-3"]),
    ("--mock-data --lr -1e-3", &["--lr -0.001"]),
    ("--mock-data --lr inf", &["--lr inf"]),
    ("--mock-data --lr 1e-3 --min-lr 1e-2", &["--min-lr 0.01", "--lr 0.001", "works: 0.001"]),
    ("--mock-data --min-lr NaN", &["--min-lr NaN"]),
    ("--mock-data --train-iters 10 --lr-warmup-iters 11", &["--lr-warmup-iters 11", "--train-iters 10"]),
    ("--mock-data --weight-decay -0.1", &["--weight-decay -0.1"]),
    ("--mock-data --adam-beta1 1", &["--adam-beta1 1", "0.9"]),
    ("--mock-data --adam-beta2 NaN", &["--adam-beta2 NaN"]),
    ("--mock-data --adam-eps 0", &["--adam-eps 0", "1e-8"]),
    ("--mock-data --clip-grad -1", &["--clip-grad -1"]),
    ("--mock-data --timeout NaN", &["--timeout NaN"]),
    // What is not there.
    ("--mock-data --dp 2", &["--dp 2", "--dp 1"]),
    ("--mock-data --tp 4", &["--tp 4", "--tp 1"]),
    ("--mock-data --warp 9", &["--warp"]),
    // The world.
    ("--mock-data --pp 2", &["world size 1 disagrees with --pp 2; start it through `cargo xtask launch`"]),
    ("--mock-data --pp 2 --rank 0 --world-size 3 --rendezvous-file f", &["world size 3", "--pp 2"]),
    ("--mock-data --dry-run --pp 2 --rank 0 --world-size 3 --rendezvous-file f", &["world size 3", "--pp 2"]),
    ("--mock-data --dry-run --pp 2 --rank 0 --world-size 3", &["world size 3", "--pp 2"]),
    ("--mock-data --dry-run --pp 2 --world-size 1", &["world size 1", "--pp 2"]),
    ("--mock-data --pp 2 --rank 2 --world-size 2 --rendezvous-file f", &["--rank 2", "--world-size 2", "is 1"]),
    ("--mock-data --pp 2 --rank 0 --world-size 2", &["--rank", "--rendezvous-file", "all three"]),
    ("--mock-data --pp 2 --rank 0", &["--rank (PP_RANK) given without --world-size", "--rendezvous HOST:PORT"]),
    ("--mock-data --rendezvous-file f", &["--rendezvous-file f", "without --rank", "all three"]),
    ("--mock-data --rendezvous n:1", &["--rendezvous n:1", "without --rank"]),
    (
        "--mock-data --pp 2 --rank 0 --world-size 2 --rendezvous-file f --rendezvous n:1",
        &["--rendezvous-file f", "--rendezvous n:1", "leave one"],
    ),
    ("--mock-data --pp 2 --rank 0 --world-size 2 --rendezvous node0", &["--rendezvous node0", "HOST:PORT"]),
    (
        "--mock-data --pp 2 --rank 0 --world-size 2 --rendezvous n:1 --rendezvous-port 2",
        &["--rendezvous-port 2", "--rendezvous n:1"],
    ),
    (
        "--mock-data --pp 2 --rank 0 --world-size 2 --rendezvous node0:29400",
        &["node0:29400", "no secret", "openssl rand -hex 32", "PP_SECRET"],
    ),
    (
        "--mock-data --pp 2 --rank 0 --world-size 2 --rendezvous-file f --bind 10.0.0.1",
        &["10.0.0.1", "no secret", "PP_SECRET"],
    ),
    ("--mock-data --pp 2 --rank 0 --world-size 2 --rendezvous-file f --bind 0.0.0.0", &["--bind 0.0.0.0"]),
    ("--mock-data --pp 2 --rank 0 --world-size 2 --rendezvous-file f --bind node0", &["--bind", "node0"]),
    ("--mock-data --pp 2 --rank 0 --world-size 2 --rendezvous-port 0", &["--rendezvous-port", "0"]),
    (
        "--mock-data --pp 2 --rank 0 --world-size 2 --rendezvous n:1 --secret-file no/such/file",
        &["--secret-file no/such/file", "cannot read", "openssl rand -hex 32"],
    ),
    ("--mock-data --launcher horovod", &["--launcher `horovod`", "auto, flags, torchrun, slurm, openmpi, single"]),
    ("--mock-data --launcher slurm", &["--launcher slurm", "SLURM_STEP_ID", "srun"]),
    ("--mock-data --heartbeat 0", &["--heartbeat 0", "usual is 10"]),
    ("--mock-data --transport pigeon", &["--transport `pigeon`", "auto, socket, shm"]),
    // The text.
    ("", &["--data FILE", "--mock-data"]),
    ("--mock-data --data Cargo.toml", &["--data Cargo.toml", "--mock-data"]),
    ("--data no/such/file", &["--data no/such/file", "does not exist"]),
    ("--data Cargo.toml/text", &["--data Cargo.toml/text", "cannot be read"]),
    ("--data /dev/null", &["--data /dev/null", "no regular file"]),
    ("--data src", &["--data src", "directory"]),
    (
        "--data tests/train/short.txt --seq-length 16",
        &["short.txt has 80 bytes", "8 are", "17 bytes", "161 bytes", "--seq-length 7"],
    ),
];

#[test]
fn every_refusal_names_flag_value_rule_and_what_works() {
    for (line, parts) in REFUSED {
        let message = resolve(line).expect_err(line);
        assert!(!message.contains('\n') && !message.ends_with('.'), "`{line}`: {message:?}");
        for part in *parts {
            assert!(message.contains(part), "`{line}`: `{message}` lacks `{part}`");
        }
    }
}

/// What a message tells to try, as words to put at the end of a command line: the last part of it, where that has flags.
fn advice(message: &str) -> Vec<String> {
    let Some((said, last)) = message.rsplit_once("; ") else { return Vec::new() };
    let mut flag = said.split_whitespace().find(|word| word.starts_with("--")).unwrap_or_default();
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let mut found = Vec::new();
    for option in last.split(", or ").flat_map(|option| option.split(" or ")) {
        let option = option.rsplit_once(": ").map_or(option, |(_, option)| option);
        let words: Vec<&str> = option.split_whitespace().skip_while(|&word| word == "use").collect();
        match words[..] {
            [number] if is_number(number) => found.push(format!("{flag} {number}")),
            ["--allow-bubbles"] => found.push(option.to_owned()),
            [first, ..] if first.starts_with("--") => {
                let pairs = words.chunks(2).take_while(|pair| {
                    pair[0].starts_with("--") && (pair.len() == 2 && (is_number(pair[1]) || pair[0] == "--schedule"))
                });
                let pairs: Vec<String> = pairs.map(|pair| pair.join(" ")).collect();
                flag = first;
                found.extend((!pairs.is_empty()).then(|| pairs.join(" ")));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn what_a_refusal_advises_is_accepted() {
    let mut n_advised = 0;
    for (line, _) in REFUSED {
        // A text is looked at only once the rest is in order.
        let accept: fn(&str) -> _ = if configure(line).is_ok() { resolve } else { configure };
        let message = accept(line).expect_err(line);
        for change in advice(&message) {
            n_advised += 1;
            if let Err(again) = accept(&format!("{line} {change}")) {
                panic!("`{line}`: `{message}`, but with `{change}`: `{again}`");
            }
        }
    }
    assert!(n_advised > 40, "only {n_advised} pieces of advice were understood");
}

#[test]
fn a_text_of_the_length_asked_for_is_enough() {
    for seq_len in [1, 2, 7, 16, 64] {
        let message = Text::of(vec![b'a'; 10 * seq_len], seq_len, "a text").unwrap_err().to_string();
        let enough = 10 * seq_len + 1;
        assert!(message.contains(&format!("at least {enough} bytes")), "{message}");
        Text::of(vec![b'a'; enough], seq_len, "a text").unwrap();
        if let Some((_, longest)) = message.split_once("use --seq-length ") {
            Text::of(vec![b'a'; 10 * seq_len], longest.parse().unwrap(), "a text").unwrap();
        }
    }
}

#[test]
fn an_empty_file_is_refused() {
    let path = std::env::temp_dir().join(format!("pp-train-empty-{}", std::process::id()));
    std::fs::write(&path, "").unwrap();
    let message = resolve(&format!("--data {}", path.display())).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert!(message.contains("is empty"), "{message}");
}

#[test]
fn megatrons_names_are_aliases() {
    let ours = "--mock-data --dry-run --pp 2 --vp 2 --group-size 3 --microbatches 6 --num-heads 2 --untie";
    let theirs = "--mock-data --dry-run --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 \
                  --microbatch-group-size-per-virtual-pipeline-stage 3 --global-batch-size 24 --micro-batch-size 4 \
                  --num-attention-heads 2 --untie-embeddings-and-output-weights --tensor-model-parallel-size 1 \
                  --data-parallel-size 1";
    assert_eq!(resolve(ours).unwrap(), resolve(theirs).unwrap());
}

/// Of flags that say the same thing the last one counts.
#[test]
fn megatrons_flags_for_exchanges_are_ours() {
    let base = "--mock-data --dry-run --pp 4 --vp 2 --policy";
    for (ours, theirs) in [
        ("megatron-overlap", "megatron --p2p-overlap steady"),
        ("megatron-overlap", "megatron --overlap-p2p-communication"),
        ("megatron-overlap", "megatron --overlap-p2p-communication --no-batch-p2p-communication"),
        ("megatron-flush", "megatron --overlap-p2p-communication-warmup-flush"),
        ("megatron-flush", "megatron --no-overlap-p2p-communication --p2p-overlap warmup-flush"),
        ("megatron-even-odd", "megatron --no-overlap-p2p-communication --no-batch-p2p-communication"),
        ("megatron-even-odd", "megatron --batch-p2p-communication --p2p-issue even-odd"),
        ("megatron", "megatron --no-batch-p2p-communication --batch-p2p-communication"),
        ("megatron", "megatron --overlap-p2p-communication --no-overlap-p2p-communication"),
        ("megatron-ring", "Megatron --p2p-issue Ring"),
    ] {
        assert_eq!(
            resolve(&format!("{base} {ours}")).unwrap(),
            resolve(&format!("{base} {theirs}")).unwrap(),
            "{theirs}"
        );
    }
}

#[test]
fn agreeing_flags_and_a_world_of_one_are_fine() {
    for line in [
        "--mock-data",
        "--mock-data --vp 2",
        "--mock-data --microbatches 4 --global-batch-size 16",
        "--mock-data --rank 0 --world-size 1 --rendezvous-file f",
        "--mock-data --dry-run --pp 8 --num-layers 8 --schedule GPipe --gpipe-backward Ascending",
        "--mock-data --pp 2 --rank 1 --world-size 2 --rendezvous-file f",
        "--mock-data --dry-run --pp 2 --vp 2 --num-layers 10 --layer-split 3,2,2,3",
        "--mock-data --dry-run --pp 4 --num-layers 10 --layer-split auto",
        "--mock-data --dry-run --pp 4 --num-layers 10 --account-for-embedding-in-pipeline-split \
         --account-for-loss-in-pipeline-split",
        "--mock-data --dry-run --pp 4 --num-layers 10 --decoder-first-pipeline-num-layers 2 \
         --decoder-last-pipeline-num-layers 2",
        "--mock-data --dry-run --pp 4 --vp 2 --microbatches 3 --allow-bubbles",
        "--mock-data --dry-run --pp 4 --schedule gpipe --microbatches 3 --allow-bubbles",
        "--mock-data --dry-run --pp 2 --rank 1 --world-size 2 --rendezvous-file f",
        "--mock-data --train-iters 4294967295",
    ] {
        resolve(line).unwrap_or_else(|message| panic!("`{line}`: {message}"));
    }
}
