//! `cargo xtask golden`: asks the product the questions that golden files hold the peers' answers to.
//!
//! A golden file is JSON lines, one question with its recorded answer per line. [`answer_line`] reads the question's
//! fields and computes the answer anew; recorded answers in the line are not looked at.

mod check;
mod dualpipe;
mod fields;
mod layers;
mod rejects;
mod tables;
mod torch_orders;
mod torch_runtime;
mod traces;
mod zb;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use pp_schedule::lower::megatron::SendRelease;
use serde_json::{Map, Value};

pub use check::{Report, check_file, check_lines, read_lines};

/// Ask the product what golden files hold the peers' answers to
#[derive(Debug, Args)]
pub struct GoldenArgs {
    #[command(subcommand)]
    command: Command,
}

/// `golden`'s commands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Read questions as JSON lines from standard input, write each with the product's own answer
    Answer {
        /// Which kind of questions, by the stem of the golden file's name: megatron_tables, megatron_rejects,
        /// megatron_layers, megatron_traces, megatron_traces_variants, megatron_head_traces_variants, torch_orders,
        /// torch_runtime, dualpipe or zb
        #[arg(long, value_name = "FILESTEM")]
        source: Stem,
    },
    /// Compare golden files with the product's own answers, and print where a line differs
    Check {
        /// FILE.jsonl or FILE.jsonl.gz; its stem says which kind of questions it holds
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// A kind of golden file, by the stem of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stem {
    /// Schedule tables, counts and orders of Megatron.
    MegatronTables,
    /// What Megatron's interleaved schedule refuses.
    MegatronRejects,
    /// Which layers Megatron gives to each rank and chunk.
    MegatronLayers,
    /// Megatron's events, rank by rank, as megatron-core 0.16.1 (which frees buffers that are still being sent).
    MegatronTraces,
    /// The same for sync functions, partial checkpoints and other variants.
    MegatronTracesVariants,
    /// The variants as newer sources run them.
    MegatronHeadTracesVariants,
    /// The orders of torch's schedules.
    TorchOrders,
    /// What torch's schedules with one stage per rank compute, in turn.
    TorchRuntime,
    /// What DeepSeek's DualPipeV computes, rank by rank.
    DualPipe,
    /// Zero-bubble orders under a memory limit: how long they are.
    Zb,
}

impl Stem {
    const ALL: [(&'static str, Self); 10] = [
        ("dualpipe", Self::DualPipe),
        ("megatron_head_traces_variants", Self::MegatronHeadTracesVariants),
        ("megatron_layers", Self::MegatronLayers),
        ("megatron_rejects", Self::MegatronRejects),
        ("megatron_tables", Self::MegatronTables),
        ("megatron_traces", Self::MegatronTraces),
        ("megatron_traces_variants", Self::MegatronTracesVariants),
        ("torch_orders", Self::TorchOrders),
        ("torch_runtime", Self::TorchRuntime),
        ("zb", Self::Zb),
    ];
}

impl std::str::FromStr for Stem {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(stem, _)| *stem == name);
        let known = Self::ALL.map(|(stem, _)| stem).join(", ");
        Ok(found.ok_or_else(|| anyhow!("unknown golden source `{name}`; known: {known}"))?.1)
    }
}

/// Runs a command and gives the exit code: 1 when a golden file differs, 2 when the input is no question.
///
/// # Errors
/// When a golden file is none.
pub fn run(args: &GoldenArgs) -> Result<u8> {
    match &args.command {
        Command::Answer { source } => {
            let output = std::io::BufWriter::new(std::io::stdout().lock());
            match answer(*source, std::io::stdin().lock(), output) {
                Ok(all_answered) => Ok(if all_answered { 0 } else { 2 }),
                // Whoever read the answers has seen enough.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
                Err(error) => Err(error).context("cannot write the answers"),
            }
        }
        Command::Check { files } => {
            let mut same = true;
            for file in files {
                let report = check_file(file)?;
                println!("{}: {report}", file.display());
                same &= report.first_difference.is_none();
            }
            Ok(u8::from(!same))
        }
    }
}

/// One line in, one line out; `false` when some line was no question, which its own line then says.
fn answer(stem: Stem, input: impl BufRead, mut output: impl Write) -> io::Result<bool> {
    let mut all_answered = true;
    for (number, line) in input.split(b'\n').enumerate() {
        let line = line?;
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        let answered = answer_line(stem, &text).unwrap_or_else(|error| {
            all_answered = false;
            let question = serde_json::from_str(&text).unwrap_or_else(|_| Map::new());
            unanswered(question, &format!("line {}: {error:#}", number + 1))
        });
        serde_json::to_writer(&mut output, &answered)?;
        output.write_all(b"\n")?;
    }
    output.flush()?;
    Ok(all_answered)
}

/// What can be said of a line that has no answer: itself, and why.
fn unanswered(mut question: Map<String, Value>, why: &str) -> Map<String, Value> {
    question.insert("error".to_owned(), Value::from(why));
    question
}

/// The question of a line with the product's answer.
///
/// # Errors
/// When the line is no question of this kind, saying which field is wrong.
pub fn answer_line(stem: Stem, line: &str) -> Result<Map<String, Value>> {
    let question = match serde_json::from_str(line).context("not JSON")? {
        Value::Object(question) => question,
        other => bail!("a question is a JSON object, but this is {other}"),
    };
    match stem {
        Stem::MegatronTables => tables::answer(&question),
        Stem::MegatronRejects => rejects::answer(&question),
        Stem::MegatronLayers => layers::answer(&question),
        Stem::MegatronTraces | Stem::MegatronTracesVariants => traces::answer(&question, SendRelease::Unwaited),
        Stem::MegatronHeadTracesVariants => traces::answer(&question, SendRelease::Waited),
        Stem::TorchOrders => torch_orders::answer(&question),
        Stem::TorchRuntime => torch_runtime::answer(&question),
        Stem::DualPipe => dualpipe::answer(&question),
        Stem::Zb => zb::answer(&question),
    }
}

/// The fields of an answer that are compared with the recorded ones; `None` for a line that asks nothing.
fn judged(stem: Stem, question: &Map<String, Value>) -> Result<Option<&'static [&'static str]>> {
    match stem {
        Stem::MegatronTables => tables::judged(question),
        Stem::MegatronRejects => rejects::judged(question),
        Stem::MegatronLayers => layers::judged(question),
        Stem::MegatronTraces | Stem::MegatronTracesVariants | Stem::MegatronHeadTracesVariants => {
            traces::judged(question)
        }
        Stem::TorchOrders => torch_orders::judged(question),
        Stem::TorchRuntime => torch_runtime::judged(question),
        Stem::DualPipe => dualpipe::judged(question),
        Stem::Zb => zb::judged(question),
    }
}

/// A recorded answer with no more in its judged fields than is judged.
fn reduced(stem: Stem, recorded: Map<String, Value>) -> Map<String, Value> {
    match stem {
        Stem::TorchOrders => torch_orders::reduced(recorded),
        Stem::TorchRuntime => torch_runtime::reduced(recorded),
        Stem::DualPipe => dualpipe::reduced(recorded),
        _ => recorded,
    }
}

/// In what an answer is worse than the recorded one, where they need not be equal.
fn beaten(stem: Stem, recorded: &Map<String, Value>, ours: &Map<String, Value>) -> Result<Option<String>> {
    match stem {
        Stem::Zb => zb::beaten(recorded, ours),
        _ => Ok(None),
    }
}
