//! Every schedule that torch was recorded to write goes from any format to any other and back, character for character.

use std::collections::BTreeSet;
use std::path::Path;

use pp_schedule::format::any::{Format, read, write};
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
            survives(&csv);
            n_texts += 1;
            let hard = ["OVERLAP_F_B", "UNSHARD", "RECV_B", ",,", "I0"].into_iter().filter(|part| csv.contains(part));
            seen.extend(hard);
        }
    }
    assert!(n_texts > 700, "{n_texts}");
    assert_eq!(seen.len(), 5, "{seen:?}");
}

fn survives(csv: &str) {
    let document = read(csv, None).unwrap_or_else(|error| panic!("{error}: {csv}"));
    assert_eq!(write(&document, Format::Csv), csv);
    for by in Format::ALL {
        let text = write(&document, by);
        let back = read(&text, None).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(back, document);
        for then in Format::ALL {
            let twice = read(&write(&back, then), Some(then)).expect("what was written");
            assert_eq!(write(&twice, Format::Csv), csv, "by {by}, then {then}");
        }
    }
}
