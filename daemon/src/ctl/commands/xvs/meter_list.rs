//! `xvs/meter-list`: the meters and what they dropped.

use core::fmt;

use serde::Serialize;
use xvs_datapath::{MeterRow, MeterUnit};

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "xvs/meter-list",
    usage: "",
    about: "Show the meters with their rates, and what they let pass and dropped.",
    min_args: 0,
    max_args: 0,
    run,
};

#[derive(Serialize)]
struct Meter {
    meter: u32,
    unit: &'static str,
    rate: u32,
    burst_size: u32,
    packets: u64,
    bytes: u64,
    dropped_packets: u64,
    dropped_bytes: u64,
}

#[derive(Serialize)]
struct Meters {
    meters: Vec<Meter>,
}

impl Text for Meters {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.meters.iter().try_for_each(|meter| {
            let Meter { meter: id, unit, rate, burst_size, packets, bytes, .. } = meter;
            let (n_dropped, n_bytes) = (meter.dropped_packets, meter.dropped_bytes);
            write!(out, "meter={id} {unit} burst stats bands=type=drop rate={rate} ")?;
            write!(
                out,
                "burst_size={burst_size} packet_in_count:{packets} byte_in_count:{bytes} "
            )?;
            writeln!(out, "dropped packet_count:{n_dropped} byte_count:{n_bytes}")
        })
    }
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    let meter = |MeterRow { id, config, stats }| Meter {
        meter: id,
        unit: match config.unit {
            MeterUnit::Packets => "pktps",
            MeterUnit::Kilobits => "kbps",
        },
        rate: config.rate,
        burst_size: config.burst,
        packets: stats.packets,
        bytes: stats.bytes,
        dropped_packets: stats.dropped_packets,
        dropped_bytes: stats.dropped_bytes,
    };
    Ok(Box::new(Meters { meters: context.control.meters().into_iter().map(meter).collect() }))
}
