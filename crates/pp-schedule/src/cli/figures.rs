//! Figures of a simulated step, as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::output::Subject;
use super::table::table;
use crate::format::picture::numbers;
use crate::ids::{Rank, Stage};
use crate::placement::Placement;
use crate::quantity::Bytes;
use crate::simulate::{Costs, RankReport, Report, Scale};

/// The longest critical path that is written out, in computations.
const PATH_SHOWN: usize = 10;

/// A time in units.
pub(super) fn time(ticks: u64, scale: &Scale) -> String {
    numbers::short(scale.of(ticks))
}

/// All figures, as text.
pub(super) fn simulated(subject: &Subject<'_>) -> String {
    let Subject { report, priced, clock, .. } = subject;
    let scale = &priced.scale;
    let unit = &scale.unit;
    let longest = report.ranks.iter().max_by_key(|rank| (rank.end - rank.start, std::cmp::Reverse(rank.rank)));
    let longest = longest.map_or(Rank(0), |rank| rank.rank);
    let mut text = format!("{}\n", subject.title());
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14} {value}");
    };
    line("clock", clock.clone());
    line("costs", costs_text(subject));
    line("makespan", format!("{} {unit}", time(report.makespan, scale)));
    line("longest stage", format!("{} {unit}, rank {longest}", time(report.longest_stage, scale)));
    for (index, bubble) in bubbles(subject).into_iter().enumerate() {
        line(if index == 0 { "bubble" } else { "" }, bubble);
    }
    let [sums, path] = path_text(subject);
    line("critical path", sums);
    line("", path);
    for assumed in &priced.assumed {
        line("assumed", assumed.clone());
    }
    text.push('\n');
    text.push_str(&by_rank(report, scale, !priced.bytes.is_empty()));
    text
}

/// The bubble by both measures, and the first in closed form where there is one, a line each.
pub(super) fn bubbles(subject: &Subject<'_>) -> Vec<String> {
    let report = subject.report;
    let closed = subject.closed_form();
    let mut lines = vec![
        format!("{} of the makespan", numbers::percent(report.bubble)),
        format!("{} of the longest stage time", numbers::percent(report.longest_stage_bubble)),
    ];
    lines
        .extend(closed.map(|closed| format!("{} in closed form: {}", numbers::percent(closed.bubble), closed.formula)));
    lines
}

/// What the critical path is made of, and its computations.
fn path_text(subject: &Subject<'_>) -> [String; 2] {
    let path = &subject.report.critical_path;
    let rows = subject.timeline.rows();
    let tokens = path.steps.iter().map(|(rank, index)| rows[rank.idx()][*index as usize].work.to_string());
    let tokens: Vec<String> = tokens.collect();
    let shown = match tokens.len() {
        0..=PATH_SHOWN => tokens.join(" "),
        len => format!("{} .. {}", tokens[..PATH_SHOWN / 2].join(" "), tokens[len - PATH_SHOWN / 2..].join(" ")),
    };
    let scale = &subject.priced.scale;
    let (compute, communication) = (time(path.compute, scale), time(path.communication, scale));
    let sums = format!("{compute} of computing, {communication} of messages, in {} computations:", tokens.len());
    [sums, shown]
}

fn costs_text(subject: &Subject<'_>) -> String {
    let (costs, scale) = (&subject.priced.costs, &subject.priced.scale);
    let placement = subject.source.order().extent().placement;
    let mut distinct: Vec<String> = Vec::new();
    for stage in (0..placement.n_stages()).map(Stage) {
        let of = costs.stage(stage);
        let [f, b, i, w] =
            [of.forward, of.backward, of.backward_input, of.backward_weight].map(|ticks| time(ticks, scale));
        let text = format!("F {f}, B {b}, I {i}, W {w}");
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    let computing = match &distinct[..] {
        [one] => one.clone(),
        many => format!("by stage, such as {}", many[0]),
    };
    format!("{computing} {}; {}", scale.unit, messages_text(costs, placement, scale))
}

fn messages_text(costs: &Costs, placement: Placement, scale: &Scale) -> String {
    let links = (1..placement.n_stages()).map(|stage| costs.link_to(Stage(stage)));
    match links.max_by_key(|link| link.delay()) {
        None => "no messages".to_owned(),
        Some(link) if link.delay() == 0 => "messages free".to_owned(),
        Some(link) => {
            format!(
                "a message {} on its way, its channel taken {}",
                time(link.delay(), scale),
                time(link.transfer, scale)
            )
        }
    }
}

fn by_rank(report: &Report, scale: &Scale, with_bytes: bool) -> String {
    let mut head = vec!["rank", "busy", "wait", "idle", "busy %", "in flight", "deferred", "saved"];
    head.extend(with_bytes.then_some("peak memory"));
    let rows = report.ranks.iter().map(|rank| {
        let mut row = vec![rank.rank.to_string()];
        row.extend([rank.busy, rank.wait, rank.idle].map(|ticks| time(ticks, scale)));
        row.push(format!("{:.1}", share(rank, report)));
        row.extend([rank.peak_in_flight, rank.peak_deferred, rank.peak_saved].map(|count| count.to_string()));
        row.extend(with_bytes.then(|| Bytes(rank.peak_bytes).to_string()));
        row
    });
    table(0, &head, &rows.collect::<Vec<_>>())
}

fn share(rank: &RankReport, report: &Report) -> f64 {
    if report.makespan == 0 { 0.0 } else { 100.0 * rank.busy as f64 / report.makespan as f64 }
}

/// All figures as JSON; times in units.
pub(super) fn as_json(subject: &Subject<'_>) -> String {
    format!("{:#}\n", report_json(subject))
}

fn report_json(subject: &Subject<'_>) -> Value {
    let Subject { report, priced, timeline, clock, .. } = subject;
    let scale = &priced.scale;
    let extent = timeline.extent();
    let path = &report.critical_path;
    let steps = path.steps.iter().map(|(rank, index)| {
        let span = timeline.rows()[rank.idx()][*index as usize];
        json!({ "rank": rank.0, "work": span.work.to_string(), "start": scale.of(span.start), "end": scale.of(span.end) })
    });
    let ranks = report.ranks.iter().map(|rank| {
        json!({
            "rank": rank.rank.0,
            "start": scale.of(rank.start),
            "end": scale.of(rank.end),
            "busy": scale.of(rank.busy),
            "wait": scale.of(rank.wait),
            "wait_send": scale.of(rank.wait_send),
            "idle": scale.of(rank.idle),
            "peak_in_flight": rank.peak_in_flight,
            "peak_deferred": rank.peak_deferred,
            "peak_saved": rank.peak_saved,
            "peak_bytes": (!priced.bytes.is_empty()).then_some(rank.peak_bytes),
        })
    });
    json!({
        "format": "pp-schedule report",
        "version": 1,
        "title": subject.title(),
        "clock": clock,
        "unit": scale.unit,
        "pp": extent.placement.n_ranks(),
        "vp": extent.placement.n_chunks(),
        "placement": extent.placement.shape().name(),
        "microbatches": extent.microbatches,
        "forward_only": extent.forward_only,
        "makespan": scale.of(report.makespan),
        "longest_stage": scale.of(report.longest_stage),
        "bubble": report.bubble,
        "longest_stage_bubble": report.longest_stage_bubble,
        "closed_form_bubble": subject.closed_form().map(|closed| closed.bubble),
        "assumed": priced.assumed,
        "ranks": ranks.collect::<Vec<_>>(),
        "critical_path": {
            "compute": scale.of(path.compute),
            "communication": scale.of(path.communication),
            "steps": steps.collect::<Vec<_>>(),
        },
    })
}

/// Every span as CSV: `rank,work,start,end`, times in units.
pub(super) fn as_csv(subject: &Subject<'_>) -> String {
    let scale = &subject.priced.scale;
    let mut text = String::from("rank,work,start,end\n");
    for (rank, row) in subject.timeline.rows().iter().enumerate() {
        for span in row {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{rank},{},{},{}", span.work, scale.of(span.start), scale.of(span.end));
        }
    }
    text
}
