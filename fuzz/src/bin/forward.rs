//! `./x fuzz forward`: libFuzzer's door to [`xvs_fuzz::forward()`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| xvs_fuzz::forward(input));
