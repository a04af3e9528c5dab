//! What the figures of the flow table are measured on: a datapath without ports and kernel, packets in memory,
//! rules in three tables.

use std::time::{Duration, Instant};

use xvs_datapath::{
    Action, Datapath, DatapathConfig, Env, Field, Match, Nanos, Outputs, PacketBatch, PortNo,
    Switch,
};
use xvs_netdev_afxdp::{FrameCache, Umem, UmemConfig, XskPacket};
use xvs_tests::{Error, Result, frame};

/// Packets of a batch.
const BATCH: usize = 32;

/// So many flows have the tables that are filled.
pub(super) const FLOWS: u32 = 200_000;

/// A UDP packet of 64 bytes, frame check sequence included, by what tells it from others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Udp {
    /// Of the source's Ethernet address, the last byte.
    host: u8,
    src: [u8; 4],
    dst: [u8; 4],
    ports: [u16; 2],
}

impl Udp {
    /// The `n`-th of many connections; no two of 2^24 have the same addresses and ports.
    pub(super) fn connection(n: u32) -> Self {
        let [_, a, b, c] = n.to_be_bytes();
        let [high, low] = [u16::from_be_bytes([a, b]), u16::from(c)];
        Self { host: c % 200, src: [10, 1, b, c], dst: [10, 2, a, b], ports: [high, 1024 + low] }
    }

    /// Writes it over another.
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        let udp = frame::udp(
            (self.src.into(), self.ports[0]),
            (self.dst.into(), self.ports[1]),
            &[0; 18],
        );
        let ip = frame::ipv4(self.src.into(), self.dst.into(), 17, &udp);
        let from = [2, 0, 0, 0, 0, self.host];
        bytes.extend(frame::ethernet([2, 0, 0, 1, 0, 2], from, 0x0800, &ip));
    }

    /// The flow of this connection alone; of the destination only so many bits.
    fn flow(&self, dst_bits: u32) -> Match {
        let word = |address: [u8; 4]| u128::from(u32::from_be_bytes(address));
        let prefix = u128::from(u32::MAX.checked_shl(32 - dst_bits).unwrap_or(0));
        Match::default()
            .with(&Field::IN_PORT, 1)
            .with(&Field::RECIRC_ID, 0)
            .with(&Field::ETH_TYPE, 0x0800)
            .with(&Field::IP_PROTO, 17)
            .with(&Field::IPV4_SRC, word(self.src))
            .with_masked(&Field::IPV4_DST, word(self.dst), prefix)
            .with(&Field::TP_SRC, self.ports[0].into())
            .with(&Field::TP_DST, self.ports[1].into())
    }
}

/// A datapath and all that it needs.
pub(super) struct Load {
    pub(super) datapath: Datapath,
    outputs: Outputs<XskPacket>,
    batch: PacketBatch<XskPacket>,
    frames: FrameCache,
    switch: Switch,
    now: Nanos,
}

/// What is counted; found by its name.
#[inline(never)]
fn measured_process(load: &mut Load) {
    let Load { datapath, outputs, batch, frames, switch, now } = load;
    let mut env = Env { now: *now, outputs, copies: frames, upcall: &*switch };
    datapath.process(PortNo(1), batch, &mut env);
}

impl Load {
    /// With no flows, in front of a bridge of two ports and so many rules.
    pub(super) fn new(config: DatapathConfig, n_rules: u32) -> Result<Self> {
        let umem = Umem::create(UmemConfig::default()).map_err(failed)?;
        let mut outputs = Outputs::new();
        outputs.open(PortNo(2));
        let load = Self {
            datapath: Datapath::new(config, 1),
            outputs,
            batch: PacketBatch::new(BATCH),
            frames: FrameCache::new(umem, FrameCache::DEFAULT_LIMIT),
            switch: bridge(n_rules)?,
            now: Nanos(1_000_000_000),
        };
        Ok(load)
    }

    /// Adds the flows of connections by hand, evenly over so many masks; returns how long it took.
    pub(super) fn add_flows(&mut self, n: u32, n_masks: u32) -> Result<Duration> {
        let start = Instant::now();
        for n in 0..n {
            let rule = Udp::connection(n).flow(32 - n % n_masks);
            let output = Box::new([Action::Output(PortNo(2))]);
            self.datapath.add(rule, output, &self.switch, self.now).map_err(failed)?;
        }
        Ok(start.elapsed())
    }

    /// Takes packets through the datapath, batch by batch; returns the time that it had them.
    pub(super) fn run(&mut self, mut packets: impl Iterator<Item = Udp>) -> Result<Duration> {
        let (mut bytes, mut time, mut n_sent) = (Vec::new(), Duration::ZERO, 0);
        loop {
            for packet in packets.by_ref().take(BATCH) {
                packet.write(&mut bytes);
                let packet = self.frames.packet(&bytes).ok_or_else(|| failed("no frame"))?;
                self.batch.push(packet).map_err(|_| failed("a full batch"))?;
            }
            let n_given = self.batch.len();
            if n_given == 0 {
                return Ok(time);
            }
            self.now.0 += 1_000;
            let start = Instant::now();
            measured_process(self);
            time += start.elapsed();
            let frames = &mut self.frames;
            self.outputs.flush(|_, bin| {
                n_sent += bin.len();
                frames.free_all(bin);
            });
            if n_sent != n_given {
                return Err(failed(format!("{n_sent} of {n_given} packets came out")));
            }
            n_sent = 0;
        }
    }
}

/// Pseudo-random numbers below `n`, the same in every run.
pub(super) fn random(n: u32) -> impl Iterator<Item = u32> {
    let mut state = 0x2545_f491_u32;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    })
    .map(move |number| number % n)
}

pub(super) fn failed(error: impl std::fmt::Display) -> Error {
    Error::Check(error.to_string())
}

/// A bridge with rules as a firewall has them: which hosts may send from where, which connections are refused,
/// and which way networks are. Those of DHCP make every flow one of its own ports, so that every connection
/// is missed.
pub(super) fn bridge(n_rules: u32) -> Result<Switch> {
    let switch = Switch::new();
    switch.add_bridge("br0").map_err(failed)?;
    for no in [1, 2] {
        switch.add_port(PortNo(no), &format!("v{no}"), "br0").map_err(failed)?;
    }
    switch.add_rules("br0", &rules(n_rules), Nanos(1)).map_err(failed)?;
    Ok(switch)
}

/// Such rules; none if `n` is 0.
pub(super) fn rules(n: u32) -> Vec<String> {
    if n == 0 {
        return Vec::new();
    }
    let hosts = (0..200).map(|host| {
        format!(
            "table=0,priority=10,in_port=1,dl_src=02:00:00:00:00:{host:02x},actions=resubmit(,1)"
        )
    });
    let few = [
        "table=1,priority=90,udp,tp_src=68,tp_dst=67,actions=drop",
        "table=1,priority=0,actions=resubmit(,2)",
        "table=2,priority=0,actions=output:2",
    ];
    // None of them is for one of the connections.
    let left = (n / 1000 * 800).saturating_sub(3);
    let refused = (0..left * 5 / 8).map(|i| {
        let (a, b, port) = (i / 250 % 250, i % 250, 2000 + i / 62_500);
        let from = ["10.1.0.0/16", "10.1.0.0/20", "172.16.0.0/12"][(i % 3) as usize];
        format!(
            "table=1,priority=50,tcp,nw_src={from},nw_dst=10.2.{a}.{b},tp_dst={port},actions=drop"
        )
    });
    let networks = (left * 5 / 8..left).map(|i| {
        let (a, b, bits) = (i / 250 % 250, i % 250, 24 + i / 62_500);
        format!("table=2,priority=20,ip,nw_dst=10.{a}.{b}.0/{bits},actions=output:2")
    });
    let padding = (200 + left + 3..n).map(|i| {
        format!(
            "table=2,priority=10,ip,nw_dst=192.{}.{}.{},actions=drop",
            i >> 16,
            i >> 8 & 255,
            i & 255
        )
    });
    hosts.chain(few.map(str::to_owned)).chain(refused).chain(networks).chain(padding).collect()
}
