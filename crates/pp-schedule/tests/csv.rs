//! torch's text form of schedules: exact round trips, strict cells, and orders in and out.

use pp_schedule::format::csv::{
    CsvError, CsvErrorKind, Expected, Grid, GridError, MarkKind, Token, TransferKind, write_row,
};
use pp_schedule::{
    GPipeBackward, Microbatch, Order, OrderError, Placement, Rank, ScheduleConfig, ScheduleKind, ScheduleSpec, Shape,
    Stage, Work, WorkKind,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn parse(text: &str) -> Grid {
    Grid::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// What torch wrote for `DualPipeV` on two ranks: marks, transfers, overlapped pairs.
const DUAL_PIPE_V: [&str; 2] = [
    "0UNSHARD,3UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,0F2,0SEND_F2,3F0,3RECV_F1,3I0,3SEND_B0,3W0,3F1,3RECV_F2,\
     0RECV_B0,(0F3;3B1)OVERLAP_F_B,0SEND_F3,3SEND_B1,(3F2;0B0)OVERLAP_F_B,3RECV_F3,0RECV_B1,3B2,3SEND_B2,\
     (3F3;0B1)OVERLAP_F_B,0RECV_B2,3B3,3SEND_B3,3REDUCE_GRAD,0RECV_B3,3RESHARD,0I2,0W2,0I3,0W3,0REDUCE_GRAD,0RESHARD",
    "1UNSHARD,2UNSHARD,1RECV_F0,1F0,1RECV_F1,2F0,2SEND_F0,1RECV_F2,1F1,2F1,2SEND_F1,2RECV_B0,1F2,2B0,\
     (2F2;1B0)OVERLAP_F_B,2SEND_F2,1SEND_B0,1RECV_F3,2RECV_B1,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2SEND_F3,1SEND_B1,\
     2RECV_B2,2B2,1B2,1SEND_B2,2RECV_B3,2I3,1I3,1SEND_B3,2W3,2REDUCE_GRAD,2RESHARD,1W3,1REDUCE_GRAD,1RESHARD",
];

#[test]
fn torchs_text_round_trips() {
    let text = DUAL_PIPE_V.map(|row| format!("{row}\r\n")).concat();
    let grid = parse(&text);
    assert_eq!(grid.to_csv(), text);
    assert_eq!(grid.rows.iter().map(|row| write_row(row)).collect::<Vec<_>>(), DUAL_PIPE_V);
    // Other line ends, needless quotes, no end at the end.
    let quoted = DUAL_PIPE_V.map(|row| format!("\"{}\"", row.replace(',', "\",\""))).join("\n");
    assert_eq!(parse(&quoted), grid);

    // As torch does: blanks around a cell, and what spreadsheets put in front.
    assert_eq!(parse("\u{feff} 0F0,0B0\t, \n1F0 ,1B0"), parse("0F0,0B0,\n1F0,1B0"));

    let overlap = Token::Overlap { forward: (Stage(0), Microbatch(3)), backward: (Stage(3), Microbatch(1)) };
    assert_eq!(grid.rows[0][17], Some(overlap));
    assert_eq!(overlap.works().map(|work| work.to_string()).collect::<Vec<_>>(), ["0F3", "3B1"]);
    assert_eq!(grid.rows[0][0], Some(Token::Mark { kind: MarkKind::Unshard, stage: Stage(0) }));
    assert_eq!(grid.stage_to_rank(), Ok([0, 1, 1, 0].map(Rank).to_vec()));
    let order = grid.compute_only().to_order().expect("a V");
    assert_eq!(order.extent().placement, Placement::v(2));
    assert_eq!(Grid::from(&order), grid.compute_only());
    let error = parse("0F0,3F0\n1F0\n2F0,4F0,5F0").to_order().expect_err("neither loop nor V");
    let (stage, rank, expected) = (Stage(4), Rank(2), Rank(1));
    assert_eq!(error, GridError::NoPlacement { stage, rank, shape: Shape::Loop, expected });
}

#[test]
fn idle_steps_and_empty_rows_are_as_pythons_csv_has_them() {
    let work = |token: &str| Some(Token::Work(token.parse().expect("work")));
    for (text, rows) in [
        ("", vec![]),
        ("\r\n", vec![vec![]]),
        ("\r\n\r\n", vec![vec![], vec![]]),
        ("\"\"\r\n", vec![vec![None]]),
        (",\r\n", vec![vec![None, None]]),
        ("0F0,,\r\n", vec![vec![work("0F0"), None, None]]),
        (",,0F0\r\n", vec![vec![None, None, work("0F0")]]),
    ] {
        assert_eq!(parse(text).rows, rows, "{text:?}");
        assert_eq!(Grid { rows }.to_csv(), text);
    }
}

#[test]
fn cells_are_read_strictly() {
    use Expected::{
        Close, End, Kind, Microbatch, Number, Overlap, OverlappedBackward, OverlappedForward, Separator, Stage,
    };
    for (cell, after, expected, found) in [
        ("2F0junk", "2F0", End, "junk"),
        ("2BW0", "2", Kind, "BW"),
        ("2I", "2I", Microbatch, ""),
        ("I", "", Stage, "I"),
        ("I0", "", Stage, "I"),
        ("2", "2", Kind, ""),
        ("2f0", "2", Kind, "f"),
        ("2X0", "2", Kind, "X"),
        ("2FF0", "2", Kind, "FF"),
        ("2F 0", "2F", Microbatch, " "),
        ("02F0", "", Number, "02"),
        ("2F00", "2F", Number, "00"),
        ("2F4294967296", "2F", Number, "4294967296"),
        ("-1F0", "", Stage, "-"),
        ("2F0;", "2F0", End, ";"),
        ("2SEND_F", "2SEND_F", Microbatch, ""),
        ("2SEND0", "2", Kind, "SEND"),
        ("2UNSHARD0", "2UNSHARD", End, "0"),
        ("2REDUCE_GRAD1", "2REDUCE_GRAD", End, "1"),
        ("(", "(", OverlappedForward, ""),
        ("(0B3;3B1)OVERLAP_F_B", "(0", OverlappedForward, "B"),
        ("(0F3)OVERLAP_F_B", "(0F3", Separator, ")"),
        ("(0F3;3F1)OVERLAP_F_B", "(0F3;3", OverlappedBackward, "F"),
        ("(0F3;3I1)OVERLAP_F_B", "(0F3;3", OverlappedBackward, "I"),
        ("(0F3;3B1", "(0F3;3B1", Close, ""),
        ("(0F3;3B1;4B1)OVERLAP_F_B", "(0F3;3B1", Close, ";"),
        ("(0F3;3B1)", "(0F3;3B1)", Overlap, ""),
        ("(0F3;3B1)OVERLAP_F_B0", "(0F3;3B1)OVERLAP_F_B", End, "0"),
        ("0F0\r", "0F0", End, "\\r"),
        ("é", "", Stage, "é"),
    ] {
        let error = cell.parse::<Token>().expect_err(cell);
        assert_eq!((&*error.after, error.expected, &*error.found), (after, expected, found), "{cell}");
        let in_text = Grid::parse(&format!("0F0\n0F0,,{cell}")).expect_err(cell);
        assert_eq!(in_text, CsvError { row: 1, column: 2, kind: CsvErrorKind::Token(error) });
    }
}

#[test]
fn errors_say_where_what_and_what_instead() {
    let message = |text: &str| Grid::parse(text).expect_err(text).to_string();
    assert_eq!(
        message("0F0\n1F0,2F0junk\n"),
        "rank 1, step 1 (line 2, column 2): `2F0junk`: expected the end of the cell after `2F0`, but found `junk`"
    );
    assert_eq!(
        message("I\n"),
        "rank 0, step 0 (line 1, column 1): `I`: expected a stage number, or `(` for an overlapped pair, but found `I`"
    );
    assert_eq!(
        message("0F0,2I"),
        "rank 0, step 1 (line 1, column 2): `2I`: expected a microbatch number after `2I`, but found the end"
    );
    assert_eq!(
        message("\"0F0\n"),
        "rank 0, step 0 (line 1, column 1): `\\\"0F0`: expected a closing `\"` on this line, but found the end"
    );
    assert!(message("\"0F0\"x,1F0").contains("expected `,` or the end of the line after the closing"));
    assert!(message("\"0F0\"\"\"").contains("after the closing"));
    assert!(message("0F\"0\"").contains("expected a microbatch number after `0F`"));
    assert!(message(&"9".repeat(10_000)).len() < 400);
}

/// Every order this crate makes goes out and comes back.
#[test]
fn orders_round_trip() {
    let mut specs = Vec::new();
    for (pp, vp, m) in (1..=4).flat_map(|pp| (1..=3).flat_map(move |vp| (1..=6).map(move |m| (pp, vp, m)))) {
        let spec = ScheduleSpec { allow_bubbles: true, ..ScheduleSpec::new(pp, vp, m) };
        let gpipe_backward = Some(GPipeBackward::Ascending);
        specs.push(ScheduleSpec {
            schedule: Some(ScheduleKind::GPipe),
            gpipe_backward,
            ..ScheduleSpec::new(pp, vp, m)
        });
        specs.push(spec);
    }
    let configs: Vec<ScheduleConfig> = specs.iter().filter_map(|spec| ScheduleConfig::new(spec).ok()).collect();
    assert!(configs.len() > 60, "{}", configs.len());
    for config in configs.iter().flat_map(|config| [*config, config.to_forward_only()]) {
        let order = Order::generate(&config);
        let grid = Grid::from(&order);
        assert_eq!(parse(&grid.to_csv()), grid);
        assert_eq!(grid.to_order(), Ok(order), "{config:?}");
    }
}

#[test]
fn a_grid_that_is_no_order_is_refused() {
    let order = |text: &str| parse(text).to_order();
    let refuse = |text: &str| order(text).expect_err(text);
    assert_eq!(refuse(""), GridError::Empty);
    assert_eq!(refuse(",\n\n"), GridError::Empty);
    let error = refuse("0F0,0SEND_F0\n1RECV_F0,1F0").to_string();
    assert_eq!(
        error,
        "rank 0, step 1: `0SEND_F0` is a transfer, but an order has computations only; leave the transfers out"
    );
    assert_eq!(refuse("0F0\n0F1"), GridError::OnTwoRanks { stage: Stage(0), ranks: [Rank(0), Rank(1)] });
    assert_eq!(refuse("0F0\n2F0"), GridError::OnNoRank { stage: Stage(1), highest: Stage(2) });
    assert_eq!(
        refuse("1F0\n0F0"),
        GridError::NoPlacement { stage: Stage(0), rank: Rank(1), shape: Shape::Loop, expected: Rank(0) }
    );
    assert_eq!(refuse("0F0,2F0\n1F0"), GridError::StagesNotDivisible { n_stages: 3, n_ranks: 2 });
    let idle = refuse("0F0\n\n");
    assert_eq!(idle, GridError::StagesNotDivisible { n_stages: 1, n_ranks: 2 });
}

#[test]
fn huge_numbers_are_refused_without_allocating_for_them() {
    let huge = parse("0F0,4294967295F0\n1F0").to_order();
    assert_eq!(huge, Err(GridError::OnNoRank { stage: Stage(2), highest: Stage(u32::MAX) }));
    let many = parse("0F0,0F4294967295\n1F0").to_order().expect_err("too few").to_string();
    assert!(many.contains("microbatches 0..=4294967295 need 8589934592"), "{many}");
}

#[test]
fn marks_and_pairs_in_an_order() {
    let order = parse("0F0,0F1,1F0,,1F1,1B0,(0F2;1B1)OVERLAP_F_B,1F2,1B2,0B0,0B1,0I2,0W2,0REDUCE_GRAD\n").to_order();
    let order = order.expect("one rank, two chunks");
    let row: Vec<String> = order.rows()[0].iter().map(ToString::to_string).collect();
    assert_eq!(row.join(" "), "0F0 0F1 1F0 1F1 1B0 0F2 1B1 1F2 1B2 0B0 0B1 0I2 0W2");
    assert_eq!(order.extent().placement.n_chunks(), 2);
    let twice = parse("0F0,0F0,0B0").to_order();
    assert!(matches!(twice, Err(GridError::Order(OrderError::Twice { .. }))), "{twice:?}");
    assert!(parse("0F0,0F1").to_order().expect("forwards").extent().forward_only);
}

fn token() -> impl Strategy<Value = Token> {
    let number = || prop_oneof![3 => 0..20_u32, 1 => any::<u32>()];
    let stage = move || number().prop_map(Stage);
    let microbatch = move || number().prop_map(Microbatch);
    prop_oneof![
        (prop::sample::select(&WorkKind::ALL[..]), stage(), microbatch())
            .prop_map(|(kind, stage, microbatch)| Token::Work(Work { kind, stage, microbatch })),
        (prop::sample::select(&TransferKind::ALL[..]), stage(), microbatch())
            .prop_map(|(kind, stage, microbatch)| Token::Transfer { kind, stage, microbatch }),
        (prop::sample::select(&MarkKind::ALL[..]), stage()).prop_map(|(kind, stage)| Token::Mark { kind, stage }),
        ((stage(), microbatch()), (stage(), microbatch()))
            .prop_map(|(forward, backward)| Token::Overlap { forward, backward }),
    ]
}

fn grid() -> impl Strategy<Value = Grid> {
    prop::collection::vec(prop::collection::vec(prop::option::of(token()), 0..12), 0..6).prop_map(|rows| Grid { rows })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::with_cases(1024) })]

    #[test]
    fn any_grid_round_trips(grid in grid()) {
        let text = grid.to_csv();
        prop_assert_eq!(Grid::parse(&text), Ok(grid.clone()));
        prop_assert_eq!(Grid::parse(&text.replace("\r\n", "\n")), Ok(grid.clone()));
        if let Ok(order) = grid.to_order() {
            prop_assert_eq!(Grid::from(&order).to_order(), Ok(order));
        }
    }

    /// Accepted means understood: it is written back as it was, but for quotes, blanks and line ends.
    #[test]
    fn any_text_is_a_grid_or_an_error(text in "([0-9]{1,2}[FBIW_SENDRCV]{1,6}[0-9]{0,2}|[,;()\"\r\n])*|\\PC{0,20}") {
        if let Ok(grid) = Grid::parse(&text) {
            let plain = |text: &str| text.replace(['"', '\r', ' ', '\t', '\u{feff}'], "").trim_end_matches('\n').to_owned();
            prop_assert_eq!(plain(&grid.to_csv()), plain(&text));
            let _ = grid.to_order();
        }
    }

    /// One character less, more, or other: never the same grid, never a panic.
    #[test]
    fn a_changed_character_is_seen(grid in grid(), at in any::<prop::sample::Index>(), to in "[0-9FBIWS_(;),x]?") {
        let text = grid.to_csv().replace("\r\n", "\n");
        if text.is_empty() {
            return Ok(());
        }
        let at = at.index(text.len());
        let changed = format!("{}{to}{}", &text[..at], &text[at + 1..]);
        let same = changed.trim_end_matches('\n') == text.trim_end_matches('\n');
        if let (false, Ok(other)) = (same, Grid::parse(&changed)) {
            prop_assert_ne!(other, grid);
        }
    }
}
