//! A plan as text for people: what was planned for, who wins, and why the others do not.

use std::collections::HashSet;

use super::super::CommandError;
use super::super::table::table;
use super::args::Asked;
use super::name::name;
use super::winner;
use crate::format::text::Style;
use crate::layout::LayoutError;
use crate::plan::{Candidate, Choice, Family, GptShape, Misfit, Model, Part, Plan, Recompute, Refused, Request, Rule};
use crate::quantity::{Bytes, Time};
use crate::simulate::Link;

/// The whole of it, the winner's drawing in a style.
pub(super) fn plan(asked: &Asked, found: &Plan, top: usize, style: Style<'_>) -> Result<String, CommandError> {
    let mut text = head(asked, found);
    if let Some(winner) = found.fits.first() {
        text += "\nranked by predicted time of a step\n";
        text += &ranking(found, winner, top);
    }
    text += &misfits(&asked.request, found, top);
    text += &others(found, top);
    text += &rules(&found.refused);
    if let Some(winner) = found.fits.first() {
        text += &winner::describe(asked, winner, style)?;
    }
    Ok(text)
}

fn head(asked: &Asked, found: &Plan) -> String {
    let request = &asked.request;
    let ranks: Vec<String> = request.ways.iter().map(|way| way.pp.to_string()).collect();
    let memory = request.machine.memory.map_or_else(|| "no limit".to_owned(), |bytes| Bytes(bytes).to_string());
    let n_layers = request.model.layers.len();
    let mut text = format!("{n_layers} layers over {} pipeline ranks, memory per rank: {memory}\n", ranks.join(", "));
    if let Some(shape) = &asked.shape {
        text += &estimated(shape, asked.teraflops);
    }
    for assumed in &asked.assumed {
        text += &format!("{assumed}\n");
    }
    text += &costs(&request.model);
    let link = request.machine.link(request.model.message);
    if link != Link::default() {
        let bytes = Bytes(request.model.message);
        text += &format!("a message of {bytes} takes {} to the next rank\n", Time(link.delay()));
    }
    let simulated = found.n_candidates - found.n_misfits - found.n_bounded;
    text += &format!(
        "{} candidates: {simulated} simulated, {} do not fit, {} cannot be faster whatever their order\n",
        found.n_candidates, found.n_misfits, found.n_bounded
    );
    if let Some((valid, tried)) = found.sampled {
        text += &format!("of up to {valid} group sizes {tried} were tried; --group-sizes all tries the others\n");
    }
    text
}

fn estimated(shape: &GptShape, teraflops: Option<f64>) -> String {
    let parameters = shape.parameters() as f64;
    let (value, unit) = if parameters >= 1e9 { (parameters / 1e9, "billion") } else { (parameters / 1e6, "million") };
    let speed = teraflops.map_or_else(String::new, |speed| format!(" at {speed} TFLOP/s per device"));
    format!("estimated for a GPT of {value:.2} {unit} parameters{speed}\n")
}

fn costs(model: &Model) -> String {
    let layers: Vec<Part> = model.layers.iter().map(|layer| layer.part).collect();
    let alike = layers.iter().all(|part| *part == layers[0]);
    let mean = |of: fn(&Part) -> u64| layers.iter().map(of).sum::<u64>() / layers.len() as u64;
    let layer = Part {
        forward: mean(|part| part.forward),
        backward_input: mean(|part| part.backward_input),
        backward_weight: mean(|part| part.backward_weight),
        ..layers[0]
    };
    let named =
        [(if alike { "layer" } else { "mean layer" }, layer), ("embedding", model.embedding), ("head", model.head)];
    let row = |(name, part): (&str, Part)| {
        let times = [part.forward, part.backward_input, part.backward_weight].map(|ticks| Time(ticks).to_string());
        let bytes = [part.activation, part.deferred, part.weights.on_replica(1)].map(|bytes| Bytes(bytes).to_string());
        [vec![name.to_owned()], times.to_vec(), bytes.to_vec()].concat()
    };
    let rows: Vec<_> = named.into_iter().filter(|(_, part)| *part != Part::default()).map(row).collect();
    table(2, &["per microbatch", "F", "I", "W", "keeps", "keeps from I to W", "weights"], &rows)
}

/// The best of each family, as many families as asked for.
fn ranking(found: &Plan, winner: &Choice, top: usize) -> String {
    let mut seen: HashSet<Family> = HashSet::new();
    let best = found.fits.iter().filter(|choice| seen.insert(choice.candidate.family())).take(top.max(1));
    let row = |(at, choice): (usize, &Choice)| {
        let mut row = vec![(at + 1).to_string()];
        row.extend(columns(&choice.candidate));
        row.push(Time(choice.step).to_string());
        row.push(format!("{:.1} %", 100.0 * choice.bubble));
        row.push(format!("{} (rank {})", Bytes(choice.memory.total()), choice.memory.rank));
        row.push(if at == 0 { "the winner".to_owned() } else { why_slower(choice, winner) });
        row
    };
    let rows: Vec<_> = best.enumerate().map(row).collect();
    let n_played = found.fits.iter().filter(|choice| choice.played).count();
    let note = match n_played {
        0 => String::new(),
        n => {
            format!("  the first {n} played out as programs, by the lanes policy; ranked by that, before the others\n")
        }
    };
    note + &table(2, &["#", "schedule", "pp", "vp", "group", "recompute", "step", "bubble", "memory", "why not"], &rows)
}

fn columns(candidate: &Candidate) -> Vec<String> {
    let spec = &candidate.spec;
    let group = match (spec.group_size, spec.allow_bubbles) {
        (Some(size), _) => size.to_string(),
        (None, true) => "uneven".to_owned(),
        (None, false) => "-".to_owned(),
    };
    let kind = candidate.config.kind().to_string();
    vec![kind, spec.pp.to_string(), spec.vp.to_string(), group, candidate.recompute.name().to_owned()]
}

/// How much slower than the winner, and where the time goes: the busiest rank's computations, what is left of the
/// pipeline's time, and adding up gradients.
fn why_slower(choice: &Choice, winner: &Choice) -> String {
    let more = |of: fn(&Choice) -> u64| of(choice) as i64 - of(winner) as i64;
    let percent = |ticks: i64| 100.0 * ticks as f64 / winner.step as f64;
    let total = percent(more(|c| c.step));
    let bytes = more(|c| c.memory.total());
    if more(|c| c.step) == 0 {
        return match bytes {
            0 => "as fast, takes as much".to_owned(),
            bytes => format!("as fast, but takes {} more", Bytes(bytes.unsigned_abs())),
        };
    }
    let computes = match choice.candidate.recompute {
        Recompute::None => "computing",
        Recompute::Selective | Recompute::Full => "computing, some of it again",
    };
    let parts = [
        (percent(more(|c| c.busiest)), computes),
        (percent(more(|c| c.makespan - c.busiest)), "waiting"),
        (percent(more(|c| c.step - c.makespan)), "adding up gradients"),
    ];
    let told = parts.into_iter().filter(|(percent, _)| percent.abs() >= 0.05);
    let told: Vec<String> = told.map(|(percent, what)| format!("{percent:+.1} % {what}")).collect();
    if told.is_empty() {
        return format!("{} slower", Time(more(|c| c.step).unsigned_abs()));
    }
    format!("{total:.1} % slower: {}", told.join(", "))
}

/// Those that take too much memory.
fn misfits(request: &Request, found: &Plan, top: usize) -> String {
    let (Some(limit), false) = (request.machine.memory, found.misfits.is_empty()) else { return String::new() };
    let winner = found.fits.first();
    let row = |(misfit, n): &(&Misfit, usize)| {
        let mut row = columns(&misfit.candidate);
        row.push(Bytes(misfit.memory.total()).to_string());
        row.push(why_not_fitting(misfit, limit, winner) + &like_it(*n));
        row
    };
    let firsts = firsts(&found.misfits, |misfit| (misfit.candidate.config.kind(), misfit.candidate.recompute));
    let rows: Vec<_> = firsts.iter().take(top.max(1)).map(row).collect();
    let head = ["schedule", "pp", "vp", "group", "recompute", "needs", "why not"];
    format!("\nmore than {} on a rank\n{}{}", Bytes(limit), table(2, &head, &rows), more(firsts.len(), top))
}

fn why_not_fitting(misfit: &Misfit, limit: u64, winner: Option<&Choice>) -> String {
    let memory = misfit.memory;
    let parts = [
        ("weights", memory.weights),
        ("activations", memory.saved),
        ("computed again", memory.working),
        ("messages", memory.messages),
    ];
    let parts = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
    let parts: Vec<String> = parts.map(|(what, bytes)| format!("{what} {}", Bytes(bytes))).collect();
    let over = Bytes(memory.total().saturating_sub(limit));
    let mut why = format!("rank {}: {over} over ({})", memory.rank, parts.join(", "));
    if let (Some(step), Some(winner)) = (misfit.step, winner) {
        let percent = 100.0 * (step as f64 / winner.step as f64 - 1.0);
        why += &format!("; would take {} ({percent:+.1} %)", Time(step));
    }
    why
}

/// Those of which it is known without a simulation that they are slower.
fn others(found: &Plan, top: usize) -> String {
    let (Some(winner), false) = (found.fits.first(), found.slower.is_empty()) else { return String::new() };
    let row = |(candidate, n): &(&Candidate, usize)| {
        let percent = 100.0 * (candidate.least_step as f64 / winner.step as f64 - 1.0);
        let mut row = columns(candidate);
        row.push(Time(candidate.least_step).to_string());
        row.push(format!("at least {percent:.1} % slower{}", like_it(*n)));
        row
    };
    let firsts = firsts(&found.slower, |candidate| candidate.config.kind());
    let rows: Vec<_> = firsts.iter().take(top.max(1)).map(row).collect();
    let head = ["schedule", "pp", "vp", "group", "recompute", "at least", "why not"];
    format!("\nslower whatever the order\n{}{}", table(2, &head, &rows), more(firsts.len(), top))
}

/// The first of each kind, and how many there are.
fn firsts<T, K: PartialEq>(items: &[T], kind: impl Fn(&T) -> K) -> Vec<(&T, usize)> {
    let mut firsts: Vec<(&T, usize)> = Vec::new();
    for item in items {
        match firsts.iter_mut().find(|(first, _)| kind(first) == kind(item)) {
            Some((_, n)) => *n += 1,
            None => firsts.push((item, 1)),
        }
    }
    firsts
}

fn like_it(n: usize) -> String {
    if n > 1 { format!(" (and {} like it)", n - 1) } else { String::new() }
}

fn more(n: usize, top: usize) -> String {
    if n > top.max(1) { format!("  and {} more (--top)\n", n - top.max(1)) } else { String::new() }
}

/// One example per schedule and rule.
fn rules(refused: &[Refused]) -> String {
    let firsts = firsts(refused, |refused| (refused.kind, rule_key(&refused.rule)));
    let lines = firsts.iter().map(|(first, n)| format!("  {}{}\n", first.rule, like_it(*n)));
    let text: String = lines.collect();
    if text.is_empty() { text } else { format!("\nagainst a rule\n{text}") }
}

/// Rules that differ in their numbers alone are told once.
fn rule_key(rule: &Rule) -> String {
    match rule {
        Rule::Config(error) => format!("{:?}", std::mem::discriminant(error)),
        Rule::Layout(LayoutError::FewerLayersThanStages { .. }) => "layers".to_owned(),
        Rule::Layout(error) => error.to_string(),
        Rule::Batch(_) => "batch".to_owned(),
    }
}

/// What would have to be given for anything to fit.
pub(super) fn least_memory(request: &Request, found: &Plan) -> String {
    let limit = Bytes(request.machine.memory.unwrap_or_default());
    match found.misfits.first() {
        None => format!("nothing fits into --memory {limit}"),
        Some(least) => format!(
            "nothing fits into --memory {limit}; the least that works is {} B ({}), with {}",
            least.memory.total(),
            Bytes(least.memory.total()),
            name(&least.candidate)
        ),
    }
}
