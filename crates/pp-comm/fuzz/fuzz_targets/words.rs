//! Any payload is what it should be or an error; see the README.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pp_comm::fuzzing::{reports, verdicts, words};

fuzz_target!(|bytes: &[u8]| {
    words(bytes);
    reports(bytes);
    verdicts(bytes);
});
