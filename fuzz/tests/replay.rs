//! The tracked corpus of each fuzz target, run as the engine runs it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

/// Runs each file below `corpus/` and this name; a failure names the file.
fn replay(target: &str, run: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 100, "{target}: the corpus has {} inputs only", files.len());
    for file in files {
        let input = fs::read(&file).unwrap();
        let done = std::panic::catch_unwind(|| run(&input));
        assert!(done.is_ok(), "{}", file.display());
    }
}

#[test]
fn packets_and_frames_of_the_forward_corpus_balance() {
    replay("forward", xvs_fuzz::forward);
}

#[test]
fn what_the_text_corpus_prints_reads_back_the_same() {
    replay("text", xvs_fuzz::text);
}
