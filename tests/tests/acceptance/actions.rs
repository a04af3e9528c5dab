//! Every action and every field that can be rewritten, through the real daemon: a flow that the real ovs-appctl
//! adds, a frame in, and the bytes that come out, checksums included. The tables are in the modules beside.

mod fields;
mod lists;
mod meters;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use xvs_datapath::testing::PacketBuilder;
use xvs_datapath::{Action, MacAddr, text};
use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    raw::RawSocket,
    rig::Rig,
    tcpdump::Capture,
    wait_until,
};

pub(crate) use fields::every_field_is_rewritten_with_its_checksums;
pub(crate) use lists::{
    every_action_does_what_it_says, rules_measure_cut_and_queue, what_cannot_work_is_refused,
};
pub(crate) use meters::meters_hold_their_rates;

// Addresses that no host has, so that nobody answers.
const SRC: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);
const DST: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 2]);
const NEW: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 9]);
const A4: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 1);
const B4: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 2);
const C4: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 9);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2);
const C6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6);

/// Matches of the frames below.
const IPV4: &str = "in_port(1),eth_type(0x0800)";
const UDP: &str = "in_port(1),eth_type(0x0800),ipv4(proto=17)";

fn eth() -> PacketBuilder {
    PacketBuilder::eth(SRC, DST)
}

/// UDP with a payload of `len` bytes.
fn udp(len: usize) -> PacketBuilder {
    eth().ipv4(A4, B4).udp(1000, 2000).payload_len(len)
}

/// A daemon between a sender and captures on both hosts.
struct Bench<'a> {
    daemon: Daemon,
    socket: RawSocket,
    captures: [Capture; 2],
    /// Frames of the tests that each host should have got so far.
    wanted: [Cell<usize>; 2],
    _rig: &'a Rig,
}

/// True for the frames of these tests, whichever of their addresses was changed.
fn is_ours(frame: &[u8]) -> bool {
    let part = |at: usize| frame.get(at..at + 5);
    part(0) == DST.0.get(..5) || part(6) == SRC.0.get(..5)
}

impl<'a> Bench<'a> {
    fn new(rig: &'a Rig) -> Result<Self> {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let socket = rig.c1.enter(|| RawSocket::open("e0"))?;
        let captures = [
            Capture::start(&rig.scratch, &rig.c1, "e0")?,
            Capture::start(&rig.scratch, &rig.c2, "e0")?,
        ];
        Ok(Self { daemon, socket, captures, wanted: Default::default(), _rig: rig })
    }

    fn add(&self, flow: &str, actions: &str) -> Result<()> {
        self.daemon.appctl(&["dpctl/add-flow", flow, actions])?;
        let dumped = self.daemon.appctl(&["dpctl/dump-flows"])?;
        // It is shown as it was given: a flow can be dumped and added again.
        let shown = dumped.lines().any(|line| line.ends_with(&format!(", actions:{actions}")));
        check!(shown, "actions:{actions} not in {dumped}");
        Ok(())
    }

    fn send(&self, frames: &[Vec<u8>]) -> Result<()> {
        for frame in frames {
            check!(self.socket.send(frame)?, "not sent");
        }
        Ok(())
    }

    /// Our frames that arrived at a host since the last row; `n` must come.
    fn arrived(&self, host: usize, n: usize) -> Result<Vec<Vec<u8>>> {
        let before = self.wanted[host].get();
        let all = |frames: Vec<Vec<u8>>| frames.into_iter().filter(|f| is_ours(f));
        let new = || Ok(all(self.captures[host].frames()?).skip(before).collect::<Vec<_>>());
        let came =
            wait_until(&format!("{n} frames at c{}", host + 1), Duration::from_secs(3), || {
                let new = new()?;
                Ok((new.len() >= n).then_some(new))
            });
        self.wanted[host].set(before + n);
        came.or_else(|error| {
            let ledger = self.daemon.ledger()?.json().to_string();
            let flows = self.daemon.appctl(&["dpctl/dump-flows"])?;
            let hex: Vec<_> = new()?.iter().map(|frame| format!("{frame:02x?}")).collect();
            Err(xvs_tests::Error::Check(format!("{error}; {ledger}\n{flows}came: {hex:?}")))
        })
    }

    /// Removes the flows of a row.
    fn clear(&self) -> Result<()> {
        self.daemon.appctl(&["dpctl/del-flows"]).map(drop)
    }

    /// Sends frames through one flow: exactly `wanted` must come out on port 2.
    fn row(&self, flow: &str, actions: &str, frames: &[Vec<u8>], wanted: &[Vec<u8>]) -> Result<()> {
        self.add(flow, actions)?;
        self.send(frames)?;
        let came = self.arrived(1, wanted.len())?;
        check!(came == wanted, "{actions}:\n came {came:02x?}\nwanted {wanted:02x?}");
        self.clear()
    }

    /// Nothing came that no row waited for, and both ledgers balance.
    fn finish(self) -> Result<()> {
        self.daemon.balanced()?;
        for (host, wanted) in self.wanted.iter().enumerate() {
            let frames = self.captures[host].frames()?;
            let n = frames.iter().filter(|frame| is_ours(frame)).count();
            check!(n == wanted.get(), "{n} frames at c{}, not {}", host + 1, wanted.get());
        }
        self.daemon.stop()
    }
}

/// The two tables are whole: an action or field without a row fails here.
pub(crate) fn every_action_and_field_has_a_row() -> Result<()> {
    let rows: BTreeSet<_> = lists::ROWS.iter().map(|row| row.0).collect();
    let names: BTreeSet<_> = Action::NAMES.iter().copied().collect();
    check!(rows == names, "rows: {rows:?}\nactions: {names:?}");
    let rows: BTreeSet<_> = fields::rows().iter().map(|row| (row.group, row.member)).collect();
    let names: BTreeSet<_> = text::rewritable().collect();
    check!(rows == names, "rows: {rows:?}\nfields: {names:?}");
    Ok(())
}
