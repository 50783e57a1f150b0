//! What a place says.

use super::*;

#[test]
fn a_place_names_the_file_and_line_of_the_program_under_test() {
    let text = Place::here().to_string();
    let line = line!() - 1;
    assert!(text.starts_with("at "), "{text}");
    assert!(text.contains(&format!("tests.rs:{line}:")), "{text}");
}

#[test]
fn what_the_program_under_test_calls_is_left_out() {
    let printed = "   0: cuda_emulator::driver::enqueue\n             at ./src/driver.rs:1:1\n   1: cuMemsetD8Async\n   \
                   2: <cudarc::driver::CudaStream as X>::f\n             at /c/core.rs:3:4\n   3: my_test::cuts_it\n      \
                            at ./tests/my.rs:10:5\n   4: core::ops::function::FnOnce::call_once\n";
    let own: Vec<_> = frames(printed).into_iter().filter(|f| !f.is_below() && !f.is_runtime()).collect();
    assert_eq!(own, [Frame { function: "my_test::cuts_it".to_owned(), file: Some("./tests/my.rs:10:5".to_owned()) }]);
}
