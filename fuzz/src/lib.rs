//! What no input may break: the bodies of the fuzz targets, which `./x fuzz` drives with libFuzzer and
//! `tests/replay.rs` with the tracked corpus.
//!
//! [`forward()`] takes packets from receive rings through parser, caches, rules and actions into transmit rings,
//! and holds both ledgers: every packet ends in one counted outcome, every frame is in one place.
//! [`text()`] reads commands, flows, rules and configurations, and holds printing to be the inverse of reading.

mod forward;
mod input;
mod text;

pub use forward::forward;
pub use text::text;
