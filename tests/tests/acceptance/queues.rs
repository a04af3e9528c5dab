//! Queues, threads and the values in force: who sends and receives where, and what is said of it.

use std::time::Duration;

use serde_json::Value;
use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    iperf::Iperf,
    ns::{self, Netns},
    ping::Ping,
    proc,
    rig::{C1, C2, Rig},
    udp::{Flow, Receiver},
};

use crate::{configuration::says, number, runner::on, transmit::undisturbed};

/// The warnings of a port, joined.
fn warnings(port: &Value) -> String {
    let warnings = port.pointer("/warnings").and_then(Value::as_array);
    warnings.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

/// A batch above the budget and a send buffer below one call are named with their remedies, in the log and
/// in `port show`; after the remedies nothing is said. Traffic goes on either way.
pub(crate) fn values_that_do_not_fit_are_warned_of() -> Result<()> {
    on(Rig::pair, |rig| {
        let batch = "cpu-mask = \"0x1\"\nsleep-max-us = 200\nbatch-size = 128";
        let bad = Setup::new(rig).pmd(batch).each_port("tx-budget = 32\nsndbuf = 16384");
        let mut daemon = Daemon::start(rig, &bad)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        // 32 packets of the MTU, each charged 2304 bytes.
        let remedies = ["set tx-budget to 256 or \"auto\"", "set sndbuf to at least 73728"];
        let log = daemon.proc().stdout() + &daemon.proc().stderr();
        says(&log, &remedies)?;
        says(&log, &["port v1: ", "port v2: "])?;
        let port = daemon.port("v2")?;
        says(&warnings(&port), &remedies)?;
        let text = daemon.ctl_text(&["port", "show", "v2"])?;
        says(&text, &remedies)?;
        check!(text.matches("WARNING").count() == 2, "{text}");
        check!(number(&port, "/sndbuf/in_force") < 73728, "the send buffer: {port}");
        let ping = Ping::new(&rig.c1, C2).count(20).interval_s(0.01).run(&rig.scratch)?;
        check!(ping.lost() == 0, "{} pings lost", ping.lost());

        let good = Setup::new(rig).pmd(batch).each_port("tx-budget = 256\nsndbuf = 589824");
        daemon.rewrite(&good.toml())?;
        daemon.ctl(&["config", "reload"])?;
        daemon.wait_bound(2, Duration::from_secs(5))?;
        let port = daemon.port("v2")?;
        check!(warnings(&port).is_empty(), "warned of good values: {port}");
        check!(number(&port, "/tx_budget/in_force") == 256, "the budget: {port}");
        daemon.stop()
    })
}

/// `xmit-batch` is in force or unsupported, never an error; busy polling is in force; packets pass.
pub(crate) fn optional_kernel_features_are_shown() -> Result<()> {
    on(Rig::pair, |rig| {
        let lines = "xmit-batch = 32\nbusy-poll-us = 20\nbusy-poll-budget = 16\n\
                     prefer-busy-poll = true";
        let daemon = Daemon::start(rig, &Setup::new(rig).each_port(lines))?;
        let ping = Ping::new(&rig.c1, C2).count(50).interval_s(0.01).run(&rig.scratch)?;
        check!(ping.lost() == 0, "{} pings lost", ping.lost());
        let (port, text) = (daemon.port("v2")?, daemon.ctl_text(&["port", "show", "v2"])?);
        let unsupported = port.pointer("/xmit_batch/unsupported") == Some(&Value::from(true));
        let in_force = number(&port, "/xmit_batch/in_force");
        check!(unsupported == (in_force != 32) && (unsupported || in_force == 32), "{port}");
        let shown = if unsupported { "32 (unsupported)" } else { "32 (in force: 32)" };
        let row = text.lines().find(|line| line.trim_start().starts_with("xmit-batch"));
        check!(row.is_some_and(|row| row.ends_with(shown)), "{row:?} is not {shown}");
        for (name, expected) in
            [("busy_poll_us", 20), ("busy_poll_budget", 16), ("prefer_busy_poll", 1)]
        {
            check!(number(&port, &format!("/{name}/in_force")) == expected, "{name}: {port}");
        }
        daemon.stop()
    })
}

/// Two threads; frames for four queues.
const TWO_THREADS: &str = "cpu-mask = \"0x3\"\nsleep-max-us = 200";

/// Where a queue is served: its number, the core that receives, the cores that send.
type Place = (u64, Option<u64>, Vec<u64>);

/// The places of a port's queues, in their order.
fn places(port: &Value) -> Vec<Place> {
    let queues = port.pointer("/queues").and_then(Value::as_array);
    let place = |queue: &Value| {
        let cores = queue.pointer("/tx_cores").and_then(Value::as_array);
        let cores = cores.into_iter().flatten().filter_map(Value::as_u64).collect();
        (number(queue, "/queue"), queue.pointer("/rx_core").and_then(Value::as_u64), cores)
    };
    queues.into_iter().flatten().map(place).collect()
}

/// TCP both ways at once, and pings beside it.
fn traffic_both_ways(rig: &Rig) -> Result<()> {
    let ping = Ping::new(&rig.c1, C2).interval_s(0.02).start(&rig.scratch)?;
    let tcp = Iperf::run(rig, C2, 1, &["--bidir"])?;
    let pings = ping.stop()?;
    check!(tcp.mbit_s > 20.0, "TCP both ways: {} Mbit/s", tcp.mbit_s);
    // A machine that does other things, too, may let a receive ring overflow.
    let (sent, lost) = (pings.sent, pings.lost());
    check!(sent > 20 && lost * 10 <= sent, "{lost} of {sent} pings lost");
    Ok(())
}

/// The device has one queue: both threads send on it, under a lock, and that is shown.
pub(crate) fn two_threads_share_a_single_queue() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut daemon = Daemon::start(rig, &Setup::new(rig).pmd(TWO_THREADS))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let mut receiving = Vec::new();
        for name in ["v1", "v2"] {
            let found = places(&daemon.port(name)?);
            let [(0, Some(rx), tx)] = found.as_slice() else {
                return Err(xvs_tests::Error::Check(format!("{name}: {found:?}")));
            };
            check!(tx.len() == 2 && tx.contains(&0) && tx.contains(&1), "{name}: {found:?}");
            receiving.push(*rx);
            says(&daemon.ctl_text(&["port", "show", name])?, &["shared under a lock"])?;
        }
        receiving.sort_unstable();
        check!(receiving == [0, 1], "the ports are not spread over the threads: {receiving:?}");
        says(&(daemon.proc().stdout() + &daemon.proc().stderr()), &["share 1 of 1 tx queues"])?;
        traffic_both_ways(rig)?;
        daemon.stop()
    })
}

/// The device has more queues than are received from: each thread sends on its own, without a lock, on
/// sockets that only transmit. Other threads decide anew.
pub(crate) fn each_thread_sends_on_a_queue_of_its_own() -> Result<()> {
    on(Rig::multi_queue, |rig| {
        let setup = |mask| {
            let pmd = format!("cpu-mask = \"{mask}\"\nsleep-max-us = 200");
            Setup::new(rig).pmd(&pmd).each_port("n-rxq = 1")
        };
        for host in [&rig.c1, &rig.c2] {
            steer(host, 0)?;
        }
        let mut daemon = Daemon::start(rig, &setup("0x3"))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        for mask in ["0x3", "0x1", "0x3"] {
            daemon.rewrite(&setup(mask).toml())?;
            daemon.ctl(&["config", "reload"])?;
            daemon.wait_bound(2, Duration::from_secs(10))?;
            rig.wait_forwarding(Duration::from_secs(5))?;
            for name in ["v1", "v2"] {
                let found = places(&daemon.port(name)?);
                let good = match found.as_slice() {
                    [(0, Some(0), tx)] => mask == "0x1" && *tx == [0],
                    [(0, Some(rx), own), (1, None, other)] => {
                        mask == "0x3" && *own == [*rx] && *other == [1 - rx]
                    }
                    _ => false,
                };
                check!(good, "{name} with {mask}: {found:?}");
                let text = daemon.ctl_text(&["port", "show", name])?;
                check!(!text.contains("shared"), "{text}");
            }
        }
        traffic_both_ways(rig)?;
        for name in ["v1", "v2"] {
            let port = daemon.port(name)?;
            let sent = number(&port, "/queues/1/tx/packets");
            check!(sent > 1000, "{name}: {sent} packets left by the queue that only sends: {port}");
        }
        daemon.stop()
    })
}

/// Lets everything that a host with four queues sends leave by one of them.
fn steer(host: &Netns, queue: u8) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(32);
    let all = u32::MAX >> (32 - cores);
    for n in 0..4 {
        let cores = if n == queue { format!("{all:x}") } else { "0".to_owned() };
        let path = format!("/sys/class/net/e0/queues/tx-{n}/xps_cpus");
        proc::run(host.command("sh").args(["-c", &format!("echo {cores} >{path}")]))?;
    }
    Ok(())
}

/// Four receive queues are spread over two threads, and each has its packets.
pub(crate) fn four_receive_queues_over_two_threads() -> Result<()> {
    on(Rig::multi_queue, |rig| {
        let mut setup = Setup::new(rig).pmd(TWO_THREADS).each_port("n-rxq = 4");
        setup.umem = "frames = 32768".to_owned();
        let daemon = Daemon::start(rig, &setup)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        for name in ["v1", "v2"] {
            let found = places(&daemon.port(name)?);
            let on = |core| found.iter().filter(|(_, rx, _)| *rx == Some(core)).count();
            check!(found.len() == 4 && on(0) == 2 && on(1) == 2, "{name}: {found:?}");
            let sends: Vec<_> = found.iter().filter(|(.., tx)| !tx.is_empty()).collect();
            let own = sends.iter().all(|(_, rx, tx)| rx.is_some_and(|rx| *tx == [rx]));
            check!(sends.len() == 2 && own, "{name}: {found:?}");
        }
        for n in 0..4 {
            steer(&rig.c1, n)?;
            let receiver = Receiver::start(&rig.c2, 7000)?;
            let flow = Flow { to: format!("{C2}:7000"), size: 64, rate_pps: 10_000, count: 1000 };
            let sent = ns::join(flow.start(&rig.c1)?)?;
            let received = receiver.stop()?;
            check!(received.numbers.len() == sent as usize, "{n}: {sent}, {received:?}");
            let port = daemon.port("v1")?;
            let packets = number(&port, &format!("/queues/{n}/rx/packets"));
            check!(packets >= 1000, "queue {n} received {packets}: {port}");
        }
        traffic_both_ways(rig)?;
        daemon.stop()
    })
}

/// Two busy queues of one thread are parted on request, and packets go on.
pub(crate) fn busy_queues_are_parted_on_request() -> Result<()> {
    on(Rig::multi_queue, |rig| {
        let mut setup = Setup::new(rig).pmd(TWO_THREADS).each_port("n-rxq = 4");
        setup.umem = "frames = 32768".to_owned();
        let daemon = Daemon::start(rig, &setup)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let core = |queue: usize| -> Result<Option<u64>> {
            Ok(places(&daemon.port("v1")?).get(queue).and_then(|(_, rx, _)| *rx))
        };
        let other = (1..4).find(|&queue| core(queue).ok() == core(0).ok());
        let other =
            other.ok_or_else(|| xvs_tests::Error::Check("no two queues together".to_owned()))?;
        for queue in [0, other] {
            steer(&rig.c1, u8::try_from(queue).unwrap_or(0))?;
            let flow = Flow { to: format!("{C2}:7000"), size: 64, rate_pps: 40_000, count: 80_000 };
            ns::join(flow.start(&rig.c1)?)?;
        }
        let moved = daemon.appctl(&["dpif-netdev/pmd-rxq-rebalance"])?;
        check!(moved.contains("port v1 queue"), "nothing moved: {moved}");
        check!(core(0)? != core(other)?, "still on one thread: {moved}");
        let shown = daemon.appctl(&["dpif-netdev/pmd-rxq-show"])?;
        check!(shown.matches("port: v1").count() == 4, "{shown}");
        for queue in 0..4 {
            steer(&rig.c1, queue)?;
            rig.wait_forwarding(Duration::from_secs(2))?;
        }
        check!(daemon.appctl(&["dpif-netdev/pmd-rxq-rebalance"])?.is_empty(), "it moves again");
        traffic_both_ways(rig)?;
        daemon.balanced()?;
        daemon.stop()
    })
}

/// Queues 2 and 3 are taken; what comes by 0 and 1 goes on to the host.
pub(crate) fn queues_before_the_first_stay_with_the_host() -> Result<()> {
    on(Rig::multi_queue, |rig| {
        let mut setup = Setup::new(rig).pmd(TWO_THREADS).each_port("start-queue = 2\nn-rxq = 2");
        setup.umem = "frames = 32768".to_owned();
        let daemon = Daemon::start(rig, &setup)?;
        for host in [&rig.c1, &rig.c2] {
            steer(host, 3)?;
        }
        rig.wait_forwarding(Duration::from_secs(5))?;
        let found = places(&daemon.port("v1")?);
        let numbers: Vec<_> = found.iter().map(|(queue, ..)| *queue).collect();
        check!(numbers == [2, 3], "v1: {found:?}");
        traffic_both_ways(rig)?;
        let before = daemon.port("v1")?;
        steer(&rig.c1, 1)?;
        let ping = Ping::new(&rig.c1, C2).count(5).interval_s(0.05).timeout_s(0.2);
        let lost = ping.run(&rig.scratch)?.lost();
        check!(lost == 5, "{lost} of 5 pings by queue 1 lost");
        let after = daemon.port("v1")?;
        let passed = |port| number(port, "/passed_to_stack");
        check!(passed(&after) >= passed(&before) + 5, "not passed to the host: {after}");
        daemon.stop()
    })
}

/// Packets of many flows, received by two threads, leave by one queue: in order within each flow, with
/// every packet and frame accounted for, while packets of the other direction come in by that port.
pub(crate) fn a_shared_queue_under_load_from_two_threads() -> Result<()> {
    on(Rig::pair, |rig| {
        rig.dut.ip("link del v1")?;
        rig.wire(1, "numrxqueues 4 numtxqueues 4")?;
        let mut setup = Setup::new(rig).pmd("cpu-mask = \"0x3\"\nsleep-max-us = 0");
        setup.umem = "frames = 32768".to_owned();
        for port in setup.ports.iter_mut().filter(|port| port.name == "v1") {
            port.lines = "n-rxq = 4".to_owned();
        }
        let daemon = Daemon::start(rig, &setup)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let found = places(&daemon.port("v2")?);
        check!(matches!(found.as_slice(), [(0, Some(_), tx)] if tx.len() == 2), "v2: {found:?}");
        let mut flows = Vec::new();
        // So many that both threads have some, whichever queues they hash to.
        for port in 7000..7024 {
            let to = format!("{C2}:{port}");
            let flow = Flow { to, size: 64, rate_pps: 5000, count: 15_000 };
            flows.push((Receiver::start(&rig.c2, port)?, flow.start(&rig.c1)?));
        }
        let back = Receiver::start(&rig.c1, 7000)?;
        let flow = Flow { to: format!("{C1}:7000"), size: 64, rate_pps: 20_000, count: 60_000 };
        let sent_back = ns::join(flow.start(&rig.c2)?)?;
        for (n, (receiver, sender)) in flows.into_iter().enumerate() {
            let (sent, received) = (ns::join(sender)?, receiver.stop()?);
            let (arrived, reordered) = (received.numbers.len(), received.reordered());
            check!(reordered == 0, "{reordered} of {arrived} packets of flow {n} were reordered");
            check!(arrived > sent as usize / 100, "{arrived} of {sent} of flow {n} arrived");
        }
        let back = back.stop()?;
        check!(back.reordered() == 0, "{} packets back were reordered", back.reordered());
        check!(
            back.numbers.len() > sent_back as usize / 100,
            "{sent_back}: {}",
            back.numbers.len()
        );
        let (from, to) = (daemon.port("v1")?, daemon.port("v2")?);
        for core in [0, 1] {
            let queues = places(&from).into_iter().filter(|(_, rx, _)| *rx == Some(core));
            let packets = queues.map(|(n, ..)| number(&from, &format!("/queues/{n}/rx/packets")));
            let packets: u64 = packets.sum();
            check!(packets > 5_000, "the thread on core {core} received {packets}: {from}");
        }
        check!(number(&to, "/kicks/errors") == 0, "{to}");
        let ledger = daemon.balanced()?;
        let (rx, tx) = (ledger.packets("rx"), ledger.packets("tx"));
        check!(rx > 50_000 && tx > 50_000, "{}", ledger.json());
        daemon.stop()
    })
}

/// An idle thread sleeps beside one that sends, on the same port, into a queue that rejects packets: it does
/// not transmit behind the other's back, which would hide a rejection. What counts as sent arrives.
pub(crate) fn no_thread_sleeps_on_a_socket_on_which_another_sends() -> Result<()> {
    on(Rig::slow_link, |rig| {
        rig.dut.run("tc qdisc replace dev v2 root tbf rate 100mbit burst 20k limit 40k")?;
        let setup = Setup::new(rig).pmd("cpu-mask = \"0x3\"\nsleep-max-us = 10");
        let daemon = Daemon::start(rig, &setup)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let arrived = || -> Result<u64> {
            let text = rig.c2.run("cat /sys/class/net/e0/statistics/rx_packets")?;
            text.trim().parse().map_err(|_| xvs_tests::Error::Check(text))
        };
        let (before, sent_before) = (arrived()?, number(&daemon.port("m2")?, "/tx/packets"));
        ns::join(Flow::bulk(&format!("{C2}:7000"), 400, 3).start(&rig.c1)?)?;
        let ledger = daemon.balanced()?;
        // What the kernel took leaves within the 40 kB that wait, in 4 ms.
        std::thread::sleep(Duration::from_millis(100));
        let port = daemon.port("m2")?;
        let (arrived, sent) = (arrived()? - before, number(&port, "/tx/packets") - sent_before);
        check!(ledger.drops("tx_busy") > 100, "nothing was rejected: {}", ledger.json());
        check!(number(&port, "/kicks/ebusy") == ledger.drops("tx_busy"), "{port}");
        check!(arrived >= sent, "{sent} packets count as sent, {arrived} arrived: {port}");
        daemon.stop()
    })
}

/// While a port with four sockets closes, which takes the kernel its time, packets of the others go on.
pub(crate) fn a_port_that_closes_holds_up_no_other() -> Result<()> {
    on(Rig::pair, |rig| {
        let four = "numrxqueues 4 numtxqueues 4";
        rig.dut.ip(&format!("link add v3 {four} type veth peer name v4 {four}"))?;
        rig.dut.ip("link set v3 up")?;
        rig.dut.ip("link set v4 up")?;
        let mut setup = Setup::new(rig).pmd("cpu-mask = \"0x1\"\nsleep-max-us = 0");
        setup.umem = "frames = 32768".to_owned();
        let mut daemon = Daemon::start(rig, &setup)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        undisturbed(|| {
            daemon.ctl(&["port", "add", "v3", "n-rxq=4"])?;
            daemon.wait_bound(3, Duration::from_secs(5))?;
            let receiver = Receiver::start(&rig.c2, 7000)?;
            let flow = Flow { to: format!("{C2}:7000"), size: 64, rate_pps: 1000, count: 1000 };
            let sender = flow.start(&rig.c1)?;
            std::thread::sleep(Duration::from_millis(300));
            daemon.ctl(&["port", "del", "v3"])?;
            let (sent, received) = (ns::join(sender)?, receiver.stop()?);
            check!(received.numbers.len() == sent as usize, "{sent} sent, {received:?}");
            let longest_us = received.latency_us(100);
            check!(longest_us < 20_000, "a packet took {longest_us} µs");
            Ok(())
        })?;
        daemon.stop()
    })
}
