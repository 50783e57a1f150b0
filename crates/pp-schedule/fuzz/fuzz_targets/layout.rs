//! Any text is a layout or an error; see the README. The first three bytes choose what it is for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pp_schedule::Stage;
use pp_schedule::layout::{LayerType, LayoutPattern, LayoutSpec};

fuzz_target!(|input: ([u8; 3], &str)| {
    let ([pp, vp, mtp], text) = input;
    let Ok(pattern) = text.parse::<LayoutPattern>() else { return };
    assert_eq!(pattern.to_string().parse().as_ref(), Ok(&pattern));
    let names: Vec<Vec<&str>> = pattern.rows().iter().map(|row| row.iter().map(|kind| kind.name()).collect()).collect();
    assert_eq!(LayoutPattern::from_names(&names).as_ref(), Ok(&pattern));

    let n_layers = pattern.count(LayerType::Decoder) as u32;
    let (vp, mtp_layers) = ((vp > 0).then_some(u32::from(vp)), Some(u32::from(mtp)));
    let spec = LayoutSpec { vp, mtp_layers, layout: Some(pattern), ..LayoutSpec::new(n_layers, pp.into()) };
    let Ok(assignment) = spec.resolve() else { return };
    let _ = assignment.check_trainable();
    let layers = assignment.partition().expect("a layout has no negative counts");
    let covered = (0..layers.n_stages()).flat_map(|stage| layers.range(Stage(stage)));
    assert!(covered.eq(0..n_layers));
});
