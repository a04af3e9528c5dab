//! What commands ask of the switch: [`Control`], in terms of the modules beside this one.

use std::path::Path;
use std::time::{Duration, Instant};

use xvs_config::{PortSpec as ConfigPortSpec, Topology};
use xvs_datapath::{
    FlowKey, MacAddr, Match, MeterConfig, MeterRow, SwitchCounters, Trace, Ufid, VlanId,
};

use super::meters::refused;
use super::{Error, Switchd};
use crate::ctl::{
    ConfigView, Control, CtlError, FdbEntry, FdbStats, FlowInfo, FlowSpec, Ledger, Level, LogLevel,
    PmdPerf, PmdProbe, PmdRxqs, PmdStats, PortInfo, PortSpec, RuleInfo, RuleMatch, RxqMove, Status,
    Upcall, VisitFlow,
};
use crate::pmd::Suspicion;

/// How long a command waits for all flows to be checked.
const CHECKED_WITHIN: Duration = Duration::from_secs(2);

impl Switchd {
    /// Changes the running topology by `edit`; the configuration file is not touched.
    fn edit(
        &mut self,
        edit: impl FnOnce(&mut Topology) -> Result<(), CtlError>,
    ) -> Result<(), CtlError> {
        let mut wanted = self.running.clone();
        edit(&mut wanted)?;
        self.become_topology(wanted)?;
        Ok(())
    }

    fn load(&self, file: Option<&Path>) -> Result<Topology, CtlError> {
        let file = file.or(self.file.as_deref()).ok_or_else(|| {
            CtlError::Refused("the daemon was started without a configuration file".to_owned())
        })?;
        let mut wanted = xvs_config::load(file).map_err(Error::Config)?;
        // The command line overrides the file, at start as on reload.
        wanted.general = self.running.general.clone();
        Ok(wanted)
    }
}

impl Control for Switchd {
    fn ports(&mut self) -> Result<Vec<PortInfo>, CtlError> {
        Ok(self.port_infos())
    }

    fn add_ports(&mut self, specs: &[PortSpec]) -> Result<Vec<u32>, CtlError> {
        self.edit(|topology| {
            for PortSpec { name, options } in specs {
                if topology.port(name).is_some() {
                    return Err(CtlError::Exists { kind: "port", name: name.clone() });
                }
                let start = ConfigPortSpec::new(name);
                let mut wanted =
                    options.iter().fold(start, |spec, (key, value)| spec.set(key, value));
                if let [only] = topology.bridges.as_slice() {
                    wanted = wanted.bridge_or(only.name.as_str());
                }
                topology.ports.push(wanted.build().map_err(Error::Config)?);
            }
            Ok(())
        })?;
        let number =
            |spec: &PortSpec| self.running.port(&spec.name).map_or(0, |port| port.number().0);
        Ok(specs.iter().map(number).collect())
    }

    fn set_ports(&mut self, specs: &[PortSpec]) -> Result<(), CtlError> {
        self.edit(|topology| {
            for PortSpec { name, options } in specs {
                let found = topology.ports.iter_mut().find(|port| port.name.as_str() == name);
                let missing = || CtlError::NotFound { kind: "port", name: name.clone() };
                let port = found.ok_or_else(missing)?;
                let start = ConfigPortSpec::of(port.clone());
                let wanted = options.iter().fold(start, |spec, (key, value)| spec.set(key, value));
                *port = wanted.build().map_err(Error::Config)?;
            }
            Ok(())
        })
    }

    fn del_port(&mut self, name: &str) -> Result<(), CtlError> {
        self.edit(|topology| {
            let before = topology.ports.len();
            topology.ports.retain(|port| port.name.as_str() != name);
            if topology.ports.len() == before {
                return Err(CtlError::NotFound { kind: "port", name: name.to_owned() });
            }
            Ok(())
        })
    }

    fn bridges(&mut self) -> Vec<String> {
        self.running.bridges.iter().map(|bridge| bridge.name.to_string()).collect()
    }

    fn visit_flows(&mut self, pmd: Option<u32>, visit: VisitFlow<'_>) -> Result<(), CtlError> {
        self.show_flows(pmd, visit)
    }

    fn flow(&mut self, ufid: u128, pmd: Option<u32>) -> Result<Option<FlowInfo>, CtlError> {
        self.find_flow(ufid, pmd)
    }

    fn add_flows(&mut self, flows: &[FlowSpec]) -> Result<(), (usize, CtlError)> {
        self.add_all_flows(flows)
    }

    fn mod_flow(&mut self, flow: &FlowSpec, clear: bool, create: bool) -> Result<(), CtlError> {
        self.change_flow(flow, clear, create)
    }

    fn del_flow(&mut self, flow: &FlowSpec) -> Result<(), CtlError> {
        self.del_flow_on(Ufid::of(&flow.rule), flow.pmd)
    }

    fn del_flow_by_ufid(&mut self, ufid: u128) -> Result<(), CtlError> {
        self.del_flow_on(Ufid(ufid), None)
    }

    fn del_flows(&mut self, core: u32, ufids: &[u128]) -> Result<u64, CtlError> {
        self.del_flows_on(core, ufids)
    }

    fn flush_flows(&mut self) -> Result<u64, CtlError> {
        self.del_all_flows()
    }

    fn wait_for_checks(&mut self) -> Result<(), CtlError> {
        self.on_threads(None, |pmd| pmd.datapath.recheck())?;
        let end = Instant::now() + CHECKED_WITHIN;
        let is_checked = |pmd: &mut crate::pmd::Pmd| pmd.datapath.is_checked(&*pmd.switch());
        while !self.on_threads(None, is_checked)?.into_iter().all(|done| done) {
            if Instant::now() > end {
                return Err(CtlError::Timeout("the check of all flows".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn meters(&mut self) -> Vec<MeterRow> {
        self.meters.rows().collect()
    }

    fn set_meter(&mut self, id: u32, config: MeterConfig) -> Result<(), CtlError> {
        self.meters.set(id, config).map_err(refused)
    }

    fn del_meter(&mut self, id: u32) -> Result<(), CtlError> {
        self.del_unused_meter(id)
    }

    fn read_upcalls(&mut self, max: usize) -> Result<Vec<Upcall>, CtlError> {
        self.take_upcalls(max)
    }

    fn rules(&mut self, bridge: &str) -> Result<Vec<RuleInfo>, CtlError> {
        self.rule_infos(bridge)
    }

    fn add_rules(&mut self, bridge: &str, rules: &[String]) -> Result<(), CtlError> {
        self.add_bridge_rules(bridge, rules)
    }

    fn del_rules(&mut self, bridge: &str, which: &RuleMatch) -> Result<u64, CtlError> {
        self.del_bridge_rules(bridge, which)
    }

    fn fdb(&mut self, bridge: &str) -> Result<Vec<FdbEntry>, CtlError> {
        let rows = self.switch.fdb_rows(bridge, self.clock.now()).map_err(Error::Bridge)?;
        let entry = |row: xvs_datapath::FdbRow| FdbEntry {
            port_no: row.port.0,
            port: self.switch.port_name(row.port).unwrap_or_default(),
            vlan: row.vlan.0,
            mac: row.mac,
            age: row.age_s,
        };
        Ok(rows.into_iter().map(entry).collect())
    }

    fn fdb_add(
        &mut self,
        bridge: &str,
        port: &str,
        vlan: VlanId,
        mac: MacAddr,
    ) -> Result<(), CtlError> {
        let no = self.switch.port_no(port).ok_or_else(|| Error::NoPort(port.to_owned()))?;
        Ok(self.switch.fdb_add(bridge, no, vlan, mac).map_err(Error::Bridge)?)
    }

    fn fdb_del(&mut self, bridge: &str, vlan: VlanId, mac: MacAddr) -> Result<bool, CtlError> {
        match self.switch.fdb_del(bridge, vlan, mac) {
            Ok(()) => Ok(true),
            Err(xvs_datapath::BridgeError::NoFdbEntry(_)) => Ok(false),
            Err(error) => Err(Error::Bridge(error).into()),
        }
    }

    fn fdb_flush(&mut self, bridge: &str) -> Result<(), CtlError> {
        Ok(self.switch.fdb_flush(bridge).map_err(Error::Bridge)?)
    }

    fn fdb_stats(&mut self, bridge: &str) -> Result<FdbStats, CtlError> {
        let stats = self.switch.fdb_stats(bridge).map_err(Error::Bridge)?;
        Ok(FdbStats {
            entries: stats.n_entries as u64,
            max_entries: stats.capacity as u64,
            static_entries: stats.n_static as u64,
            learned: stats.learned,
            expired: stats.expired,
            evicted: stats.evicted,
            moved: stats.moved,
        })
    }

    fn match_of_rule(&mut self, bridge: &str, text: &str) -> Result<Match, CtlError> {
        let filter = self.switch.parse_filter(bridge, text, true).map_err(Error::Bridge)?;
        Ok(filter.matching)
    }

    fn trace(&mut self, key: &FlowKey) -> Result<(Trace, Vec<PmdProbe>), CtlError> {
        let (trace, key) = (self.switch.trace(key, self.clock.now()), *key);
        let cores = self.threads.iter().map(|thread| thread.core().0);
        let cores: Vec<u32> = cores.collect();
        let probes = self.on_threads(None, move |pmd| pmd.datapath.probe(&key))?;
        let probe = |(core, probe)| PmdProbe { core, probe };
        Ok((trace, cores.into_iter().zip(probes).map(probe).collect()))
    }

    fn decisions(&mut self) -> SwitchCounters {
        self.switch.counters()
    }

    fn pmd_stats(&mut self) -> Result<Vec<PmdStats>, CtlError> {
        Ok(self.thread_stats())
    }

    fn clear_pmd_stats(&mut self, pmd: Option<u32>) -> Result<(), CtlError> {
        self.clear_thread_stats(pmd);
        Ok(())
    }

    fn pmd_rxqs(&mut self, secs: u32) -> Result<Vec<PmdRxqs>, CtlError> {
        Ok(self.thread_rxqs(secs))
    }

    fn rebalance(&mut self) -> Result<Vec<RxqMove>, CtlError> {
        Ok(self.rebalance_rxqs()?)
    }

    fn pmd_perf(
        &mut self,
        pmd: Option<u32>,
        n_iterations: usize,
        n_milliseconds: usize,
    ) -> Result<Option<Vec<PmdPerf>>, CtlError> {
        self.perf_views(pmd, (n_iterations, n_milliseconds))
    }

    fn suspect_passes(&mut self, rule: Option<Suspicion>) -> Result<(), CtlError> {
        self.set_suspicion(rule)
    }

    fn max_sleep_us(&mut self) -> u64 {
        self.running.pmd.sleep_max_us.into()
    }

    fn ledger(&mut self) -> Result<Ledger, CtlError> {
        Ok(self.take_ledger()?)
    }

    fn config_show(&mut self) -> ConfigView {
        ConfigView {
            file: self.file.as_ref().map(|file| file.display().to_string()),
            text: self.running.to_string(),
        }
    }

    fn config_check(&mut self, file: Option<&Path>) -> Result<Vec<String>, CtlError> {
        let wanted = self.load(file)?;
        Ok(self.check_topology(wanted)?)
    }

    fn config_reload(&mut self) -> Result<Vec<String>, CtlError> {
        let result = self.load(None).and_then(|wanted| Ok(self.become_topology(wanted)?));
        self.last_reload_error = result.as_ref().err().map(CtlError::to_string);
        if let Some(error) = &self.last_reload_error {
            slog::error!(self.log, "reload refused, the old configuration stays: {error}");
        }
        result
    }

    fn status(&mut self) -> Status {
        self.status_report()
    }

    fn log_levels(&mut self) -> Vec<LogLevel> {
        vec![LogLevel { module: "xvswitchd".to_owned(), level: self.level.get() }]
    }

    fn set_log_level(&mut self, module: Option<&str>, level: Level) -> Result<(), CtlError> {
        if let Some(module) = module.filter(|&module| module != "xvswitchd") {
            return Err(CtlError::NotFound { kind: "log module", name: module.to_owned() });
        }
        self.level.set(level);
        Ok(())
    }

    fn request_exit(&mut self, _cleanup: bool) {
        self.exit = true;
    }
}
