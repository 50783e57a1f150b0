//! The timeline as one HTML page that needs nothing outside of itself, no network and no server.
//!
//! With scripts the timeline is a canvas: it zooms and pans, shows the details of what the pointer rests on, and marks the
//! critical path. Without, it is the image that [`super::svg`] draws. Figures and the table of ranks are there either way,
//! on light and on dark.
//!
//! ```
//! use pp_schedule::format::{html, picture::Picture};
//! use pp_schedule::simulate::{Costs, Report, Scale, StageBytes, Timeline};
//! use pp_schedule::{Order, ScheduleConfig, ScheduleSpec};
//! let order = Order::generate(&ScheduleConfig::new(&ScheduleSpec::new(2, 1, 4)).unwrap());
//! let timeline = Timeline::of_order(&order, &Costs::UNIT).unwrap();
//! let report = Report::new(&timeline, |_| StageBytes::default());
//! let page = html::page(&Picture::new("1f1b over 2 ranks", &timeline, &report, &Scale::of_chunks(1)));
//! assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h1>1f1b over 2 ranks</h1>"));
//! ```

mod data;
mod table;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use super::picture::Picture;
use super::svg;
use super::xml::escape;

const STYLE: &str = include_str!("page.css");
/// One script in three files; none of it is visible outside of it.
const SCRIPT: &str = concat!(
    "(() => {\n'use strict';\n",
    include_str!("data.js"),
    include_str!("draw.js"),
    include_str!("ask.js"),
    "})();\n"
);

/// Everything that the page may load: nothing; its own style and script are in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// Draws the page.
pub fn page(picture: &Picture<'_>) -> String {
    let title = escape(&picture.title);
    let plot = svg::plot(picture);
    let mut page = String::with_capacity(plot.len() * 2 + 32_768);
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n",
    );
    figures(&mut page, picture);
    let _ = write!(
        page,
        "</header>\n<main>\n<div class=\"legend\">{}</div>\n{CONTROLS}<div id=\"pp-static\" class=\"scroll\">\n{plot}</div>\n<h2>Ranks</h2>\n",
        svg::legend(picture),
    );
    table::write(&mut page, picture);
    page.push_str("</main>\n");
    data::write(&mut page, picture);
    let _ = write!(page, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

/// What only works with scripts, and is only shown with them.
const CONTROLS: &str = "<div id=\"pp-live\" hidden>\n<p class=\"controls\">\
    <button id=\"pp-in\" type=\"button\">zoom in</button> \
    <button id=\"pp-out\" type=\"button\">zoom out</button> \
    <button id=\"pp-fit\" type=\"button\">whole step</button> \
    <label><input id=\"pp-critical\" type=\"checkbox\"> critical path</label> \
    <span class=\"hint\">drag or arrow keys move, Ctrl + wheel or + and - zoom</span></p>\n\
    <canvas id=\"pp-canvas\" tabindex=\"0\" role=\"img\" aria-label=\"timeline of all ranks; the table below has its figures\">\
    </canvas>\n<div id=\"pp-tip\" role=\"status\" hidden></div>\n</div>\n";

fn figures(page: &mut String, picture: &Picture<'_>) {
    page.push_str("<dl class=\"figures\">\n");
    for figure in picture.figures() {
        let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", figure.name, escape(&figure.value));
    }
    page.push_str("</dl>\n");
    for line in &picture.closed_form {
        let _ = writeln!(page, "<p class=\"note\">closed form: {}</p>", escape(line));
    }
    for line in &picture.notes {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(line));
    }
    let path = &picture.report.critical_path;
    let _ = writeln!(
        page,
        "<p class=\"note\">critical path: {} computations that take {}, and {} between them</p>",
        path.steps.len(),
        escape(&picture.time(path.compute)),
        escape(&picture.time(path.communication)),
    );
}
