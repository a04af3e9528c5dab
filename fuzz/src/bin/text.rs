//! `./x fuzz text`: libFuzzer's door to [`xvs_fuzz::text()`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| xvs_fuzz::text(input));
