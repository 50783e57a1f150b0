//! Any text is a grid or an error; see the README.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pp_schedule::format::csv::Grid;

fuzz_target!(|text: &str| {
    let Ok(grid) = Grid::parse(text) else { return };
    let written = grid.to_csv();
    let plain = |text: &str| text.replace(['"', '\r', ' ', '\t', '\u{feff}'], "").trim_end_matches('\n').to_owned();
    assert_eq!(plain(&written), plain(text));
    assert_eq!(Grid::parse(&written).as_ref(), Ok(&grid));
    let _ = grid.stage_to_rank();
    let _ = grid.to_order();
    if let Ok(order) = grid.compute_only().to_order() {
        assert_eq!(Grid::from(&order).to_order(), Ok(order));
    }
});
