//! That a page is one, shows what there is, and loads nothing.

use super::*;
use crate::format::samples::{self, Sample};
use crate::format::wellformed::pieces;
use crate::order::Extent;
use crate::placement::Placement;
use crate::simulate::{Report, Scale, StageBytes, Timeline};

fn page_of(sample: &Sample) -> String {
    page(&Picture::new(sample.name, &sample.timeline, &sample.report, &sample.scale).with_pairs(&sample.order))
}

/// What stands between two texts.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let from = text.find(start).expect("a start") + start.len();
    &text[from..from + text[from..].find(end).expect("an end")]
}

#[test]
fn images_and_table_are_well_formed_and_complete() {
    for sample in samples::all() {
        let page = page_of(&sample);
        let mut rest = page.as_str();
        let mut n_images = 0;
        while let Some(at) = rest.find("<svg ") {
            let end = at + rest[at..].find("</svg>").expect("an end") + "</svg>".len();
            pieces(&rest[at..end]);
            rest = &rest[end..];
            n_images += 1;
        }
        assert_eq!(n_images, 2, "legend and timeline");
        pieces(&format!("<table>{}</table>", between(&page, "<table>", "</table>")));
        assert_eq!(page.matches("<tr><th>").count(), 1 + sample.report.ranks.len());
        // Each id names one thing.
        let mut ids: Vec<&str> =
            page.match_indices(" id=\"").map(|(at, _)| between(&page[at..], " id=\"", "\"")).collect();
        let n_ids = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), n_ids, "{}", sample.name);
    }
}

#[cfg(feature = "json")]
#[test]
fn the_script_has_every_computation() {
    for sample in samples::all() {
        let page = page_of(&sample);
        let data = between(&page[page.find("id=\"pp-data\"").expect("data")..], ">", "</script>");
        let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
        let list = |name: &str| data[name].as_array().expect("a list").clone();
        assert_eq!(list("rows").len(), sample.timeline.rows().len());
        for (row, spans) in list("rows").iter().zip(sample.timeline.rows()) {
            let numbers: Vec<i64> =
                row.as_array().expect("a row").iter().filter_map(serde_json::Value::as_i64).collect();
            let works = numbers.chunks(7).map(|n| (n[0], n[1], n[2], n[3], n[4]));
            assert!(works.eq(spans.iter().map(|span| {
                let work = span.work;
                let (start, end) = (span.start as i64, span.end as i64);
                (work.stage.0.into(), work.kind as i64, work.microbatch.0.into(), start, end)
            })));
        }
        assert_eq!(list("critical").len(), 2 * sample.report.critical_path.steps.len());
        assert_eq!(list("shades").len(), sample.timeline.extent().placement.n_stages() as usize);
        assert_eq!(list("pairs").len(), sample.timeline.rows().len());
    }
}

#[test]
fn what_a_user_says_is_text() {
    let mut sample = Sample::new("split", samples::split(), &samples::uneven());
    sample.scale.unit = "<i>&\"'".to_owned();
    let nasty = "</script></style><script>alert(1)</script><!-- & \"'";
    let page = page(
        &Picture::new(nasty, &sample.timeline, &sample.report, &sample.scale)
            .with_closed_form(vec![nasty.to_owned()])
            .with_notes(vec![nasty.to_owned()]),
    );
    assert_eq!(page.matches("<script").count(), 2, "data and script");
    assert!(!page.contains("<i>") && !page.contains("<!--") && !page.contains("alert(1)</script>"));
    assert!(page.contains("data-unit=\"&lt;i&gt;&amp;&quot;&#39;\""));
}

#[test]
fn nothing_is_loaded() {
    let page = page_of(&Sample::new("split", samples::split(), &samples::uneven()));
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for loads in ["http:", "https:", "//cdn", " src=", " href=", "@import", "url(http", "fetch(", "import("] {
        assert!(!page.contains(loads), "{loads}");
    }
}

#[test]
fn the_page_needs_no_script() {
    let page = page_of(&Sample::new("split", samples::split(), &samples::uneven()));
    // The image is there; what needs the script is hidden until it runs.
    assert!(
        page.contains("<div id=\"pp-live\" hidden>") && page.contains("<div id=\"pp-static\" class=\"scroll\">\n<svg ")
    );
}

#[test]
fn a_timeline_of_nothing_is_a_page() {
    let extent = Extent { placement: Placement::looped(2, 1), microbatches: 1, forward_only: true };
    let timeline = Timeline::measured(extent, vec![vec![], vec![]]);
    let report = Report::new(&timeline, |_| StageBytes::default());
    let scale = Scale { ticks_per_unit: f64::NAN, unit: String::new() };
    let page = page(&Picture::new("nothing", &timeline, &report, &scale));
    assert!(page.contains("\"perUnit\":1,") && page.ends_with("</html>\n"));
}
