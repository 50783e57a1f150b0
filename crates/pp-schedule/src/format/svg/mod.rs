//! The timeline as an SVG image: a row per rank, its memory below, legend and figures above.
//!
//! The image needs nothing outside of itself. It is light or dark as its surroundings prefer (`prefers-color-scheme`), and
//! brings its own background, so that it stays readable where nobody tells it. What kind a box is shows in its colour and in its
//! edges, which chunk of the rank in its shade. Browsers show the details of a box that the pointer rests on.
//!
//! ```
//! use pp_schedule::format::{picture::Picture, svg};
//! use pp_schedule::simulate::{Costs, Report, Scale, StageBytes, Timeline};
//! use pp_schedule::{Order, ScheduleConfig, ScheduleSpec};
//! let order = Order::generate(&ScheduleConfig::new(&ScheduleSpec::new(2, 1, 4)).unwrap());
//! let timeline = Timeline::of_order(&order, &Costs::UNIT).unwrap();
//! let report = Report::new(&timeline, |_| StageBytes::default());
//! let image = svg::draw(&Picture::new("1f1b over 2 ranks", &timeline, &report, &Scale::of_chunks(1)));
//! assert!(image.starts_with("<svg ") && image.contains("1f1b over 2 ranks"));
//! ```

mod boxes;
mod head;
mod legend;
mod memory;
mod pen;
mod rows;
mod shape;
mod style;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use super::picture::Picture;
use super::xml::escape;
use shape::Shape;

/// How an image is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Pixels across; without, as many as the numbers of most boxes need. At least 480.
    pub width: Option<u32>,
}

/// Draws an image as wide as it needs to be.
pub fn draw(picture: &Picture<'_>) -> String {
    draw_with(picture, Options::default())
}

/// Draws an image.
pub fn draw_with(picture: &Picture<'_>, options: Options) -> String {
    let shape = Shape::new(picture, options.width);
    let mut body = String::new();
    let y = head::draw(&mut body, picture, &shape);
    let y = rows::draw(&mut body, picture, &shape, y);
    let y = memory::draw(&mut body, picture, &shape, y);
    image(picture, &shape, true, y, &body)
}

/// The timeline and the memory alone, for a page that has a [`legend`] and says the rest.
pub(super) fn plot(picture: &Picture<'_>) -> String {
    let shape = Shape::new(picture, None);
    let mut body = String::new();
    let y = rows::draw(&mut body, picture, &shape, 0.0);
    let y = memory::draw(&mut body, picture, &shape, y);
    image(picture, &shape, false, y, &body)
}

/// The legend alone, with the style and the patterns of everything.
pub(super) fn legend(picture: &Picture<'_>) -> String {
    let width = 1100.0;
    let mut body = String::new();
    let height = legend::draw(&mut body, picture, width, 2.0) - 14.0;
    let mut style = String::new();
    style::write(&mut style, picture, &Shape::new(picture, None));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"{x} 0 {width} {height}\" class=\"pp\" role=\"img\" aria-label=\"legend\">\n{style}{body}</svg>\n",
        x = shape::MARGIN - 1.0,
    )
}

fn image(picture: &Picture<'_>, shape: &Shape, has_style: bool, height: f64, body: &str) -> String {
    let (width, height) = (shape.width, height.ceil());
    let mut image = String::with_capacity(body.len() + 8192);
    // Writing to a string cannot fail.
    let _ = write!(
        image,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-labelledby=\"pp-title pp-desc\" class=\"pp\">\n\
         <title id=\"pp-title\">{}</title>\n<desc id=\"pp-desc\">{}</desc>\n",
        escape(&picture.title),
        escape(&description(picture)),
    );
    if has_style {
        style::write(&mut image, picture, shape);
    }
    let _ = writeln!(image, "<rect class=\"bg\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>");
    image.push_str(body);
    image.push_str("</svg>\n");
    image
}

/// What the image says, for those who do not see it.
fn description(picture: &Picture<'_>) -> String {
    let n_spans: usize = picture.timeline.rows().iter().map(Vec::len).sum();
    let n_ranks = picture.timeline.rows().len();
    let mut text = format!("Timeline of {n_spans} computations on {n_ranks} ranks, a row per rank.");
    for figure in picture.figures() {
        let _ = write!(text, " {}: {}.", figure.name, figure.value);
    }
    for line in picture.closed_form.iter().chain(&picture.notes) {
        let _ = write!(text, " {line}.");
    }
    text
}
