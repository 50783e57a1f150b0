//! Colours and patterns: the style sheet and the definitions of an image.

use std::fmt::Write as _;

use super::pen::Px;
use super::shape::Shape;
use crate::format::palette;
use crate::format::picture::Picture;
use crate::work::WorkKind;

/// What looks different on light and on dark: background, text, muted text, grid lines, waiting.
const LIGHT: [&str; 5] = ["#ffffff", "#1b2129", "#59636e", "#e3e7ec", "#8b949e"];
const DARK: [&str; 5] = ["#0f141b", "#e8edf3", "#9aa5b1", "#2a323c", "#7d8895"];

/// The class of a kind's boxes in a shade, such as `f0`.
pub(super) fn class(kind: WorkKind, shade: u32) -> String {
    format!("{}{shade}", kind.letter().to_ascii_lowercase())
}

/// Writes `<style>` and `<defs>`.
pub(super) fn write(out: &mut String, picture: &Picture<'_>, shape: &Shape) {
    let n_shades = palette::n_shades(picture.timeline.extent().placement.n_chunks());
    let kinds: Vec<WorkKind> = WorkKind::ALL.into_iter().filter(|&kind| picture.has(kind)).collect();
    out.push_str("<style>\n");
    fixed(out, shape);
    out.push_str(&scheme(LIGHT));
    for &kind in &kinds {
        let edge = palette::hex(palette::edge(kind));
        for shade in 0..n_shades {
            let class = class(kind, shade);
            let fill = match palette::edges(kind) {
                (false, false) => palette::hex(palette::fill(kind, shade, n_shades)),
                _ => format!("url(#pp-{class})"),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(out, ".pp .{class}{{fill:{fill};stroke:{edge}}}");
        }
    }
    let _ = write!(out, "@media (prefers-color-scheme:dark){{\n{}}}\n</style>\n<defs>\n", scheme(DARK));
    for kind in kinds.into_iter().filter(|&kind| palette::edges(kind) != (false, false)) {
        for shade in 0..n_shades {
            gradient(out, kind, shade, palette::hex(palette::fill(kind, shade, n_shades)));
        }
    }
    out.push_str(
        "<pattern id=\"pp-wait\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><path class=\"hatch\" d=\"M0 0v5\"/></pattern>\n</defs>\n",
    );
}

/// What is the same on light and on dark.
fn fixed(out: &mut String, shape: &Shape) {
    let (row, small) = (Px(shape.row_font), Px(shape.box_font));
    let ink = palette::hex(palette::INK);
    let memory = [WorkKind::Forward, WorkKind::BackwardWeight].map(|kind| palette::hex(palette::base(kind)));
    let lines = [WorkKind::Forward, WorkKind::BackwardWeight].map(|kind| palette::hex(palette::edge(kind)));
    let _ = write!(
        out,
        ".pp{{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',Arial,sans-serif;font-variant-numeric:tabular-nums}}\n\
         .pp text{{stroke:none}}\n\
         .pp .h1{{font-size:17px;font-weight:600}}\n\
         .pp .value{{font-size:15px;font-weight:600}}\n\
         .pp .name,.pp .note,.pp .key,.pp .axis{{font-size:11px}}\n\
         .pp .h2{{font-size:12px;font-weight:600}}\n\
         .pp .rank,.pp .side{{font-size:{row}px}}\n\
         .pp .rank,.pp .end{{text-anchor:end}}\n\
         .pp .mid{{text-anchor:middle}}\n\
         .pp .box{{stroke-width:.5}}\n\
         .pp .in{{font-size:{small}px;text-anchor:middle;fill:{ink};pointer-events:none}}\n\
         .pp .wait{{fill:url(#pp-wait);stroke:none}}\n\
         .pp .line{{fill:none;stroke-width:1}}\n\
         .pp .hatch{{fill:none;stroke-width:1.4}}\n\
         .pp .idle{{fill:none;stroke-width:1;stroke-dasharray:1 4}}\n\
         .pp .pair{{fill:none;pointer-events:none}}\n\
         .pp .held{{fill:{};stroke:{};stroke-width:.6}}\n\
         .pp .late{{fill:{};stroke:{};stroke-width:.6}}\n",
        memory[0], lines[0], memory[1], lines[1],
    );
}

fn scheme([background, text, muted, grid, wait]: [&str; 5]) -> String {
    format!(
        ".pp .bg{{fill:{background}}}\n\
         .pp .h1,.pp .h2,.pp .value,.pp .rank,.pp .key{{fill:{text}}}\n\
         .pp .name,.pp .note,.pp .axis,.pp .side{{fill:{muted}}}\n\
         .pp .line{{stroke:{grid}}}\n\
         .pp .idle,.pp .hatch{{stroke:{wait}}}\n\
         .pp .pair{{stroke:{text}}}\n\
         .pp .peak{{fill:{text}}}\n"
    )
}

/// A fill with dark edges: a gradient whose stops lie on each other.
fn gradient(out: &mut String, kind: WorkKind, shade: u32, fill: String) {
    let edge = palette::hex(palette::edge(kind));
    let class = class(kind, shade);
    let _ = write!(out, "<linearGradient id=\"pp-{class}\" x2=\"0\" y2=\"1\">");
    let mut stop = |offset: &str, colour: &str| {
        let _ = write!(out, "<stop offset=\"{offset}\" stop-color=\"{colour}\"/>");
    };
    let (top, bottom) = palette::edges(kind);
    if top {
        stop("0", &edge);
        stop(".13", &edge);
    }
    stop(if top { ".13" } else { "0" }, &fill);
    stop(if bottom { ".87" } else { "1" }, &fill);
    if bottom {
        stop(".87", &edge);
        stop("1", &edge);
    }
    out.push_str("</linearGradient>\n");
}
