//! Meshes: coordinates, groups, and how they are printed.

use std::collections::BTreeMap;

use pp_comm::Group;
use pp_comm::mesh::{Axis, Coordinates, MAX_RANKS, Mesh, MeshError};
use pp_schedule::{Placement, Rank};

use crate::random::Random;

/// Random meshes of up to some hundred ranks.
fn meshes() -> impl Iterator<Item = Mesh> {
    let mut random = Random::new(7);
    (0..60).map(move |_| {
        let [tp, dp, pp] = std::array::from_fn(|_| 1 + random.below(8) as u32);
        Mesh::new(tp, dp, pp).expect("sizes of at least 1")
    })
}

#[test]
fn ranks_and_coordinates_lead_to_each_other() {
    for mesh in meshes() {
        let (tp, dp, pp) = (mesh.tp(), mesh.dp(), mesh.pp());
        let mut expected = 0;
        for at in (0..pp).flat_map(|pp| (0..dp).flat_map(move |dp| (0..tp).map(move |tp| Coordinates { tp, dp, pp }))) {
            // Megatron's default order: tp is the fastest, pp the slowest.
            assert_eq!(mesh.rank(at), Some(Rank(expected)), "{mesh:?}");
            assert_eq!(mesh.coordinates(Rank(expected)), Some(at), "{mesh:?}");
            expected += 1;
        }
        assert_eq!(mesh.n_ranks(), expected);
        assert_eq!(mesh.coordinates(Rank(expected)), None);
        for at in [Coordinates { tp, dp: 0, pp: 0 }, Coordinates { tp: 0, dp, pp: 0 }, Coordinates { tp: 0, dp: 0, pp }]
        {
            assert_eq!(mesh.rank(at), None);
        }
    }
}

/// Which coordinates vary within a group of an axis.
fn varies(axis: Axis) -> [bool; 3] {
    match axis {
        Axis::All => [true; 3],
        Axis::Tensor => [true, false, false],
        Axis::Data => [false, true, false],
        Axis::Pipeline | Axis::Embedding => [false, false, true],
        Axis::Model => [true, false, true],
    }
}

#[test]
fn groups_part_the_ranks_and_have_numbers_of_their_own() {
    for mesh in meshes() {
        let mut by_id: BTreeMap<u32, Vec<Rank>> = BTreeMap::new();
        for rank in (0..mesh.n_ranks()).map(Rank) {
            let mut axes = Vec::new();
            for (axis, group) in mesh.groups_of(rank) {
                axes.push(axis);
                assert_eq!((group.me(), group.rank(group.place())), (rank, Some(rank)));
                // All of a group see the same group, and no other group has its number.
                let ranks = by_id.entry(group.id()).or_insert_with(|| group.ranks().to_vec());
                assert_eq!(ranks, group.ranks(), "{mesh:?}, {axis:?}");
                let of = |rank: Rank| mesh.coordinates(rank).map(|at| [at.tp, at.dp, at.pp]).expect("a rank");
                for (index, varies) in varies(axis).into_iter().enumerate() {
                    assert!(varies || group.ranks().iter().all(|&other| of(other)[index] == of(rank)[index]));
                }
            }
            let is_end = [0, mesh.pp() - 1].contains(&mesh.coordinates(rank).expect("a rank").pp);
            assert_eq!(axes, if is_end { &Axis::ALL[..] } else { &Axis::ALL[..5] });
        }
        assert_eq!(by_id[&0].len(), mesh.n_ranks() as usize);
        let n_groups: u32 = Axis::ALL.into_iter().map(|axis| mesh.n_groups(axis)).sum();
        assert_eq!(by_id.len(), n_groups as usize);
        for axis in Axis::ALL.into_iter().filter(|&axis| axis != Axis::Embedding) {
            let mut ranks: Vec<Rank> = mesh.memberships(axis).flatten().collect();
            ranks.sort_unstable();
            assert_eq!(ranks, (0..mesh.n_ranks()).map(Rank).collect::<Vec<_>>(), "{mesh:?}, {axis:?}");
        }
    }
}

#[test]
fn the_embedding_is_where_the_first_and_the_last_stage_are() {
    let mesh = Mesh::new(2, 1, 4).expect("a small mesh");
    let ranks = |mesh: Mesh, rank| mesh.group(Axis::Embedding, Rank(rank)).map(|group: Group| group.ranks().to_vec());
    assert_eq!(ranks(mesh, 1), Some(vec![Rank(1), Rank(7)]));
    assert_eq!(ranks(mesh, 3), None);
    // In a V both are on the first rank; in a W the last stage is on the last rank again.
    let v = mesh.with_placement(Placement::v(4)).expect("over four ranks");
    assert_eq!((ranks(v, 1), ranks(v, 7)), (Some(vec![Rank(1)]), None));
    let looped = v.with_placement(Placement::looped(4, 3)).expect("over four ranks");
    assert_eq!(ranks(looped, 7), Some(vec![Rank(1), Rank(7)]));
    assert_eq!(mesh.with_placement(Placement::v(2)), Err(MeshError::Placement { pp: 4, placed: 2 }));
    let alone = Mesh::new(1, 1, 1).expect("a rank");
    assert_eq!(ranks(alone, 0), Some(vec![Rank(0)]));
}

#[test]
fn sizes_that_make_no_mesh_are_errors_that_name_what_works() {
    for (tp, dp, pp) in [(0, 1, 1), (1, 0, 1), (1, 1, 0)] {
        assert_eq!(Mesh::new(tp, dp, pp), Err(MeshError::Zero { tp, dp, pp }));
    }
    assert!(Mesh::new(1, MAX_RANKS, 1).is_ok());
    for (tp, dp, pp) in [(1, MAX_RANKS, 2), (u32::MAX, u32::MAX, u32::MAX), (1 << 16, 1 << 16, 1)] {
        let error = Mesh::new(tp, dp, pp).expect_err("too many");
        let n_ranks = u128::from(tp) * u128::from(dp) * u128::from(pp);
        assert!(error.to_string().contains(&format!("has {n_ranks} ranks")), "{error}");
    }
    let mesh = Mesh::new(2, 2, 3).expect("a small mesh");
    assert_eq!(mesh.check_world(12), Ok(()));
    let advice = [
        (18, "use --dp 3, or start 12 ranks"),
        (16, "start 12 ranks, or use --dp 3 on 18 ranks"),
        (7, "start 12 ranks, or use --dp 1 on 6 ranks"),
        (1, "start 12 ranks, or use --dp 1 on 6 ranks"),
        (0, "start 12 ranks, or use --dp 1 on 6 ranks"),
        (45, "start 12 ranks, or use --dp 7 on 42 ranks or --dp 8 on 48 ranks"),
    ];
    for (n_ranks, advice) in advice {
        let text = mesh.check_world(n_ranks).expect_err("not 12").to_string();
        let there = if n_ranks == 1 { "1 rank is".to_owned() } else { format!("{n_ranks} ranks are") };
        assert_eq!(text, format!("{there} there, but --tp 2 x --dp 2 x --pp 3 needs 12; {advice}"));
    }
    let one = Mesh::new(1, 1, 1).expect("a small mesh").check_world(2).expect_err("not 1").to_string();
    assert!(one.ends_with("needs 1; use --dp 2, or start 1 rank"), "{one}");
    // No more than there may be.
    let text = |n_ranks| Mesh::new(1, 2, 3).expect("small").check_world(n_ranks).expect_err("not 6").to_string();
    assert!(text(u32::MAX).ends_with("start 6 ranks, or use --dp 349525 on 1048575 ranks"), "{}", text(u32::MAX));
    assert!(text(MAX_RANKS).ends_with("start 6 ranks, or use --dp 349525 on 1048575 ranks"), "{}", text(MAX_RANKS));
}

#[test]
fn a_mesh_is_printed_whole_up_to_eight_each_way_and_in_short_beyond() {
    let text = |tp, dp, pp| Mesh::new(tp, dp, pp).expect("a mesh").to_string();
    let small = "\
2 ranks: tp 1 x dp 1 x pp 2, rank = tp + 1 * (dp + 1 * pp)
        dp 0
pp 0 |     0
pp 1 |     1
tensor    (2 groups of 1): 0 | 1
data      (2 groups of 1): 0 | 1
pipeline  (1 group of 2): 0 1
model     (1 group of 2): 0 1
embedding (1 group of 2): 0 1
";
    assert_eq!(text(1, 1, 2), small);
    let large = text(8, 8, 8);
    assert!(large.contains("pp 7 |  448-455  456-463"), "{large}");
    assert!(large.contains("pipeline  (64 groups of 8): 0,64..448 | 1,65..449"), "{large}");
    assert!(large.contains(" 63,127..511\n"), "{large}");
    let beyond = text(1, 1000, 20);
    assert!(
        beyond.contains("dp 0   dp 1  ..  dp 999") && beyond.contains("pp 19 |  19000  19001  ..   19999"),
        "{beyond}"
    );
    assert!(beyond.contains("pipeline  (1000 groups of 20): 0,1000..19000 | 1,1001..19001 | .. | 999,1999..19999"));
    for text in [large, beyond] {
        assert!(text.lines().all(|line| line.len() <= 104), "{text}");
    }
}
