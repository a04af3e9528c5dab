//! The demo and the benchmarks of xvswitch, on the rigs of xvs-tests.

mod baseline;
mod bpf;
mod calls;
mod contender;
mod load;
mod report;
mod samples;
mod valgrind;

pub mod compare;
pub mod demo;
pub mod experiments;
pub mod flow_table;
pub mod forward;
pub mod harness;
pub mod instructions;
pub mod kernel_peers;
pub mod offloads;
pub mod peers;
pub mod probe;
pub mod profile;
pub mod scaling;
pub mod sink;
pub mod slow_link;
pub mod source;
pub mod targets;
pub mod xsk;
