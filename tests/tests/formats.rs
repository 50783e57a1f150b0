//! Every schedule that torch was recorded to write goes from any format to any other and back, character for character.

use std::collections::BTreeSet;
use std::path::Path;

use pp_schedule::format::any::{Format, read, write};
use pp_schedule::format::csv::Grid;
use serde_json::Value;
use xtask::golden::read_lines;

#[test]
fn what_torch_writes_survives_every_format() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/torch_orders.jsonl.gz");
    let (mut n_texts, mut seen) = (0, BTreeSet::new());
    for line in read_lines(&file).expect("readable").lines() {
        let recorded: Value = serde_json::from_str(line).expect("JSON");
        for rows in [&recorded["compute"], &recorded["comms"]].into_iter().filter_map(Value::as_array) {
            let rows = rows.iter().map(|row| row.as_str().expect("a row"));
            let csv: String = rows.map(|row| format!("{row}\r\n")).collect();
            survives(&csv, n_texts % 2 == 0);
            n_texts += 1;
            let hard = ["OVERLAP_F_B", "UNSHARD", "RECV_B", ",,", "I0"].into_iter().filter(|part| csv.contains(part));
            seen.extend(hard);
        }
    }
    assert_eq!(n_texts, 509);
    assert_eq!(seen.len(), 5, "{seen:?}");
}

/// Once around through all formats, one way or the other: so each of them is made from each other one.
fn survives(csv: &str, forwards: bool) {
    let document = read(csv, None).unwrap_or_else(|error| panic!("{error}: {csv}"));
    let (first, second) = if forwards { (Format::Json, Format::Events) } else { (Format::Events, Format::Json) };
    let last = [first, second, Format::Csv].into_iter().fold(csv.to_owned(), |text, to| {
        let read = read(&text, None).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(read, document, "on the way to {to}");
        write(&read, to)
    });
    assert_eq!(last, csv);
}

/// Transfers and marks stand where torch put them, cell for cell.
#[test]
fn computations_are_lowered_as_torch_lowers_them() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/torch_orders.jsonl.gz");
    let (mut n_compared, mut seen) = (0, BTreeSet::new());
    for line in read_lines(&file).expect("readable").lines() {
        let recorded: Value = serde_json::from_str(line).expect("JSON");
        let deferred = recorded["defer_pp_recv"] == true;
        let (Some(comms), false) = (recorded["comms"].as_array(), deferred) else { continue };
        let comms: String = comms.iter().map(|row| format!("{}\r\n", row.as_str().expect("a row"))).collect();
        let order = Grid::parse(&comms).expect("a grid").compute_only().to_order().expect("an order");
        let lowered = Grid::lowered_as_torch(&order).expect("no circle");
        assert_eq!(lowered.to_csv(), comms, "{}", recorded["schedule"]);
        n_compared += 1;
        seen.insert(recorded["schedule"].to_string());
    }
    assert_eq!((n_compared, seen.len()), (226, 5), "{seen:?}");
}
