//! CSV, JSON and events: any to any and back, and what each refuses.

use pp_schedule::format::any::{Format, ReadError, read, write};
use pp_schedule::format::csv::{Grid, MarkKind, Token, TransferKind};
use pp_schedule::format::document::{Document, FieldError, HeadError};
use pp_schedule::format::events::{self, EventsErrorKind};
use pp_schedule::format::json::{self, JsonError};
use pp_schedule::{
    GPipeBackward, Microbatch, Order, ScheduleConfig, ScheduleKind, ScheduleSpec, Stage, Work, WorkKind,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// From every format to every other and back: the same document, and the same text.
fn round_trips(document: &Document) {
    for from in Format::ALL {
        let text = write(document, from);
        assert_eq!(Format::of_text(&text), from, "{text}");
        let unnamed = Document { name: None, ..document.clone() };
        let held = read(&text, None).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(&held, if from == Format::Csv { &unnamed } else { document });
        assert_eq!(read(&text, Some(from)).as_ref(), Ok(&held));
        for by in Format::ALL {
            let back = read(&write(&held, by), Some(by)).expect("what was written");
            assert_eq!(back.grid, held.grid);
            if by != Format::Csv {
                assert_eq!(write(&back, from), text, "{from} by {by}");
            }
        }
    }
}

/// Every order this crate makes.
#[test]
fn orders_round_trip() {
    let mut n_orders = 0;
    for (pp, vp, m) in (1..=4).flat_map(|pp| (1..=3).flat_map(move |vp| (1..=5).map(move |m| (pp, vp, m)))) {
        for schedule in ScheduleKind::ALL {
            let spec = ScheduleSpec { schedule: Some(schedule), ..ScheduleSpec::new(pp, vp, m) };
            let Ok(config) = ScheduleConfig::new(&spec) else { continue };
            n_orders += 1;
            let grid = Grid::from(&Order::generate(&config));
            round_trips(&Document { name: Some(schedule.to_string()), grid });
        }
    }
    assert!(n_orders > 60, "{n_orders}");
    let reversed = ScheduleSpec {
        schedule: Some(ScheduleKind::GPipe),
        gpipe_backward: Some(GPipeBackward::Ascending),
        ..ScheduleSpec::new(3, 1, 4)
    };
    round_trips(&Grid::from(&Order::generate(&ScheduleConfig::new(&reversed).expect("valid"))).into());
}

/// What is no order: no ranks, ranks that do nothing, idle steps at the end, marks and transfers alone.
#[test]
fn cells_that_are_no_order_round_trip() {
    for csv in
        ["", "\r\n", "\r\n\r\n", "\"\"\r\n", ",\r\n", "0F0,,\r\n", "\r\n0F0\r\n", "9UNSHARD\r\n7SEND_B3,,7RECV_B3\r\n"]
    {
        let document = Document::from(Grid::parse(csv).expect("a grid"));
        assert_eq!(write(&document, Format::Csv), csv);
        round_trips(&document);
    }
}

fn token() -> impl Strategy<Value = Option<Token>> {
    let id = || prop_oneof![0..9_u32, Just(u32::MAX)];
    let placed = || (id().prop_map(Stage), id().prop_map(Microbatch));
    prop_oneof![
        Just(None),
        (placed(), 0..4_usize).prop_map(|((stage, microbatch), kind)| {
            Some(Token::Work(Work { kind: WorkKind::ALL[kind], stage, microbatch }))
        }),
        (placed(), 0..4_usize).prop_map(|((stage, microbatch), kind)| {
            Some(Token::Transfer { kind: TransferKind::ALL[kind], stage, microbatch })
        }),
        (id(), 0..3_usize)
            .prop_map(|(stage, kind)| Some(Token::Mark { kind: MarkKind::ALL[kind], stage: Stage(stage) })),
        (placed(), placed()).prop_map(|(forward, backward)| Some(Token::Overlap { forward, backward })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_cells_round_trip(
        rows in prop::collection::vec(prop::collection::vec(token(), 0..6), 0..5),
        name in prop::option::of(".{0,12}"),
    ) {
        round_trips(&Document { name, grid: Grid { rows } });
    }

    /// What is no schedule is an error, and so is a schedule with a hole in it; never a panic.
    #[test]
    fn any_text_gets_a_verdict(text in ".{0,60}", at in 0..400_usize, len in 1..9_usize) {
        for format in Format::ALL {
            let _ = read(&text, Some(format));
            let document = Document::from(Grid::parse("0F0,,0SEND_F0,0B0\n(1F0;1B0)OVERLAP_F_B,1UNSHARD\n").expect("a grid"));
            let mut spoilt = write(&document, format);
            let at = at % spoilt.len();
            spoilt.replace_range(at..(at + len).min(spoilt.len()), "");
            if let Ok(read) = read(&spoilt, Some(format)) {
                round_trips(&read);
            }
        }
    }
}

const JSON: &str = r#"{
  "format": "pp-schedule",
  "version": 1,
  "name": "mine",
  "ranks": 2,
  "stages": 2,
  "microbatches": 1,
  "placement": "loop",
  "actions": [
    ["0F0", null, "0B0"],
    ["1F0", "1B0"]
  ]
}
"#;

#[test]
fn json_is_written_line_by_line() {
    let grid = Grid::parse("0F0,,0B0\n1F0,1B0\n").expect("a grid");
    assert_eq!(json::write(&Document { name: Some("mine".to_owned()), grid }), JSON);
    // What can be counted may be left out, and so may blanks.
    let short =
        r#"{"actions":[["0F0",null,"0B0"],["1F0","1B0"]],"name":"mine","ranks":2,"version":1,"format":"pp-schedule"}"#;
    assert_eq!(json::read(short), json::read(JSON));
}

#[test]
fn json_errors_name_path_value_and_rule() {
    let message = |from: &str, to: &str| {
        assert!(JSON.contains(from), "{from}");
        json::read(&JSON.replacen(from, to, 1)).expect_err(to).to_string()
    };
    for (from, to, expected) in [
        ("pp-schedule", "pp-plan", "`format` is \"pp-plan\": expected \"pp-schedule\""),
        (": 1,", ": 2,", "`version` is 2, but this reads version 1 only"),
        (": 1,", ": \"1\",", "`version` is \"1\": expected a whole number that is not negative"),
        ("\"version\": 1,", "", "`version` is missing"),
        ("\"ranks\": 2,", "", "`ranks` is missing"),
        ("\"ranks\": 2", "\"ranks\": 3", "`ranks` is 3, but the actions have 2; correct it"),
        ("\"stages\": 2", "\"stages\": 4", "`stages` is 4, but the actions have 2; correct it, or leave it out"),
        ("\"microbatches\": 1", "\"microbatches\": -1", "`microbatches` is -1: expected a whole number that"),
        ("\"loop\"", "\"v\"", "`placement` is \"v\", but the stages are dealt to ranks as \"loop\"; correct it"),
        ("\"loop\"", "\"ring\"", "`placement` is \"ring\": expected \"loop\" or \"v\""),
        ("\"name\": \"mine\"", "\"name\": 3", "`name` is 3: expected a text in quotes"),
        ("\"name\"", "\"title\"", "unknown field `title`; known here: format, version, name, ranks, stages"),
        ("\"stages\"", "\"ranks\"", "`ranks` stands twice at line 6"),
        ("\"0B0\"", "3", "actions[0][2]: a token such as \"2F0\", or null for an idle step at line 10 column 19"),
        ("[\"1F0\", \"1B0\"]", "7", "invalid type: integer `7`, expected actions[1]: a list of what rank 1 does"),
        ("\"1F0\"", "\"1F0 \"", "actions[1][0]: `1F0 `: expected the end of the cell after `1F0`, but found ` `"),
        ("  ]\n}", "  ]\n", "EOF while parsing an object at line 14"),
        ("\"actions\"", "\"rows\"", "unknown field `rows`"),
    ] {
        let message = message(from, to);
        assert!(message.contains(expected), "{to}: {message}");
    }
    // A file of a later version is called that, whatever else is new in it.
    let later = JSON.replacen(": 1,", ": 2, \"new\": 1,", 1).replace("0F0", "0Q0");
    assert_eq!(json::read(&later), Err(JsonError::Head(HeadError::Version { version: 2 })));
    let without = json::read(r#"{"format":"pp-schedule","version":1,"ranks":0}"#);
    assert_eq!(without, Err(JsonError::Head(HeadError::Field(FieldError::Missing { name: "actions" }))));
    let elsewhere = JSON.replace("1F0\", \"1B0", "2F0\", \"2B0").replacen("\"stages\": 2", "\"stages\": 3", 1);
    let error = json::read(&elsewhere).expect_err("a gap").to_string();
    assert!(error.contains("`placement` is \"loop\", but the actions have none: stage 1 stands on no rank"), "{error}");
}

#[test]
fn events_errors_name_line_value_and_rule() {
    let grid = Grid::parse("0F0,,0SEND_F0\n(1F0;1B0)OVERLAP_F_B,1UNSHARD\n").expect("a grid");
    let text = events::write(&grid.into());
    let message = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}: {text}");
        events::read(&text.replacen(from, to, 1)).expect_err(to).to_string()
    };
    for (from, to, expected) in [
        ("schedule-events", "schedule", "line 1: `format` is \"pp-schedule\": expected \"pp-schedule-events\""),
        ("\"version\":1", "\"version\":0", "line 1: `version` is 0, but this reads version 1 only"),
        (
            "\"steps\":[3,2]",
            "\"steps\":[3]",
            "line 1: `ranks` is 2, but `steps` has 1 numbers; it has one for each rank",
        ),
        (
            "\"steps\":[3,2]",
            "\"steps\":[3,\"2\"]",
            "line 1: `steps` is [3,\"2\"]: expected a list with the number of lines",
        ),
        ("\"steps\":[3,2]", "\"steps\":[3,1]", "line 6: a line too many: the header's `steps` are all there"),
        ("\"steps\":[3,2]", "\"steps\":[3,3]", "line 7: expected rank 1, step 2, but the text ends here"),
        ("\"steps\":[3,2]", "\"steps\":[3,99999999999]", "line 1: `steps` has more than 67108864 together"),
        ("\"stages\":2", "\"stages\":1", "line 1: `stages` is 1, but the actions have 2"),
        (
            "\"step\":1,",
            "\"step\":2,",
            "line 3: `rank` 0, `step` 2: expected rank 0, step 1; the lines go rank by rank",
        ),
        ("\"IDLE\"}", "\"IDLE\",\"stage\":0}", "line 3: unknown field `stage`; known here: rank, step, kind"),
        ("\"IDLE\"}\n", "\"IDLE\"}\n\n", "line 4: expected one JSON object: EOF while parsing a value"),
        ("\"SEND_F\"", "\"SEND\"", "line 4: unknown `kind` \"SEND\"; known: F, B, I, W, SEND_F"),
        ("\"F\",\"stage\":0", "\"F\",\"stage\":-1", "line 2: `stage` is -1: expected a whole number below 4294967296"),
        ("\"F\",\"stage\":0,", "\"F\",", "line 2: `stage` is missing"),
        (",\"backward_microbatch\":0", "", "line 5: `backward_microbatch` is missing"),
        ("\"UNSHARD\"", "\"UNSHARD\",\"microbatch\":0", "line 6: unknown field `microbatch`"),
        (
            "\"kind\":\"F\"",
            "\"kind\":\"F\",\"rank\":0",
            "line 2: expected one JSON object: `rank` stands twice at line 1",
        ),
    ] {
        let message = message(from, to);
        assert!(message.contains(expected), "{to}: {message}");
    }
    let empty = events::read("").expect_err("no header");
    assert!(matches!((empty.line, &empty.kind), (1, EventsErrorKind::Malformed { .. })), "{empty}");
    // The last line may go without its end, and a file may have Windows' line ends.
    assert!(events::read(text.trim_end()).is_ok() && events::read(&text.replace('\n', "\r\n")).is_ok());
}

#[test]
fn formats_by_name_and_by_file() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    let unknown = "yaml".parse::<Format>().expect_err("unknown").to_string();
    assert_eq!(unknown, "unknown format `yaml`; known: csv, json, events");
    let named = |name| Format::of_file_name(name).map(Format::name);
    assert_eq!(
        ["a.csv", "a.b/c.JSON", "x.jsonl", "x.ndjson", "x", "x.txt"].map(named).map(Option::unwrap_or_default),
        ["csv", "json", "events", "events", "", ""]
    );
    // Events of another version are events still, and so the message is about the version.
    let later = r#"{"format":"pp-schedule-events","version":7}"#;
    let error = read(later, None).expect_err("version 7");
    assert!(matches!(error, ReadError::Events(_)), "{error}");
    assert_eq!(error.to_string(), "as events: line 1: `version` is 7, but this reads version 1 only");
}

/// The schemas name the fields, kinds and tokens that there are.
#[test]
fn the_schemas_are_of_what_is_written() {
    let schema = |name: &str| -> serde_json::Value {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        serde_json::from_str(&std::fs::read_to_string(path).expect("a schema")).expect("JSON")
    };
    let document = schema("schedule.schema.json");
    let written: serde_json::Value = serde_json::from_str(JSON).expect("JSON");
    let keys =
        |value: &serde_json::Value| -> Vec<String> { value.as_object().expect("an object").keys().cloned().collect() };
    assert_eq!(keys(&document["properties"]), keys(&written));
    assert_eq!(document["properties"]["version"]["const"], written["version"]);
    let pattern = document["$defs"]["token"]["pattern"].as_str().expect("a pattern");
    let names = TransferKind::ALL.map(TransferKind::name).into_iter().chain(MarkKind::ALL.map(MarkKind::name));
    for name in names.chain(["F|B|I|W", "OVERLAP_F_B"]) {
        assert!(pattern.contains(name), "{name}: {pattern}");
    }
    let events = schema("schedule-events.schema.json");
    let mut kinds = Vec::new();
    for definition in ["idle", "mark", "placed", "pair"] {
        let kind = &events["$defs"][definition]["properties"]["kind"];
        let listed = kind["enum"].as_array().cloned().unwrap_or_else(|| vec![kind["const"].clone()]);
        kinds.extend(listed.iter().map(|kind| kind.as_str().expect("a kind").to_owned()));
    }
    let unknown = events::read(&events::write(&Grid::parse(",\n").expect("idle").into()).replace("IDLE", "X"));
    let known = unknown.expect_err("unknown").to_string();
    let (_, known) = known.split_once("known: ").expect("the kinds");
    let mut known: Vec<&str> = known.split(", ").collect();
    known.sort_unstable();
    kinds.sort_unstable();
    assert_eq!(kinds, known);
}
