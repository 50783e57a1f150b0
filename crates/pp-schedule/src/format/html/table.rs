//! The table of ranks.

use std::fmt::Write as _;

use crate::format::picture::Picture;
use crate::format::xml::escape;
use crate::quantity::Bytes;
use crate::simulate::RankReport;

/// Writes it.
pub(super) fn write(page: &mut String, picture: &Picture<'_>) {
    let placement = picture.timeline.extent().placement;
    page.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>rank</th><th>stages</th>");
    // Writing to a string cannot fail.
    for (head, unit) in
        [("first start", true), ("last end", true), ("busy", true), ("busy", false), ("wait", true), ("idle", true)]
    {
        let unit = if unit { escape(&picture.scale.unit) } else { "%".to_owned() };
        let _ = write!(page, "<th>{head}, {unit}</th>");
    }
    let has_deferred = picture.report.ranks.iter().any(|rank| rank.peak_deferred > 0);
    page.push_str("<th>peak in flight</th>");
    if has_deferred {
        page.push_str("<th>peak deferred</th>");
    }
    if picture.bytes_known {
        page.push_str("<th>peak memory</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for rank in &picture.report.ranks {
        let stages: Vec<String> = placement.stages_of(rank.rank).map(|stage| stage.to_string()).collect();
        let _ = write!(page, "<tr><th>{}</th><td>{}</td>", rank.rank, stages.join(" "));
        let &RankReport { start, end, busy, wait, idle, .. } = rank;
        let share = 100.0 * busy as f64 / picture.report.makespan.max(1) as f64;
        let number = |ticks| picture.number(ticks);
        for cell in [number(start), number(end), number(busy), format!("{share:.2}"), number(wait), number(idle)] {
            let _ = write!(page, "<td>{cell}</td>");
        }
        let _ = write!(page, "<td>{}</td>", rank.peak_in_flight);
        if has_deferred {
            let _ = write!(page, "<td>{}</td>", rank.peak_deferred);
        }
        if picture.bytes_known {
            let _ = write!(page, "<td>{}</td>", Bytes(rank.peak_bytes));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}
