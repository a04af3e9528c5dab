//! Meters in real time.

use std::time::{Duration, Instant};

use serde_json::Value;
use xvs_tests::{Result, check, daemon::Daemon, rig::Rig};

use super::{A4, B4, Bench, eth};
use crate::runner::on;

/// For so long more is offered than the meters allow.
const TIME: Duration = Duration::from_secs(10);

/// Packets a second of meter 1.
const PACKETS: f64 = 1000.0;
/// Kilobits a second of meter 2.
const KILOBITS: f64 = 4000.0;

/// A number of a meter.
fn passed(daemon: &Daemon, meter: usize, what: &str) -> Result<u64> {
    let list = daemon.ctl(&["meter", "list"])?;
    let get =
        |name: String| list.pointer(&format!("/meters/{meter}/{name}")).and_then(Value::as_u64);
    Ok(get(what.to_owned()).unwrap_or(0) - get(format!("dropped_{what}")).unwrap_or(0))
}

/// Within 3 % of a rate over ten seconds, in packets and in bytes.
pub(crate) fn meters_hold_their_rates() -> Result<()> {
    on(Rig::pair, |rig| {
        let bench = Bench::new(rig)?;
        let daemon = &bench.daemon;
        for spec in [
            "meter=1,pktps,burst,band=type=drop,rate=1000,burst_size=20",
            "meter=2,kbps,burst,band=type=drop,rate=4000,burst_size=40",
        ] {
            daemon.appctl(&["xvs/meter-add", spec])?;
        }
        let to = |port| format!("in_port(1),eth_type(0x0800),ipv4(proto=17),udp(dst={port})");
        bench.add(&to(1), "meter(1),2")?;
        bench.add(&to(2), "meter(2),2")?;
        let frame = |port| eth().ipv4(A4, B4).udp(9, port).payload_len(958).build();
        let (packets, bytes) = (frame(1), frame(2));
        // Twice the rate of the first, four times that of the second, a few at a time.
        let (start, mut sent) = (Instant::now(), 0_u64);
        while start.elapsed() < TIME {
            let due = u64::try_from(start.elapsed().as_micros()).unwrap_or(0) / 500;
            while sent < due {
                bench.socket.send(&packets)?;
                bench.socket.send(&bytes)?;
                sent += 1;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let took = start.elapsed().as_secs_f64();
        daemon.balanced()?;
        let near = |what, passed: u64, wanted: f64| {
            #[allow(clippy::cast_precision_loss, reason = "below 2^52")]
            let ratio = passed as f64 / wanted;
            check!((0.97..=1.03).contains(&ratio), "{passed} {what} of {wanted:.0}: {ratio:.4}");
            Ok(())
        };
        near("packets", passed(daemon, 0, "packets")?, PACKETS * took)?;
        near("bytes", passed(daemon, 1, "bytes")?, KILOBITS * 125.0 * took)?;
        let came = [passed(daemon, 0, "packets")?, passed(daemon, 1, "packets")?];
        let came = usize::try_from(came.iter().sum::<u64>()).unwrap_or(0);
        bench.arrived(1, came)?;
        bench.finish()
    })
}
