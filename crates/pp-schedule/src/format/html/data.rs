//! What the page's script draws, as JSON: numbers and colours only, so that nothing has to be escaped.

use std::fmt::{Display, Write as _};

use crate::format::palette;
use crate::format::picture::Picture;
use crate::format::xml::escape;
use crate::ids::Stage;
use crate::simulate::After;
use crate::work::WorkKind;

/// Stands for "the computation before it on its rank", and for "nothing".
const PREVIOUS: i64 = -1;
const NOTHING: i64 = -2;

/// Writes the element with the data. Its rows are flat: seven numbers per computation, four per level.
pub(super) fn write(page: &mut String, picture: &Picture<'_>) {
    let timeline = picture.timeline;
    let placement = timeline.extent().placement;
    let n_shades = palette::n_shades(placement.n_chunks());
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<script type=\"application/json\" id=\"pp-data\" data-unit=\"{}\">\n{{\"perUnit\":{},\"makespan\":{},\"microbatches\":{},\"bytes\":{}",
        escape(&picture.scale.unit),
        per_unit(picture),
        timeline.makespan(),
        timeline.extent().microbatches,
        picture.bytes_known,
    );
    let fills = WorkKind::ALL
        .map(|kind| strings((0..n_shades).map(|shade| palette::hex(palette::fill(kind, shade, n_shades)))));
    field(page, "fills", fills);
    let _ = write!(page, ",\n\"kinds\":{}", strings(WorkKind::ALL.map(|kind| kind.name().to_owned())));
    let _ = write!(page, ",\"edges\":{}", strings(WorkKind::ALL.map(|kind| palette::hex(palette::edge(kind)))));
    field(page, "sides", WorkKind::ALL.map(palette::edges).map(|(top, bottom)| u8::from(top) + 2 * u8::from(bottom)));
    let _ = write!(page, ",\"ink\":\"{}\"", palette::hex(palette::INK));
    let chunk = |stage| placement.chunk_of(Stage(stage)).0;
    field(page, "shades", (0..placement.n_stages()).map(|stage| palette::shade_of(chunk(stage), placement.n_chunks())));
    field(
        page,
        "rows",
        timeline.rows().iter().map(|row| {
            list(row.iter().flat_map(|span| {
                let (rank, index) = match span.after {
                    After::Previous => (PREVIOUS, 0),
                    After::Nothing => (NOTHING, 0),
                    After::Other { rank, index } => (i64::from(rank.0), i64::from(index)),
                };
                let (stage, kind, microbatch) = (span.work.stage.0, span.work.kind as u8, span.work.microbatch.0);
                let (start, end) = (span.start as i64, span.end as i64);
                [i64::from(stage), i64::from(kind), i64::from(microbatch), start, end, rank, index]
            }))
        }),
    );
    field(
        page,
        "levels",
        picture.levels.iter().map(|levels| {
            list(
                levels
                    .iter()
                    .flat_map(|level| [level.time, u64::from(level.in_flight), u64::from(level.deferred), level.bytes]),
            )
        }),
    );
    field(page, "pairs", picture.pairs.iter().map(list));
    field(page, "critical", picture.report.critical_path.steps.iter().map(|(rank, index)| format!("{rank},{index}")));
    page.push_str("}\n</script>\n");
}

/// A scale without sense is one that JSON cannot write.
fn per_unit(picture: &Picture<'_>) -> f64 {
    let per_unit = picture.scale.ticks_per_unit;
    if per_unit.is_finite() && per_unit > 0.0 { per_unit } else { 1.0 }
}

fn field(page: &mut String, name: &str, items: impl IntoIterator<Item = impl Display>) {
    let _ = write!(page, ",\n\"{name}\":{}", list(items));
}

fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let mut list = String::from("[");
    for (number, item) in items.into_iter().enumerate() {
        let _ = write!(list, "{}{item}", if number > 0 { "," } else { "" });
    }
    list + "]"
}

fn strings(items: impl IntoIterator<Item = String>) -> String {
    list(items.into_iter().map(|item| format!("\"{item}\"")))
}
