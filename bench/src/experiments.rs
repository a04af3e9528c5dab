//! `./x bench budget`, `queues`, `stall` and `xmit-batch`: the four published experiments that define the problem,
//! on veth pairs. Each page ends with the published figures and with what differs in the set-up.

mod published;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use serde_json::Value;
use xvs_tests::{
    Error, Result, check, daemon,
    iperf::Iperf,
    ns,
    ping::Ping,
    proc::Proc,
    raw::RawSocket,
    rig::{C1, C1_MAC, C2, C2_MAC, Rig},
};

use crate::contender::{self, OPEN_VSWITCH, Switch, XVSWITCH};
use crate::harness::{self, Arm, Benchmark, Options, Quantity, Row, Target};
use crate::load::HOSTS_CORE;
use crate::sink::Sink;

/// What a socket may hold by default (net.core.wmem_default).
const DEFAULT_SNDBUF: &str = "212992";

/// Runs `xvsbench txonly` on the port towards the second host; its figures, and how many packets a second came out.
fn tx_only(rig: &Rig, words: &[String], length: Duration) -> Result<(Value, f64)> {
    let sink = rig.c2.enter(|| Sink::attach("e0"))?;
    let mut command = rig.dut.command("taskset");
    command.args(["-c", "0"]).arg(daemon::program("xvsbench")?);
    command.args(["txonly", "-i", "v2", "--json", "-d", &length.as_secs().max(1).to_string()]);
    let mut sender = Proc::start(&rig.scratch, "txonly", command.args(words))?;
    let before = sink.count()?.packets;
    let text = sender.finish(length + Duration::from_secs(15))?;
    let wrong = || Error::Output { what: "xvsbench txonly".to_owned(), text: text.clone() };
    let figures: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
    let seconds = number(&figures, "seconds");
    check!(seconds > 0.0, "no figures: {text}");
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    let rate = (sink.count()?.packets - before) as f64 / seconds;
    Ok((figures, rate))
}

fn number(figures: &Value, name: &str) -> f64 {
    figures.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Puts a rig's logs behind an error.
fn on(
    rig: impl Fn() -> Result<Rig>,
    measure: impl Fn(&Rig, Duration) -> Result<Vec<f64>>,
    length: Duration,
) -> Result<Vec<f64>> {
    let rig = rig()?;
    let values = measure(&rig, length);
    values.map_err(|error| Error::Check(format!("{error}\n{}", rig.scratch.logs(20))))
}

/// The kernel's budget for each call, against batch and send buffer.
///
/// # Errors
/// Those of the harness.
pub fn budget(options: &Options) -> Result<()> {
    let name = |budget: &str, batch: &str, sndbuf: &str| {
        format!("budget {budget}, batch {batch}, send buffer {sndbuf}")
    };
    let mut arms = Vec::new();
    for budget in ["32", "128", "256", "512"] {
        for batch in ["32", "256"] {
            for sndbuf in [DEFAULT_SNDBUF, "auto"] {
                let mut line = words(&["-N", "--tx-budget", budget, "-b", batch]);
                if sndbuf != "auto" {
                    line.extend(words(&["--sndbuf", sndbuf]));
                }
                let measure = move |rig: &Rig, length: Duration| {
                    let (figures, rate) = tx_only(rig, &line, length)?;
                    let seconds = number(&figures, "seconds");
                    let failed = ["eagain", "ebusy", "errors"].map(|name| number(&figures, name));
                    Ok(vec![
                        rate / 1e3,
                        number(&figures, "calls") / seconds,
                        failed.iter().sum::<f64>() / seconds,
                        number(&figures, "packets_per_call"),
                        number(&figures, "percent_in_calls"),
                    ])
                };
                arms.push(Arm::new(name(budget, batch, sndbuf), move |length| {
                    on(Rig::pair, &measure, length)
                }));
            }
        }
    }
    let default = name("32", "256", DEFAULT_SNDBUF);
    let ours = name("256", "256", "auto");
    let row = Row {
        key: "budget".to_owned(),
        title: "64-byte packets sent, native mode".to_owned(),
        arms,
        quantities: vec![
            Quantity::new("sent", "kpps", [Target::at_least(&ours, 1.0).times(&default)]),
            Quantity::new("calls", "1/s", []),
            Quantity::new(
                "failed calls",
                "1/s",
                [Target::at_most(&ours, 1.0 / 30.0).times(&default)],
            ),
            Quantity::new("packets per call", "", []),
            Quantity::new("time in calls", "%", []),
        ],
    };
    let title = "The kernel's tx budget";
    let rows = vec![row];
    harness::run(
        Benchmark {
            name: "budget",
            title,
            rounds: 7,
            rows,
            figures: Vec::new(),
            notes: published::BUDGET,
        },
        options,
    )
}

/// The same measurement through two threads with a transmit queue each, and through two that share one.
fn owned_and_shared(measure: fn(&Rig, Duration) -> Result<Vec<f64>>) -> Vec<Arm> {
    let arm = |name: &str, rig: fn() -> Result<Rig>| {
        let switch = contender::xvswitch(name, |_, setup| {
            Ok(setup.pmd("cpu-mask = \"0x3\"\nsleep-max-us = 200"))
        });
        Arm::new(name, move |length| {
            let run = |rig: &Rig, length| {
                let _switch = switch.start(rig)?;
                rig.wait_forwarding(Duration::from_secs(10))?;
                measure(rig, length)
            };
            on(rig, run, length)
        })
    };
    vec![arm("owned", Rig::multi_queue), arm("shared", Rig::pair)]
}

/// Two threads with a transmit queue each, and two that share one under a lock.
///
/// # Errors
/// Those of the harness.
pub fn queues(options: &Options) -> Result<()> {
    const SIZES: [u32; 4] = [64, 128, 512, 1024];
    const REQUESTS: [usize; 3] = [1, 128, 512];
    let directions = [("to c2", false), ("to c1", true)];
    let target = || [Target::at_least("owned", 0.9).times("shared")];
    let quantities = |sizes: &[u32], what: &str, unit| {
        let each = sizes.iter().flat_map(|size| directions.map(|(to, _)| (size, to)));
        each.map(|(size, to)| Quantity::new(format!("{what} of {size} bytes {to}"), unit, target()))
            .collect()
    };
    let stream = |rig: &Rig, length: Duration| {
        let mut values = Vec::new();
        for size in SIZES {
            for reverse in [&[][..], &["-R"]] {
                let size = size.to_string();
                let seconds = u32::try_from(length.as_secs()).unwrap_or(1).max(1);
                let words = [&["-l", &size][..], reverse].concat();
                values.push(Iperf::run(rig, C2, seconds, &words)?.mbit_s);
            }
        }
        Ok(values)
    };
    let requests = |rig: &Rig, length: Duration| {
        let mut values = Vec::new();
        for size in REQUESTS {
            values.push(transactions(rig, (false, size), length)?);
            values.push(transactions(rig, (true, size), length)?);
        }
        Ok(values)
    };
    let rows = vec![
        Row {
            key: "stream".to_owned(),
            title: "TCP, writes of so many bytes".to_owned(),
            arms: owned_and_shared(stream),
            quantities: quantities(&SIZES, "writes", "Mbit/s"),
        },
        Row {
            key: "request".to_owned(),
            title: "Requests that wait for their responses".to_owned(),
            arms: owned_and_shared(requests),
            quantities: quantities(
                &REQUESTS.map(|n| u32::try_from(n).unwrap_or(0)),
                "requests",
                "1/s",
            ),
        },
    ];
    let title = "More threads than transmit queues";
    harness::run(
        Benchmark {
            name: "queues",
            title,
            rounds: 7,
            rows,
            figures: Vec::new(),
            notes: published::QUEUES,
        },
        options,
    )
}

/// Requests of so many bytes that got their responses in a second, from the first host or to it.
fn transactions(rig: &Rig, (to_c1, size): (bool, usize), length: Duration) -> Result<f64> {
    const PORT: u16 = 7100;
    let (client, server, address) =
        if to_c1 { (&rig.c2, &rig.c1, C1) } else { (&rig.c1, &rig.c2, C2) };
    let socket = server.enter(|| UdpSocket::bind(("0.0.0.0", PORT)).map_err(Error::io("bind")))?;
    let wait = Some(Duration::from_millis(100));
    socket.set_read_timeout(wait).map_err(Error::io("set a timeout"))?;
    let end = Instant::now() + length + Duration::from_millis(500);
    let serving = std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while Instant::now() < end {
            if let Ok((n, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(buffer.get(..n).unwrap_or_default(), from);
            }
        }
        Ok(())
    });
    let socket = client.enter(|| UdpSocket::bind("0.0.0.0:0").map_err(Error::io("bind")))?;
    socket.connect((address, PORT)).map_err(Error::io("connect"))?;
    socket.set_read_timeout(wait).map_err(Error::io("set a timeout"))?;
    let (start, mut n, mut buffer) = (Instant::now(), 0_u32, [0; 2048]);
    let request = vec![7; size];
    while start.elapsed() < length {
        socket.send(&request).map_err(Error::io("send a request"))?;
        n += u32::from(socket.recv(&mut buffer).is_ok());
    }
    let rate = f64::from(n) / start.elapsed().as_secs_f64();
    ns::join(serving)?;
    Ok(rate)
}

/// TCP between two ports, second by second, for values that stall others.
///
/// # Errors
/// Those of the harness.
pub fn stall(options: &Options) -> Result<()> {
    let settings = |batch: u32, lines: &'static str| {
        let name = format!("{XVSWITCH}, batch {batch}, {}", lines.replace('\n', ", "));
        contender::xvswitch(&name, move |_, setup| {
            let pmd = format!("cpu-mask = \"0x1\"\nbatch-size = {batch}");
            Ok(setup.pmd(&pmd).each_port(lines))
        })
    };
    let ours = || {
        [
            contender::xvswitch(XVSWITCH, |_, setup| Ok(setup)),
            settings(32, "tx-budget = 32\nsndbuf = 212992"),
            settings(256, "tx-budget = 32\nsndbuf = 212992"),
            settings(256, "tx-budget = 32\nsndbuf = 16384"),
            settings(256, "tx-budget = 512\nsndbuf = 16384"),
        ]
    };
    let theirs = || contender::all().into_iter().filter(|one| one.name == OPEN_VSWITCH);
    let row = |key: &str, title: &str, rig: fn() -> Result<Rig>| {
        let contenders: Vec<_> = ours().into_iter().chain(theirs()).collect();
        let targets = |most: f64| -> Vec<Target> {
            ours().iter().map(|one| Target::at_most(&one.name, most)).collect()
        };
        let arm = |contender: contender::Contender| {
            let (name, needs) = (contender.name.clone(), contender.needs);
            Arm::new(name, move |length| {
                let run = |rig: &Rig, length| {
                    let switch = contender.start(rig)?;
                    rig.wait_forwarding(Duration::from_secs(10))?;
                    stream_with_ping(rig, &switch, length)
                };
                on(rig, run, length)
            })
            .needs(needs)
        };
        Row {
            key: key.to_owned(),
            title: title.to_owned(),
            quantities: vec![
                Quantity::new("TCP", "Mbit/s", []),
                Quantity::new("slowest second", "Mbit/s", []),
                Quantity::new("seconds without a byte", "", targets(0.0)),
                Quantity::new("pings lost beside it, neighbours forgotten", "%", targets(0.0)),
            ],
            arms: contenders.into_iter().map(arm).collect(),
        }
    };
    let rows = vec![
        row("pair", "TCP between two veth pairs", Rig::pair),
        row("slow-link", "TCP into a link of 100 Mbit/s", Rig::slow_link),
    ];
    let title = "iperf between two afxdp ports";
    harness::run(
        Benchmark {
            name: "stall",
            title,
            rounds: 3,
            rows,
            figures: Vec::new(),
            notes: published::STALL,
        },
        options,
    )
}

/// TCP for three times the time, with a ping beside it whose neighbours are forgotten meanwhile.
#[allow(clippy::cast_precision_loss, reason = "a few seconds")]
fn stream_with_ping(rig: &Rig, _switch: &Switch, length: Duration) -> Result<Vec<f64>> {
    let seconds = u32::try_from(length.as_secs()).unwrap_or(1).max(1) * 3;
    let stream = Iperf::start(rig, C2, seconds, &[])?;
    std::thread::sleep(Duration::from_secs(1));
    for host in [&rig.c1, &rig.c2] {
        host.ip("neigh flush dev e0")?;
    }
    let count = seconds.saturating_sub(2) * 20;
    let ping = Ping::new(&rig.c1, C2).count(count.max(10)).interval_s(0.05).run(&rig.scratch)?;
    let stream = stream.finish()?;
    let least = stream.seconds_mbit_s.iter().copied().fold(f64::INFINITY, f64::min);
    let still = stream.seconds_mbit_s.iter().filter(|&&rate| rate <= 0.0).count();
    let lost = f64::from(ping.lost()) * 100.0 / f64::from(count.max(10));
    Ok(vec![stream.mbit_s, if least.is_finite() { least } else { 0.0 }, still as f64, lost])
}

/// One packet for each call or many, alone and beside somebody who uses the same device.
///
/// # Errors
/// Those of the harness.
pub fn xmit_batch(options: &Options) -> Result<()> {
    let row = |mode: &'static str, key: &str| {
        let mut arms = Vec::new();
        for (company, is_alone) in [("alone", true), ("competing", false)] {
            for (name, batch) in [("single", "1"), ("batched", "32")] {
                let measure = move |rig: &Rig, length: Duration| {
                    let rival = if is_alone { None } else { Some(Rival::start(rig, length)?) };
                    let (figures, _) = tx_only(rig, &words(&[mode, "-b", batch]), length)?;
                    rival.map_or(Ok(()), Rival::stop)?;
                    let seconds = number(&figures, "seconds");
                    Ok(vec![
                        number(&figures, "sent") / seconds / 1e3,
                        number(&figures, "p50_us"),
                        number(&figures, "p99_us"),
                        number(&figures, "packets_per_call"),
                    ])
                };
                arms.push(Arm::new(format!("{company}, {name}"), move |length| {
                    on(Rig::pair, measure, length)
                }));
            }
        }
        let batched = |company: &str| {
            Target::at_least(format!("{company}, batched"), 1.0).times(format!("{company}, single"))
        };
        Row {
            key: key.to_owned(),
            title: format!("64-byte packets sent, {key} mode"),
            arms,
            quantities: vec![
                Quantity::new("sent", "kpps", [batched("alone"), batched("competing")]),
                Quantity::new("until the last of a batch is taken, p50", "µs", []),
                Quantity::new("until the last of a batch is taken, p99", "µs", []),
                Quantity::new("packets per call", "", []),
            ],
        }
    };
    let rows = vec![row("-S", "generic"), row("-N", "native")];
    let title = "Packets sent one by one and in batches";
    harness::run(
        Benchmark {
            name: "xmit-batch",
            title,
            rounds: 7,
            rows,
            figures: Vec::new(),
            notes: published::XMIT_BATCH,
        },
        options,
    )
}

/// Somebody else who sends out of the same device from the other core.
struct Rival(std::thread::JoinHandle<Result<()>>);

impl Rival {
    fn start(rig: &Rig, length: Duration) -> Result<Self> {
        let socket = rig.dut.enter(|| RawSocket::open("v2"))?;
        let frame = xvs_tests::frame::ethernet(C2_MAC, C1_MAC, 0x88b5, &[0; 50]);
        let end = Instant::now() + length + Duration::from_secs(1);
        let core: usize = HOSTS_CORE.parse().unwrap_or(1);
        Ok(Self(std::thread::spawn(move || {
            let mut cores = nix::sched::CpuSet::new();
            cores.set(core).map_err(Error::io("choose a core"))?;
            let this = nix::unistd::Pid::from_raw(0);
            nix::sched::sched_setaffinity(this, &cores).map_err(Error::io("move to a core"))?;
            while Instant::now() < end {
                for _ in 0..64 {
                    socket.send(&frame)?;
                }
            }
            Ok(())
        })))
    }

    fn stop(self) -> Result<()> {
        ns::join(self.0)
    }
}
