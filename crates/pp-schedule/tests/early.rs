//! Computations that stand before one of their own rank that they need.

use pp_schedule::OrderError;
use pp_schedule::format::csv::{Grid, GridError};

#[test]
fn a_computation_before_one_that_it_needs_is_named_with_it() {
    for (text, says) in [
        ("0B0,0F0\n", "rank 0: 0B0 stands before its forward 0F0"),
        ("0F1,0F0,0B1,0I0,0W0\n", ""),
        ("0I0,0F0,0W0\n", "rank 0: 0I0 stands before its forward 0F0"),
        ("0F0,0W0,0I0\n", "rank 0: 0W0 stands before its backward for the input 0I0"),
        ("0W0,0I0,0F0\n", "rank 0: 0W0 stands before its backward for the input 0I0"),
        ("0F0,0B0\n1F0,1F1,1B1,1B0\n", "forwards"),
        // Chunks: in a loop on one rank, in a loop and in a V on two.
        ("1F0,0F0,1B0,0B0\n", "rank 0: 1F0 stands before 0F0, the forward of an earlier stage"),
        ("0F0,1F0,0B0,1B0\n", "rank 0: 0B0 stands before 1B0, the backward of a later stage"),
        ("0F0,1F0,0I0,0W0,1I0,1W0\n", "rank 0: 0I0 stands before 1I0, the backward of a later stage"),
        ("0F0,1F0,0I0,1B0,0W0\n", "rank 0: 0I0 stands before 1B0, the backward of a later stage"),
        ("0F0,1F0,1I0,0B0,1W0\n", ""),
        ("0F0,2F0\n3F0,1F0\n", "rank 1: 3F0 stands before 1F0, the forward of an earlier stage"),
        ("0F0,3F0\n2F0,1F0\n", "rank 1: 2F0 stands before 1F0, the forward of an earlier stage"),
        ("0F0,3F0\n1F0,2F0\n", ""),
    ] {
        let order = Grid::parse(text).expect("cells").to_order();
        match order {
            Ok(_) => assert_eq!(says, "", "{text}"),
            Err(error) => {
                assert!(!says.is_empty() && error.to_string().contains(says), "{text}: {error}");
                let early = matches!(error, GridError::Order(OrderError::Early { .. }));
                assert!(early || says == "forwards", "{text}: {error}");
            }
        }
    }
}
