//! The seam between the commands and the daemon: [`Control`].
//!
//! Commands parse text and print; the daemon behind this trait does the work. Every method runs on
//! the main thread and returns in bounded time: one that asks PMD threads waits for each at most as
//! long as the daemon's own limit and then returns [`CtlError::Timeout`].

use std::path::Path;

use xvs_datapath::{
    Action, FlowKey, MacAddr, Match, MeterConfig, MeterRow, SwitchCounters, Trace, VlanId,
};

use super::{
    ConfigView, CtlError, FdbEntry, FdbStats, FlowInfo, Ledger, Level, LogLevel, PmdPerf, PmdProbe,
    PmdRxqs, PmdStats, PortInfo, RuleInfo, RxqMove, Status, Upcall,
};
use crate::pmd::Suspicion;

/// A port to be added: its name, and options named as the keys of `[[port]]` in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSpec {
    /// The interface.
    pub name: String,
    /// `(key, value)` as given, `bridge` and `type` included.
    pub options: Vec<(String, String)>,
}

/// A datapath flow to be added, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The packets.
    pub rule: Match,
    /// What to do; empty drops.
    pub actions: Vec<Action>,
    /// The PMD thread by core, or all.
    pub pmd: Option<u32>,
}

/// Is shown a flow and the core of its thread.
pub type VisitFlow<'a> = &'a mut dyn FnMut(u32, FlowInfo) -> Result<(), CtlError>;

/// Which rules of a bridge are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleMatch {
    /// Match in rule syntax, with `table=` and, if strict, `priority=`; empty means all.
    pub text: String,
    /// Only rules with exactly this match and priority, rather than all that it covers.
    pub strict: bool,
}

/// What commands may ask of the daemon and tell it.
///
/// Reading methods return what was true at a recent pass boundary. Changing methods do all or nothing.
#[allow(
    clippy::missing_errors_doc,
    reason = "each returns why it refused; CtlError lists the kinds"
)]
pub trait Control {
    /// All ports, by number, also those that are not bound.
    fn ports(&mut self) -> Result<Vec<PortInfo>, CtlError>;

    /// Adds ports, all or none; binding goes on afterwards and never blocks the command. Returns their numbers.
    /// A device that is missing is no error: the port waits for it.
    fn add_ports(&mut self, specs: &[PortSpec]) -> Result<Vec<u32>, CtlError>;

    /// Changes options of ports that exist; all or none.
    fn set_ports(&mut self, specs: &[PortSpec]) -> Result<(), CtlError>;

    /// Removes a port; its sockets drain afterwards.
    fn del_port(&mut self, name: &str) -> Result<(), CtlError>;

    /// The names of the bridges, in configuration order.
    fn bridges(&mut self) -> Vec<String>;

    /// Shows the cached flows of each PMD thread, or of one, with the core of the thread, in no order. They are
    /// taken from the thread in slices, between which packets pass; whatever comes or goes meanwhile may be
    /// missed. A refusal of `visit` ends it.
    fn visit_flows(&mut self, pmd: Option<u32>, visit: VisitFlow<'_>) -> Result<(), CtlError>;

    /// The flow with that identifier, as the first of the threads that are meant has it.
    fn flow(&mut self, ufid: u128, pmd: Option<u32>) -> Result<Option<FlowInfo>, CtlError>;

    /// Adds flows, all or none; `Datapath { "updating flow table", "File exists" }` when there is one with that
    /// key. On refusal says which of them was refused.
    fn add_flows(&mut self, flows: &[FlowSpec]) -> Result<(), (usize, CtlError)>;

    /// Replaces the actions of a flow and clears its counters if `clear`. Without such a flow: adds it
    /// if `create`, else `Datapath { "updating flow table", "No such file or directory" }`.
    fn mod_flow(&mut self, flow: &FlowSpec, clear: bool, create: bool) -> Result<(), CtlError>;

    /// Removes the flow with that match (actions are ignored).
    fn del_flow(&mut self, flow: &FlowSpec) -> Result<(), CtlError>;

    /// Removes the flow with that identifier from all threads.
    fn del_flow_by_ufid(&mut self, ufid: u128) -> Result<(), CtlError>;

    /// Removes the flows with these identifiers from the thread of a core; returns how many there were.
    fn del_flows(&mut self, core: u32, ufids: &[u128]) -> Result<u64, CtlError>;

    /// Removes all flows; returns how many.
    fn flush_flows(&mut self) -> Result<u64, CtlError>;

    /// Waits until every flow has been checked against the rules once more and the rules have heard of
    /// every packet so far; two seconds at most, then [`CtlError::Timeout`].
    fn wait_for_checks(&mut self) -> Result<(), CtlError>;

    /// The meters, by number.
    fn meters(&mut self) -> Vec<MeterRow>;

    /// Makes a meter, or changes the rate of one.
    fn set_meter(&mut self, id: u32, config: MeterConfig) -> Result<(), CtlError>;

    /// Removes a meter; refused while a flow or rule names it.
    fn del_meter(&mut self, id: u32) -> Result<(), CtlError>;

    /// Takes out the oldest packets that `userspace()` queued, of all threads together `max` at most.
    fn read_upcalls(&mut self, max: usize) -> Result<Vec<Upcall>, CtlError>;

    /// The rules of a bridge, by table and falling priority.
    fn rules(&mut self, bridge: &str) -> Result<Vec<RuleInfo>, CtlError>;

    /// Adds rules (each in ovs-ofctl syntax), replacing those with the same table, priority and match;
    /// all or none.
    fn add_rules(&mut self, bridge: &str, rules: &[String]) -> Result<(), CtlError>;

    /// Removes the rules that are meant; returns how many.
    fn del_rules(&mut self, bridge: &str, which: &RuleMatch) -> Result<u64, CtlError>;

    /// The MAC table of a bridge.
    fn fdb(&mut self, bridge: &str) -> Result<Vec<FdbEntry>, CtlError>;

    /// Adds a static entry.
    fn fdb_add(
        &mut self,
        bridge: &str,
        port: &str,
        vlan: VlanId,
        mac: MacAddr,
    ) -> Result<(), CtlError>;

    /// Removes a static entry; returns false when there is none.
    fn fdb_del(&mut self, bridge: &str, vlan: VlanId, mac: MacAddr) -> Result<bool, CtlError>;

    /// Forgets the learned entries of a bridge.
    fn fdb_flush(&mut self, bridge: &str) -> Result<(), CtlError>;

    /// Counters of the MAC table of a bridge.
    fn fdb_stats(&mut self, bridge: &str) -> Result<FdbStats, CtlError>;

    /// The match of a rule of this bridge, as ovs-ofctl writes it without actions.
    fn match_of_rule(&mut self, bridge: &str, text: &str) -> Result<Match, CtlError>;

    /// What would happen to a packet: the bridge's decision, and where each thread would find its flow.
    fn trace(&mut self, key: &FlowKey) -> Result<(Trace, Vec<PmdProbe>), CtlError>;

    /// What the bridges decided.
    fn decisions(&mut self) -> SwitchCounters;

    /// What each PMD thread did since its statistics were cleared.
    fn pmd_stats(&mut self) -> Result<Vec<PmdStats>, CtlError>;

    /// Starts the statistics of the PMD threads (or one, by core) afresh.
    fn clear_pmd_stats(&mut self, pmd: Option<u32>) -> Result<(), CtlError>;

    /// Which receive queues each PMD thread polls, with their share of time over the last `secs`.
    fn pmd_rxqs(&mut self, secs: u32) -> Result<Vec<PmdRxqs>, CtlError>;

    /// Spreads the receive queues over the threads by how busy they were lately; which were moved.
    fn rebalance(&mut self) -> Result<Vec<RxqMove>, CtlError>;

    /// What the threads that are meant measured of their passes, with so many of the last passes and milliseconds
    /// each; `None` when nothing is measured.
    fn pmd_perf(
        &mut self,
        pmd: Option<u32>,
        n_iterations: usize,
        n_milliseconds: usize,
    ) -> Result<Option<Vec<PmdPerf>>, CtlError>;

    /// Has the log told of suspicious passes, or not any more; refused when nothing is measured.
    fn suspect_passes(&mut self, rule: Option<Suspicion>) -> Result<(), CtlError>;

    /// The longest sleep of an idle thread, in microseconds; 0: it polls always.
    fn max_sleep_us(&mut self) -> u64;

    /// Both ledgers, at a pass boundary of every thread.
    fn ledger(&mut self) -> Result<Ledger, CtlError>;

    /// The running configuration as canonical text.
    fn config_show(&mut self) -> ConfigView;

    /// What a reload of `file` (else of the running configuration's file) would change, one line each.
    fn config_check(&mut self, file: Option<&Path>) -> Result<Vec<String>, CtlError>;

    /// Reads the configuration file again and applies the difference; what changed, one line each.
    /// On any error the old configuration stays.
    fn config_reload(&mut self) -> Result<Vec<String>, CtlError>;

    /// The daemon in brief.
    fn status(&mut self) -> Status;

    /// The log levels.
    fn log_levels(&mut self) -> Vec<LogLevel>;

    /// Sets the level of one log module, or of all.
    fn set_log_level(&mut self, module: Option<&str>, level: Level) -> Result<(), CtlError>;

    /// Asks the main loop to end after this command's reply has been sent.
    fn request_exit(&mut self, cleanup: bool);
}
