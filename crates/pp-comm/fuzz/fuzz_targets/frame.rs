//! Any bytes are a frame or an error; see the README.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pp_comm::fuzzing::frame(bytes));
