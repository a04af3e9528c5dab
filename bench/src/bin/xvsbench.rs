//! `xvsbench`: demo, benchmarks and their parts, and removal of what killed runs left. Started by `./x`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xvs_bench::{
    compare, demo, experiments, flow_table, forward, harness, instructions, offloads, probe,
    profile, scaling, sink, slow_link, source, targets, xsk,
};
use xvs_tests::{Result, clean};

/// Demo and benchmarks of xvswitch. Everything happens in network namespaces made for it.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Forward ping, TCP and UDP between two hosts and show figures.
    Demo(demo::Options),
    /// Measure the table of targets: xvswitch and its peers in turns; unattended, goes on where it stopped.
    All(harness::Options),
    /// Throughput, start-up time and memory against flows, subtables, rules, sizes, ports, threads and batches.
    Scaling(harness::Options),
    /// The kernel's tx budget against batch and send buffer.
    Budget(harness::Options),
    /// Transmit queues owned by threads, and shared under a lock.
    Queues(harness::Options),
    /// TCP second by second for values that stall others.
    Stall(harness::Options),
    /// Packets sent one by one and in batches, alone and competing.
    XmitBatch(harness::Options),
    /// Send packets from an AF_XDP socket, as many as it can.
    Txonly(xsk::Options),
    /// Take packets from an AF_XDP socket and drop them.
    Rxdrop(xsk::Options),
    /// Send back what comes to an AF_XDP socket.
    L2fwd(xsk::Options),
    /// Where the time of a packet goes: kernel receive, user space, kernel transmit; sampled by perf.
    Profile(harness::Options),
    /// Measure xvswitch, Open vSwitch, a bare forwarder and the Linux bridge in turns on the same core.
    Compare(compare::Options),
    /// Overload a slow link between xvswitch's ports, and Open vSwitch's: ping, TCP and system calls.
    SlowLink(slow_link::Options),
    /// TCP between hosts with default offloads and with all of them off, in turns.
    Offloads(offloads::Options),
    /// Count the instructions that a packet costs in user space, by valgrind; the same on every machine.
    Instructions(instructions::Options),
    /// Run rounds over packets in memory: what `instructions` counts.
    Rounds(instructions::Rounds),
    /// The flow table's figures beside their goals: instructions, nanoseconds, misses, memory, dumps.
    FlowTable(flow_table::Options),
    /// Run a part of them: what `flow-table` has valgrind look at.
    FlowTablePart(flow_table::Run),
    /// Move packets between two interfaces and do nothing else, until a signal comes.
    Forward(forward::Options),
    /// Send UDP packets out of an interface until a signal comes, millions in a second.
    Source(source::Options),
    /// Count the source's packets on an interface and drop them, until a signal comes.
    Sink(sink::Options),
    /// Send requests to `echo` when they are due and print the round trips in nanoseconds.
    Probe(probe::Options),
    /// Send UDP packets back until a signal comes.
    Echo,
    /// Remove namespaces and temporary files of runs that were killed.
    Clean,
}

fn main() -> ExitCode {
    let outcome = clean::on_signal().and_then(|()| run(&Cli::parse().command));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xvsbench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Demo(options) => demo::run(options),
        Command::All(options) => targets::run(options),
        Command::Scaling(options) => scaling::run(options),
        Command::Budget(options) => experiments::budget(options),
        Command::Queues(options) => experiments::queues(options),
        Command::Stall(options) => experiments::stall(options),
        Command::XmitBatch(options) => experiments::xmit_batch(options),
        Command::Txonly(options) => xsk::run(options, xsk::Work::TxOnly),
        Command::Rxdrop(options) => xsk::run(options, xsk::Work::RxDrop),
        Command::L2fwd(options) => xsk::run(options, xsk::Work::L2Fwd),
        Command::Profile(options) => profile::run(options),
        Command::Compare(options) => compare::run(options),
        Command::SlowLink(options) => slow_link::run(options),
        Command::Offloads(options) => offloads::run(options),
        Command::Instructions(options) => instructions::run(options),
        Command::Rounds(rounds) => rounds.run(),
        Command::FlowTable(options) => flow_table::run(options),
        Command::FlowTablePart(part) => part.run(),
        Command::Forward(options) => forward::run(options),
        Command::Source(options) => source::run(options),
        Command::Sink(options) => sink::run(options),
        Command::Probe(options) => probe::run(options),
        Command::Echo => probe::echo(),
        Command::Clean => {
            for name in clean::leftovers() {
                println!("removed {name}");
            }
            Ok(())
        }
    }
}
