//! The demo and the benchmarks of xvswitch, on the rigs of xvs-tests.

mod bpf;
mod contender;
mod samples;

pub mod compare;
pub mod demo;
pub mod forward;
pub mod peers;
pub mod sink;
pub mod source;
