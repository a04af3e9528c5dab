//! A switch in memory for the tests of commands, server and client: the plain data, without packets.

mod served;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use xvs_datapath::{
    DropReason, FlowKey, Hit, MacAddr, Match, MeterConfig, MeterRow, Meters, Nanos, PortNo, Probe,
    Switch, SwitchCounters, Trace, Ufid, VlanId,
};

use super::*;
use crate::pmd::{Perf, Suspicion};
pub(crate) use served::{Client, Scratch, Served};

/// What the daemon would know.
#[derive(Debug, Default)]
pub(crate) struct MemorySwitch {
    pub(crate) ports: Vec<PortInfo>,
    pub(crate) flows: Vec<FlowInfo>,
    pub(crate) rules: Vec<String>,
    pub(crate) fdb: Vec<FdbEntry>,
    pub(crate) levels: BTreeMap<String, Level>,
    pub(crate) cleared: Vec<Option<u32>>,
    pub(crate) meters: Meters,
    pub(crate) upcalls: Vec<Upcall>,
    /// A real bridge with the first two ports, for traces.
    pub(crate) bridge: Switch,
    pub(crate) perf: Option<Perf>,
    pub(crate) suspicion: Option<Suspicion>,
    pub(crate) exit: Option<bool>,
    /// Every command that reads ports takes so long.
    pub(crate) slow: Duration,
}

/// Two bound ports, nothing else.
pub(crate) fn switch() -> MemorySwitch {
    let mut switch = MemorySwitch {
        levels: BTreeMap::from([("xvswitchd".to_owned(), Level::Info)]),
        ..MemorySwitch::default()
    };
    switch.bridge.add_bridge("br0").unwrap();
    for (no, name) in [(PortNo(1), "v1"), (PortNo(2), "v2")] {
        switch.bridge.add_port(no, name, "br0").unwrap();
        let options = vec![("bridge".to_owned(), "br0".to_owned())];
        switch.add_ports(&[PortSpec { name: name.to_owned(), options }]).unwrap();
    }
    let v1 = &mut switch.ports[0];
    (v1.rx, v1.tx) = (Traffic { packets: 10, bytes: 840 }, Traffic { packets: 9, bytes: 756 });
    v1.kicks = Kicks { calls: 3, packets: 9, eagain: 1, ebusy: 0, errors: 0 };
    v1.drops.add(DropReason::TxFull, 1);
    switch
}

/// Runs a command and returns its text, or the refusal.
pub(crate) fn text(switch: &mut MemorySwitch, words: &[&str]) -> Result<String, String> {
    let reply = run(switch, words, Format::Text)?;
    let mut text = String::new();
    reply.text(&mut text).unwrap();
    Ok(text)
}

/// Runs a command and returns its JSON, or the refusal.
pub(crate) fn json(switch: &mut MemorySwitch, words: &[&str]) -> Result<Value, String> {
    let mut json = Vec::new();
    run(switch, words, Format::Json)?.json(&mut json).unwrap();
    Ok(serde_json::from_slice(&json).unwrap())
}

fn run(
    switch: &mut MemorySwitch,
    words: &[&str],
    mut format: Format,
) -> Result<Box<dyn Reply>, String> {
    let (method, params) = words.split_first().unwrap();
    let params = params.iter().map(|&word| word.into()).collect();
    let request = Request { id: 0.into(), method: (*method).to_owned(), params };
    let mut context =
        Context { control: switch, format: &mut format, coverage: &Coverage::default() };
    execute(&mut context, &request).map_err(|error| error.to_string())
}

impl MemorySwitch {
    fn add_port(&mut self, spec: &PortSpec) -> Result<u32, CtlError> {
        let name = spec.name.clone();
        if self.ports.iter().any(|port| port.name == name) {
            return Err(CtlError::Exists { kind: "port", name });
        }
        if name.len() > 15 {
            return Err(CtlError::Refused(format!("port name {name} is too long")));
        }
        let port_no = self.ports.iter().map(|port| port.port_no).max().unwrap_or(0) + 1;
        let option = |key: &str, preset: &str| {
            let found = spec.options.iter().find(|(name, _)| name == key);
            found.map_or_else(|| preset.to_owned(), |(_, value)| value.clone())
        };
        self.ports.push(PortInfo {
            port_no,
            name,
            bridge: option("bridge", "br0"),
            kind: "afxdp".to_owned(),
            state: PortState::Bound,
            carrier: true,
            xdp_mode: option("xdp-mode", "best-effort"),
            xdp_mode_in_use: Some("native".to_owned()),
            n_rxq: 1,
            queues: vec![QueueInfo::default()],
            ..PortInfo::default()
        });
        Ok(port_no)
    }

    fn check_bridge(bridge: &str) -> Result<(), CtlError> {
        let name = bridge.to_owned();
        if bridge == "br0" { Ok(()) } else { Err(CtlError::NotFound { kind: "bridge", name }) }
    }

    /// There is one thread, on core 0.
    fn check_core(pmd: Option<u32>) -> Result<(), CtlError> {
        match pmd {
            None | Some(0) => Ok(()),
            Some(core) => Err(CtlError::NoThread { core, cores: vec![0] }),
        }
    }

    fn place(&self, ufid: u128) -> Result<usize, CtlError> {
        let found = self.flows.iter().position(|flow| flow.ufid == ufid);
        found.ok_or_else(|| refused("No such file or directory"))
    }
}

fn refused(why: &str) -> CtlError {
    CtlError::Datapath { what: "updating flow table".to_owned(), why: why.to_owned() }
}

impl Control for MemorySwitch {
    fn ports(&mut self) -> Result<Vec<PortInfo>, CtlError> {
        std::thread::sleep(self.slow);
        Ok(self.ports.clone())
    }

    fn add_ports(&mut self, specs: &[PortSpec]) -> Result<Vec<u32>, CtlError> {
        let before = self.ports.clone();
        let numbers: Result<Vec<_>, _> = specs.iter().map(|spec| self.add_port(spec)).collect();
        if numbers.is_err() {
            self.ports = before;
        }
        numbers
    }

    fn set_ports(&mut self, specs: &[PortSpec]) -> Result<(), CtlError> {
        let known = |spec: &&PortSpec| self.ports.iter().any(|port| port.name == spec.name);
        match specs.iter().find(|spec| !known(spec)) {
            Some(spec) => Err(CtlError::NotFound { kind: "port", name: spec.name.clone() }),
            None => Ok(()),
        }
    }

    fn del_port(&mut self, name: &str) -> Result<(), CtlError> {
        let found = self.ports.iter().position(|port| port.name == name);
        let missing = || CtlError::NotFound { kind: "port", name: name.to_owned() };
        self.ports.remove(found.ok_or_else(missing)?);
        Ok(())
    }

    fn bridges(&mut self) -> Vec<String> {
        vec!["br0".to_owned()]
    }

    fn visit_flows(&mut self, pmd: Option<u32>, visit: VisitFlow<'_>) -> Result<(), CtlError> {
        Self::check_core(pmd)?;
        self.flows.iter().try_for_each(|flow| visit(0, flow.clone()))
    }

    fn flow(&mut self, ufid: u128, pmd: Option<u32>) -> Result<Option<FlowInfo>, CtlError> {
        Self::check_core(pmd)?;
        Ok(self.place(ufid).ok().map(|at| self.flows[at].clone()))
    }

    fn add_flows(&mut self, flows: &[FlowSpec]) -> Result<(), (usize, CtlError)> {
        let before = self.flows.len();
        for (at, FlowSpec { rule, actions, pmd }) in flows.iter().cloned().enumerate() {
            Self::check_core(pmd).map_err(|error| (at, error))?;
            let ufid = Ufid::of(&rule).0;
            if self.place(ufid).is_ok() {
                self.flows.truncate(before);
                return Err((at, refused("File exists")));
            }
            let (packets, bytes, used_ms, tcp_flags) = (0, 0, None, 0);
            self.flows.push(FlowInfo { ufid, rule, actions, packets, bytes, used_ms, tcp_flags });
        }
        Ok(())
    }

    fn mod_flow(&mut self, flow: &FlowSpec, clear: bool, create: bool) -> Result<(), CtlError> {
        match self.place(Ufid::of(&flow.rule).0) {
            Ok(at) => {
                self.flows[at].actions = flow.actions.clone();
                if clear {
                    (self.flows[at].packets, self.flows[at].bytes) = (0, 0);
                }
                Ok(())
            }
            Err(_) if create => {
                self.add_flows(std::slice::from_ref(flow)).map_err(|(_, error)| error)
            }
            Err(error) => Err(error),
        }
    }

    fn del_flow(&mut self, flow: &FlowSpec) -> Result<(), CtlError> {
        self.del_flow_by_ufid(Ufid::of(&flow.rule).0)
    }

    fn del_flow_by_ufid(&mut self, ufid: u128) -> Result<(), CtlError> {
        let missing = |_| {
            let (what, why) = ("deleting flow".to_owned(), "No such file or directory".to_owned());
            CtlError::Datapath { what, why }
        };
        let at = self.place(ufid).map_err(missing)?;
        self.flows.remove(at);
        Ok(())
    }

    fn del_flows(&mut self, _core: u32, ufids: &[u128]) -> Result<u64, CtlError> {
        let before = self.flows.len();
        self.flows.retain(|flow| !ufids.contains(&flow.ufid));
        Ok((before - self.flows.len()) as u64)
    }

    fn flush_flows(&mut self) -> Result<u64, CtlError> {
        Ok(self.flows.drain(..).count() as u64)
    }

    fn wait_for_checks(&mut self) -> Result<(), CtlError> {
        Ok(())
    }

    fn meters(&mut self) -> Vec<MeterRow> {
        self.meters.rows().collect()
    }

    fn set_meter(&mut self, id: u32, config: MeterConfig) -> Result<(), CtlError> {
        self.meters.set(id, config).map_err(|error| CtlError::Refused(error.to_string()))
    }

    fn del_meter(&mut self, id: u32) -> Result<(), CtlError> {
        self.meters.del(id).map_err(|error| CtlError::Refused(error.to_string()))
    }

    fn read_upcalls(&mut self, max: usize) -> Result<Vec<Upcall>, CtlError> {
        Ok(self.upcalls.drain(..max.min(self.upcalls.len())).collect())
    }

    fn rules(&mut self, bridge: &str) -> Result<Vec<RuleInfo>, CtlError> {
        Self::check_bridge(bridge)?;
        let rule = |text: &String| {
            let (head, actions) = text.split_once("actions=").unwrap();
            RuleInfo {
                priority: 10,
                packets: 3,
                bytes: 180,
                duration_ms: 1500,
                match_text: head.trim_end_matches(',').to_owned(),
                actions: actions.to_owned(),
                ..RuleInfo::default()
            }
        };
        Ok(self.rules.iter().map(rule).collect())
    }

    fn add_rules(&mut self, bridge: &str, rules: &[String]) -> Result<(), CtlError> {
        Self::check_bridge(bridge)?;
        if let Some(bad) = rules.iter().find(|rule| !rule.contains("actions=")) {
            return Err(CtlError::Parse { what: "rule", detail: format!("no actions= in {bad}") });
        }
        self.rules.extend_from_slice(rules);
        Ok(())
    }

    fn del_rules(&mut self, bridge: &str, which: &RuleMatch) -> Result<u64, CtlError> {
        Self::check_bridge(bridge)?;
        let before = self.rules.len();
        self.rules.retain(|rule| !rule.starts_with(&which.text));
        Ok((before - self.rules.len()) as u64)
    }

    fn fdb(&mut self, bridge: &str) -> Result<Vec<FdbEntry>, CtlError> {
        Self::check_bridge(bridge).map(|()| self.fdb.clone())
    }

    fn fdb_add(
        &mut self,
        bridge: &str,
        port: &str,
        vlan: VlanId,
        mac: MacAddr,
    ) -> Result<(), CtlError> {
        Self::check_bridge(bridge)?;
        let found = self.ports.iter().find(|known| known.name == port);
        let missing = || CtlError::NotFound { kind: "port", name: port.to_owned() };
        let port_no = found.ok_or_else(missing)?.port_no;
        let (port, vlan) = (port.to_owned(), vlan.0);
        self.fdb.push(FdbEntry { port_no, port, vlan, mac, age: None });
        Ok(())
    }

    fn fdb_del(&mut self, bridge: &str, vlan: VlanId, mac: MacAddr) -> Result<bool, CtlError> {
        Self::check_bridge(bridge)?;
        let before = self.fdb.len();
        self.fdb.retain(|entry| entry.age.is_some() || entry.vlan != vlan.0 || entry.mac != mac);
        Ok(self.fdb.len() < before)
    }

    fn fdb_flush(&mut self, bridge: &str) -> Result<(), CtlError> {
        Self::check_bridge(bridge).map(|()| self.fdb.retain(|entry| entry.age.is_none()))
    }

    fn fdb_stats(&mut self, bridge: &str) -> Result<FdbStats, CtlError> {
        Self::check_bridge(bridge)?;
        let entries = self.fdb.len() as u64;
        Ok(FdbStats { entries, max_entries: 8192, learned: entries, ..FdbStats::default() })
    }

    fn match_of_rule(&mut self, bridge: &str, text: &str) -> Result<Match, CtlError> {
        let filter = self.bridge.parse_filter(bridge, text, false);
        filter.map(|filter| filter.matching).map_err(|error| CtlError::Refused(error.to_string()))
    }

    fn trace(&mut self, key: &FlowKey) -> Result<(Trace, Vec<PmdProbe>), CtlError> {
        let probe = Probe { hit: Hit::Miss, flow: None };
        Ok((self.bridge.trace(key, Nanos(0)), vec![PmdProbe { core: 0, probe }]))
    }

    fn decisions(&mut self) -> SwitchCounters {
        self.bridge.counters()
    }

    fn pmd_stats(&mut self) -> Result<Vec<PmdStats>, CtlError> {
        Ok(vec![PmdStats {
            duration_ms: 2000,
            iterations: 1000,
            busy_iterations: 250,
            busy_ns: 500_000_000,
            idle_ns: 1_500_000_000,
            rx_packets: 100,
            emc_hits: 60,
            megaflow_hits: 30,
            subtable_lookups: 45,
            upcalls: 9,
            lost_upcalls: 1,
            tx_packets: 99,
            tx_batches: 11,
            flows: self.flows.len() as u64,
            ..PmdStats::default()
        }])
    }

    fn clear_pmd_stats(&mut self, pmd: Option<u32>) -> Result<(), CtlError> {
        self.cleared.push(pmd);
        Ok(())
    }

    fn pmd_rxqs(&mut self, _secs: u32) -> Result<Vec<PmdRxqs>, CtlError> {
        let usage = [Some(43), None];
        let rxq = |(port, usage_percent): (&PortInfo, Option<u32>)| RxqInfo {
            port: port.name.clone(),
            queue: 0,
            enabled: true,
            usage_percent,
        };
        let rxqs = self.ports.iter().zip(usage).map(rxq).collect();
        Ok(vec![PmdRxqs { rxqs, overhead_percent: Some(2), ..PmdRxqs::default() }])
    }

    fn rebalance(&mut self) -> Result<Vec<RxqMove>, CtlError> {
        Ok(vec![RxqMove { port: "v1".to_owned(), queue: 0, from: 0, to: 1 }])
    }

    fn pmd_perf(
        &mut self,
        pmd: Option<u32>,
        n_iterations: usize,
        n_milliseconds: usize,
    ) -> Result<Option<Vec<PmdPerf>>, CtlError> {
        Self::check_core(pmd)?;
        let view =
            |perf: &Perf| vec![PmdPerf { core: 0, perf: perf.view(n_iterations, n_milliseconds) }];
        Ok(self.perf.as_ref().map(view))
    }

    fn suspect_passes(&mut self, rule: Option<Suspicion>) -> Result<(), CtlError> {
        self.suspicion = rule;
        Ok(())
    }

    fn max_sleep_us(&mut self) -> u64 {
        200
    }

    fn ledger(&mut self) -> Result<Ledger, CtlError> {
        let mut ledger = Ledger::default();
        (ledger.packets.rx, ledger.packets.tx) = (10, 9);
        ledger.packets.drops.add(DropReason::TxFull, 1);
        (ledger.frames.total, ledger.frames.pool, ledger.frames.filled) = (64, 32, 32);
        Ok(ledger)
    }

    fn config_show(&mut self) -> ConfigView {
        ConfigView { file: None, text: "[[bridge]]\nname = \"br0\"\n".to_owned() }
    }

    fn config_check(&mut self, file: Option<&Path>) -> Result<Vec<String>, CtlError> {
        Ok(file.map(|file| format!("would read {}", file.display())).into_iter().collect())
    }

    fn config_reload(&mut self) -> Result<Vec<String>, CtlError> {
        Err(CtlError::Refused("lab.toml:3:1: unknown key \"framse\"".to_owned()))
    }

    fn status(&mut self) -> Status {
        let bridge = BridgeInfo { name: "br0".to_owned(), ports: 2, ..BridgeInfo::default() };
        Status { version: "0.1.0".to_owned(), pid: 7, bridges: vec![bridge], ..Status::default() }
    }

    fn log_levels(&mut self) -> Vec<LogLevel> {
        let levels = self.levels.iter();
        levels.map(|(module, &level)| LogLevel { module: module.clone(), level }).collect()
    }

    fn set_log_level(&mut self, module: Option<&str>, level: Level) -> Result<(), CtlError> {
        for (name, of) in &mut self.levels {
            if module.is_none_or(|module| module == name) {
                *of = level;
            }
        }
        Ok(())
    }

    fn request_exit(&mut self, cleanup: bool) {
        self.exit = Some(cleanup);
    }
}
