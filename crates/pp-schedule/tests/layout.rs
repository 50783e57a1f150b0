//! Layers on stages: Megatron's assignments and refusals, its layout strings, and balance against brute force.

use pp_schedule::layout::{LayerType, LayoutPattern, LayoutSpec, MAX_PATTERN_LEN, PatternError, balance};
use pp_schedule::{Assignment, LayerPartition, LayoutError, ScheduleConfig, ScheduleSpec, Stage};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn layout(text: &str) -> Option<LayoutPattern> {
    Some(text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn resolve(spec: LayoutSpec) -> Assignment {
    spec.resolve().unwrap_or_else(|error| panic!("{spec:?}: {error}"))
}

/// Assignments as Megatron-LM's own functions gave them.
#[test]
fn assignments_are_megatrons() {
    let even = resolve(LayoutSpec { vp: Some(2), ..LayoutSpec::new(8, 2) });
    assert_eq!((even.n(), even.off()), (&[vec![2, 2], vec![2, 2]][..], &[vec![0, 4], vec![2, 6]][..]));

    let ends = resolve(LayoutSpec { vp: Some(2), first: Some(2), last: Some(4), ..LayoutSpec::new(14, 4) });
    assert_eq!(ends.n(), [[1, 1], [2, 2], [2, 2], [2, 2]]);
    assert_eq!(ends.off(), [[0, 7], [1, 8], [3, 10], [5, 12]]);

    let only_last = resolve(LayoutSpec { last: Some(1), ..LayoutSpec::new(7, 3) });
    assert_eq!(only_last.n(), [[3], [3], [1]]);

    let both = LayoutSpec { account_for_embedding: true, account_for_loss: true, ..LayoutSpec::new(10, 3) };
    assert_eq!(
        (resolve(both.clone()).n(), resolve(both).off()),
        (&[[3], [4], [3]].map(Vec::from)[..], &[[0], [3], [7]].map(Vec::from)[..])
    );

    let big =
        resolve(LayoutSpec { layout: layout("Et*3|(tt|)*29,m|L"), mtp_layers: Some(1), ..LayoutSpec::new(61, 16) });
    assert_eq!(big.vp(), Some(2));
    assert_eq!((&big.n()[0][..], &big.n()[1][..], &big.n()[14][..]), (&[3, 2][..], &[2, 2][..], &[2, 0][..]));
    assert_eq!((&big.off()[13][..], &big.off()[15][..]), (&[29 - 2, 59][..], &[31, 61][..]));
    assert!(matches!(big.check_trainable(), Err(LayoutError::MtpNotTrained { mtp_layers: 1 })));
    assert_eq!(big.partition().map(|layers| layers.n_layers()), Ok(61));
}

#[test]
fn stages_may_be_empty_in_a_layout() {
    let assignment = resolve(LayoutSpec { layout: layout("E||t|L"), ..LayoutSpec::new(1, 4) });
    assert_eq!(assignment.vp(), None);
    assert_eq!(assignment.n(), [[0], [0], [1], [0]]);
    assert_eq!(assignment.check_trainable(), Ok(()));
    let layers = assignment.partition().expect("covers");
    assert_eq!((layers.range(Stage(0)), layers.range(Stage(2)), layers.range(Stage(3))), (0..0, 0..1, 1..1));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refuse = |spec: LayoutSpec| spec.resolve().expect_err("refused").to_string();
    // Megatron divides by zero.
    let two = LayoutSpec { vp: Some(2), first: Some(2), last: Some(2), ..LayoutSpec::new(4, 2) };
    assert!(refuse(two).contains("leave --vp out"));
    // Megatron lets the last one win.
    let one = LayoutSpec { first: Some(2), last: Some(4), ..LayoutSpec::new(4, 1) };
    assert!(refuse(one).contains("--pp is 1; leave both out"));
    // Megatron accepts, and builds minus one layer.
    let negative = resolve(LayoutSpec { first: Some(1), last: Some(4), ..LayoutSpec::new(4, 3) });
    assert_eq!(
        (negative.n(), negative.off()),
        (&[[1], [-1], [4]].map(Vec::from)[..], &[[0], [1], [0]].map(Vec::from)[..])
    );
    let error = negative.partition().expect_err("negative").to_string();
    assert!(error.contains("rank 1, chunk 0 would have -1 of --num-layers 4"), "{error}");
    // Megatron gives every chunk of a single rank all layers.
    let chunks = resolve(LayoutSpec { vp: Some(2), ..LayoutSpec::new(4, 1) });
    assert_eq!((chunks.n(), chunks.off()), (&[vec![2, 2]][..], &[vec![0, 2]][..]));
    // Embedding and loss run on the first and last stage, wherever the layout has them.
    let late = resolve(LayoutSpec { layout: layout("|EtL"), ..LayoutSpec::new(1, 2) });
    assert_eq!(late.check_trainable(), Err(LayoutError::EmbeddingNotFirst { stage: 1 }));
    let early = resolve(LayoutSpec { layout: layout("EtL|"), ..LayoutSpec::new(1, 2) });
    assert_eq!(early.check_trainable(), Err(LayoutError::LossNotLast { stage: 0, last_stage: 1 }));
}

#[test]
fn refusals_name_flag_value_and_what_works() {
    let cases = [
        (
            LayoutSpec::new(7, 2),
            "--num-layers 7 does not divide over 2 stages (--pp 2 x --vp 1); nearest that works: --num-layers 6 or 8",
        ),
        (LayoutSpec::new(7, 0), "--pp is 0, but must be at least 1"),
        (LayoutSpec { vp: Some(0), ..LayoutSpec::new(7, 1) }, "--vp is 0"),
        (LayoutSpec { vp: Some(u32::MAX), ..LayoutSpec::new(7, 2) }, "more than 65536 stages"),
        (LayoutSpec { first: Some(0), ..LayoutSpec::new(7, 2) }, "--decoder-first-pipeline-num-layers is 0"),
        (
            LayoutSpec { last: Some(3), vp: Some(2), ..LayoutSpec::new(7, 2) },
            "--decoder-last-pipeline-num-layers 3 does not divide over --vp 2; nearest that works: 2 or 4",
        ),
        (LayoutSpec { first: Some(2), last: Some(2), ..LayoutSpec::new(7, 2) }, "use --num-layers 4"),
        (
            LayoutSpec { first: Some(3), last: Some(4), ..LayoutSpec::new(7, 4) },
            "2 ranks are left without; nearest that works: --num-layers 9",
        ),
        (
            LayoutSpec { first: Some(2), ..LayoutSpec::new(7, 3) },
            "the ends leave 5 of --num-layers 7, which does not divide over 2 ranks x --vp 1; nearest that works: --num-layers 6 or 8",
        ),
        (
            LayoutSpec { account_for_loss: true, vp: Some(2), ..LayoutSpec::new(8, 2) },
            "--num-layers 8 and 1 for embedding or loss do not divide over 4 stages (--pp 2 x --vp 2); nearest that works: --num-layers 7 or 11",
        ),
        (LayoutSpec { account_for_loss: true, first: Some(2), ..LayoutSpec::new(8, 2) }, "leave one kind out"),
        (
            LayoutSpec { layout: layout("Et|tL"), last: Some(1), ..LayoutSpec::new(2, 2) },
            "--pipeline-layout says where every layer goes",
        ),
        (
            LayoutSpec { layout: layout("Et|t|L"), ..LayoutSpec::new(2, 2) },
            "3 stages do not divide over --pp 2; nearest that works: 2 or 4 stages",
        ),
        (
            LayoutSpec { layout: layout("Et|tL"), vp: Some(2), ..LayoutSpec::new(2, 2) },
            "make 1 chunks per rank, but --vp is 2",
        ),
        (
            LayoutSpec { layout: layout("Et|tL"), ..LayoutSpec::new(3, 2) },
            "has 2 transformer layers (t), but --num-layers is 3",
        ),
        (LayoutSpec { layout: layout("|"), ..LayoutSpec::new(0, 2) }, "no layers; the smallest is `EtL`"),
        (
            LayoutSpec { layout: layout("tt|L"), ..LayoutSpec::new(2, 2) },
            "the first layer is decoder, but must be the embedding",
        ),
        (
            LayoutSpec { layout: layout("Et|t"), ..LayoutSpec::new(2, 2) },
            "the last layer is decoder, but must be the loss",
        ),
        (LayoutSpec { layout: layout("EEt|tL"), ..LayoutSpec::new(2, 2) }, "embedding stands 2 times"),
        (LayoutSpec { layout: layout("EtL|tL"), ..LayoutSpec::new(2, 2) }, "loss stands 2 times"),
        (
            LayoutSpec { layout: layout("Et|tmL"), ..LayoutSpec::new(2, 2) },
            "has 1 MTP layers (m), but --mtp-num-layers is 0",
        ),
        (
            LayoutSpec { layout: layout("Et|mtL"), mtp_layers: Some(1), ..LayoutSpec::new(2, 2) },
            "put every m behind the last t",
        ),
        (LayoutSpec { layout: layout("Ett|m|mL"), mtp_layers: Some(2), ..LayoutSpec::new(2, 3) }, "on several stages"),
        (
            LayoutSpec { layout: layout("Et|m|t|L"), mtp_layers: Some(1), ..LayoutSpec::new(2, 2) },
            "not the last chunk of its rank",
        ),
    ];
    for (spec, part) in cases {
        let error = spec.resolve().expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
        assert!(!error.ends_with('.'), "{error}");
    }
}

#[test]
fn layout_strings_unroll_as_megatrons() {
    for (text, unrolled) in [
        ("Ettt|(tt|)*2,m|L", "Ettt|tt|tt|m|L"),
        ("t*3|t*2", "ttt|tt"),
        ("(tt)*3", "tttttt"),
        ("Et*0|tL", "E|tL"),
        ("Et,t|(t,t|)*2tL", "Ett|tt|tt|tL"),
        ("(t*2|)*2", "tt|tt|"),
        ("(|t)*2", "|t|t"),
        ("E|*3L", "E|||L"),
        ("t*1,0", "tttttttttt"),
        ("t*02", "tt"),
        ("(t)*0", ""),
        ("(tt)*2*3", "tttttt"),
        (",", ""),
    ] {
        let pattern: LayoutPattern = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(pattern.to_string(), unrolled);
        assert_eq!(pattern.n_stages(), unrolled.matches('|').count() + 1);
    }
    let pattern: LayoutPattern = "Et|mL".parse().expect("layout");
    assert_eq!(pattern.rows()[1], [LayerType::Mtp, LayerType::Loss]);
}

#[test]
fn texts_that_are_no_layout_are_refused_where_they_go_wrong() {
    use PatternError::{BareGroup, BareStar, TooLong, Unclosed, UnknownCharacter, Unopened};
    for (text, error) in [
        ("xy(ab|cd)*2,pq", UnknownCharacter { found: 'x', at: 0 }),
        ("Et |L", UnknownCharacter { found: ' ', at: 2 }),
        ("Ex*0tL", UnknownCharacter { found: 'x', at: 1 }),
        ("t3", UnknownCharacter { found: '3', at: 1 }),
        ("é", UnknownCharacter { found: 'é', at: 0 }),
        ("t*٣", UnknownCharacter { found: '٣', at: 2 }),
        ("()*3", BareGroup { at: 0, empty: true }),
        ("(,)*3", BareGroup { at: 0, empty: true }),
        ("E(tt)L", BareGroup { at: 1, empty: false }),
        ("(t)*", BareGroup { at: 0, empty: false }),
        ("(t|", Unclosed { at: 0 }),
        ("((t|)*2|)*2", Unclosed { at: 0 }),
        ("t)*2", Unopened { at: 1 }),
        ("t*|L", BareStar { at: 1, counted: false }),
        ("*3", BareStar { at: 0, counted: true }),
        ("Et*2*3|L", BareStar { at: 4, counted: true }),
        ("t*65537", TooLong { len: 65537 }),
        ("(t|)*99999999999999999999999", TooLong { len: usize::MAX }),
    ] {
        assert_eq!(text.parse::<LayoutPattern>(), Err(error), "{text}");
    }
    assert_eq!(format!("t*{MAX_PATTERN_LEN}").parse::<LayoutPattern>().map(|layout| layout.n_stages()), Ok(1));
}

#[test]
fn lists_of_names_are_layouts_too() {
    let lists = |rows: &[&[&str]]| LayoutPattern::from_names(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>());
    let pattern = lists(&[&["embedding", " Decoder"], &[], &["MTP", "loss "]]).expect("names");
    assert_eq!(pattern.to_string(), "Et||mL");
    assert_eq!(lists(&[&["embedding", "encoder"]]), Err(PatternError::Encoder { stage: 0 }));
    // Lists and strings have one limit.
    let longest: LayoutPattern = format!("L*{MAX_PATTERN_LEN}").parse().expect("just fits");
    let names = vec![vec!["loss"; MAX_PATTERN_LEN]];
    assert_eq!(LayoutPattern::from_names(&names), Ok(longest));
    let error = lists(&[&["embedding"], &["foo"]]).expect_err("no layer").to_string();
    assert_eq!(error, "layout: `foo` on stage 1 is no layer; layers are embedding, decoder, mtp, loss");
}

/// Every small request: refused, or each layer on one stage.
#[test]
fn every_layer_is_covered_exactly_once() {
    let mut accepted = 0;
    let ends = || [None, Some(1), Some(2), Some(3), Some(6)];
    for (n_layers, pp) in (1..=13).flat_map(|n_layers| (1..=5).map(move |pp| (n_layers, pp))) {
        for vp in [None, Some(1), Some(2), Some(3)] {
            for (first, last) in ends().into_iter().flat_map(|first| ends().map(|last| (first, last))) {
                for (account_for_embedding, account_for_loss) in
                    [(false, false), (true, false), (false, true), (true, true)]
                {
                    let counts = LayoutSpec { vp, first, last, ..LayoutSpec::new(n_layers, pp) };
                    let spec = LayoutSpec { account_for_embedding, account_for_loss, ..counts };
                    let Ok(assignment) = spec.resolve() else { continue };
                    let negative = assignment.n().iter().flatten().any(|n| *n < 0);
                    let Ok(layers) = assignment.partition() else {
                        assert!(negative, "{spec:?}");
                        continue;
                    };
                    let placement = assignment.placement();
                    let covered: Vec<u32> =
                        (0..layers.n_stages()).flat_map(|stage| layers.range(Stage(stage))).collect();
                    assert_eq!(covered, (0..n_layers).collect::<Vec<_>>(), "{spec:?}");
                    for stage in (0..layers.n_stages()).map(Stage) {
                        let (rank, chunk) = (placement.rank_of(stage).idx(), placement.chunk_of(stage).idx());
                        assert_eq!(i64::from(layers.range(stage).start), assignment.off()[rank][chunk], "{spec:?}");
                    }
                    accepted += 1;
                }
            }
        }
    }
    assert!(accepted > 500, "{accepted}");
}

#[test]
fn balance_refuses_what_it_cannot_do() {
    let error = balance(&[1; 3], 4, 0, 0).expect_err("too few").to_string();
    assert!(
        error.starts_with("--num-layers 3 cannot give each of 4 stages") && error.contains("--num-layers 4"),
        "{error}"
    );
    assert!(matches!(balance(&[], 0, 0, 0), Err(LayoutError::Zero { .. })));
    assert_eq!(balance(&[u64::MAX, 1], 2, 0, 0), Err(LayoutError::CostsTooLarge));
    assert_eq!(balance(&[u64::MAX - 3, 1, 1], 2, 0, 1), Ok(vec![1, 2]));
    // The largest sizes take no time either.
    assert_eq!(balance(&[0; 4096], 1365, 5, 5).map(|counts| counts.len()), Ok(1365));
    assert_eq!(balance(&[1; 4097], 2, 0, 0), Err(LayoutError::TooManyLayersToBalance { n_layers: 4097 }));
}

#[test]
fn balance_makes_room_for_embedding_and_loss() {
    assert_eq!(balance(&[1; 8], 4, 0, 0), Ok(vec![2, 2, 2, 2]));
    assert_eq!(balance(&[1; 8], 4, 1, 1), Ok(vec![1, 2, 3, 2]));
    assert_eq!(balance(&[2; 10], 4, 2, 4), Ok(vec![2, 3, 3, 2]));
    assert_eq!(balance(&[1; 5], 1, 7, 7), Ok(vec![5]));
    assert_eq!(balance(&[0; 4], 3, 0, 0), Ok(vec![1, 1, 2]));
    let placement = ScheduleConfig::new(&ScheduleSpec::new(2, 2, 4)).expect("valid").placement();
    let layers = LayerPartition::balanced(&[1; 9], 1, 2, placement).expect("fits");
    assert_eq!(layers.counts().collect::<Vec<_>>(), [2, 3, 3, 1]);
}

/// Every way to put layers on stages, none empty.
fn splits(n_layers: usize, n_stages: usize) -> Vec<Vec<u32>> {
    if n_stages == 1 {
        return vec![vec![n_layers as u32]];
    }
    let with_first = |first: usize| {
        let rest = splits(n_layers - first, n_stages - 1);
        rest.into_iter().map(move |rest| [vec![first as u32], rest].concat())
    };
    (1..=n_layers - (n_stages - 1)).flat_map(with_first).collect()
}

/// What `balance` promises to minimise, in turn.
fn merit(split: &[u32], costs: &[u64], embedding: u64, loss: u64) -> (u64, u128, Vec<u32>) {
    let mut start = 0;
    let mut stages: Vec<u64> = Vec::new();
    for count in split {
        let end = start + *count as usize;
        stages.push(costs[start..end].iter().sum());
        start = end;
    }
    stages[0] += embedding;
    *stages.last_mut().expect("a stage") += loss;
    let squares = stages.iter().map(|cost| u128::from(*cost).pow(2)).sum();
    (stages.into_iter().max().unwrap_or(0), squares, split.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::with_cases(512) })]

    #[test]
    fn balance_is_what_brute_force_finds(
        costs in prop_oneof![prop::collection::vec(0..4_u64, 1..=10), prop::collection::vec(0..1_u64 << 40, 1..=9)],
        stages in 1..=6_usize,
        embedding in 0..6_u64,
        loss in 0..6_u64,
    ) {
        let stages = stages.min(costs.len());
        let best = splits(costs.len(), stages).into_iter().min_by_key(|split| merit(split, &costs, embedding, loss));
        prop_assert_eq!(balance(&costs, stages as u32, embedding, loss).ok(), best);
    }

    #[test]
    fn any_text_is_a_layout_or_an_error(text in "[Etml|L()*0-9, ]{0,24}|\\PC{0,12}", pp in 0..5_u32, n_layers in 0..8_u32) {
        if let Ok(pattern) = text.parse::<LayoutPattern>() {
            let written = pattern.to_string();
            prop_assert_eq!(written.parse(), Ok(pattern.clone()));
            let spec = LayoutSpec { layout: Some(pattern), ..LayoutSpec::new(n_layers, pp) };
            if let Ok(assignment) = spec.resolve() {
                prop_assert_eq!(assignment.partition().map(|layers| layers.n_layers()), Ok(n_layers));
            }
        }
    }
}
