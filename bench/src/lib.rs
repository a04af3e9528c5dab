//! The demo and the benchmarks of xvswitch, on the rigs of xvs-tests.

pub mod demo;
pub mod peers;
