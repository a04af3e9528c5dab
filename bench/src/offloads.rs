//! `./x bench offloads`: TCP between hosts with default offloads, and with all of them off, in turns through
//! the same xvswitch. Whoever needs them off to be fast, or to work, is not finished.

use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use serde_json::{Map, json};
use xvs_tests::{
    Error, Result,
    daemon::{Daemon, Setup},
    iperf::Iperf,
    rig::{C2, Rig},
};

use crate::samples::Samples;

/// Options of the experiment.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How often each is measured.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// How long each stream runs, in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
    /// Write all samples to this file as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Measures and prints.
///
/// # Errors
/// When a rig cannot be made, a stream fails, or packets or frames are unaccounted for.
pub fn run(options: &Options) -> Result<()> {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["TCP in Mbit/s", "default offloads", "offloads off", "ratio"]);
    table.column_iter_mut().skip(1).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    let mut samples = Map::new();
    for mode in ["native", "generic"] {
        let (on, off) = measure(mode, options)?;
        let ratio = on.over(&off);
        table.add_row([mode.to_owned(), on.text(0), off.text(0), ratio.text(2)]);
        let all = json!({"on": on.json(), "off": off.json(), "ratio": ratio.json()});
        samples.insert(mode.to_owned(), all);
    }
    println!("{table}\nmedian (least to most) of {} rounds", options.rounds);
    options.json.as_ref().map_or(Ok(()), |path| {
        let text = json!({"rounds": options.rounds, "mbit_s": samples}).to_string();
        std::fs::write(path, text).map_err(Error::io(format!("write {}", path.display())))
    })
}

/// Both in one mode; who is first alternates.
fn measure(mode: &str, options: &Options) -> Result<(Samples, Samples)> {
    let rig = Rig::pair()?;
    let setup = Setup::new(&rig).each_port(&format!("xdp-mode = \"{mode}\""));
    let daemon = Daemon::start(&rig, &setup)?;
    let (mut on, mut off) = (Samples::default(), Samples::default());
    for round in 0..options.rounds {
        for is_on in [round % 2 == 0, round % 2 == 1] {
            eprintln!("round {} of {}: {mode}", round + 1, options.rounds);
            let word = if is_on { "on" } else { "off" };
            for host in [&rig.c1, &rig.c2] {
                host.run(&format!("ethtool -K e0 tx {word} rx {word} gso {word} tso {word}"))?;
            }
            let tcp = Iperf::run(&rig, C2, options.seconds, &[])?;
            if is_on { on.push(tcp.mbit_s) } else { off.push(tcp.mbit_s) }
        }
    }
    daemon.stop()?;
    Ok((on, off))
}
