//! The main thread's state: what runs, what is wanted, and the threads that do it.
//!
//! It touches no packet. Ports and configuration are changed here and nowhere else; PMD threads are
//! asked by commands that run between two passes.

mod apply;
mod bridges;
mod control;
mod error;
mod flows;
mod ledger;
mod links;
mod meters;
mod perf;
mod ports;
mod rebalance;
mod report;
mod threads;
mod usage;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use slog::Logger;
use xvs_config::Topology;
use xvs_datapath::{Meters, Nanos, PortNo, Switch};
use xvs_netdev_afxdp::{Device, Drain, Hugepages, LinkMonitor, Umem, UmemConfig, UmemGroups};

use crate::clock::Clock;
use crate::log::LogLevel;
use crate::pmd::Suspicion;

pub use error::Error;
use ledger::Retired;
use ports::Port;
use threads::Thread;

/// Headroom of every frame, beyond what the kernel adds: for tags to be pushed and for tx metadata.
const HEADROOM: u32 = 128;

/// The running switch.
#[derive(Debug)]
pub struct Switchd {
    log: Logger,
    level: LogLevel,
    clock: Clock,
    /// Where the configuration came from, and comes from again on reload.
    file: Option<PathBuf>,
    run_dir: PathBuf,
    running: Topology,
    generation: u64,
    last_reload_error: Option<String>,
    umem: &'static Umem,
    switch: Arc<Switch>,
    /// Shared by all threads.
    meters: Arc<Meters>,
    threads: Vec<Thread>,
    ports: BTreeMap<PortNo, Port>,
    /// Closed sockets whose frames the kernel may still hold.
    draining: Vec<Drain>,
    /// When a port of this name was last closed: the kernel may release its queue late.
    closed: BTreeMap<String, Nanos>,
    groups: UmemGroups,
    links: Option<LinkMonitor>,
    retired: Retired,
    /// Which passes of the threads the log is told of.
    suspicion: Option<Suspicion>,
    /// Decisions of each bridge that met a bound, as far as the log was told, and when.
    limited: BTreeMap<Arc<str>, (u64, Nanos)>,
    /// Set when mode or group of the control socket are to change; the main loop takes it.
    control_changed: Option<xvs_config::Control>,
    exit: bool,
}

/// The NUMA node of the first port that has one: there the packet memory is to be.
fn numa_node(wanted: &Topology) -> Option<u32> {
    wanted.ports.iter().find_map(|port| Device::find(port.name.as_str()).ok()?.numa_node)
}

/// What a daemon needs to know besides its topology.
#[derive(Debug)]
pub struct Setup {
    /// Where log lines go.
    pub log: Logger,
    /// Their level.
    pub level: LogLevel,
    /// The clock.
    pub clock: Clock,
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// The run directory in force.
    pub run_dir: PathBuf,
}

impl Switchd {
    /// Takes the packet memory, starts the threads and opens bridges and ports.
    ///
    /// # Errors
    /// What could not be had; everything is closed again.
    pub fn start(setup: Setup, wanted: &Topology) -> Result<Self, Error> {
        let umem = Umem::create(UmemConfig {
            frames: wanted.umem.frames,
            frame_size: wanted.umem.frame_size,
            hugepages: if wanted.umem.hugepages { Hugepages::Prefer } else { Hugepages::Never },
            headroom: HEADROOM,
            numa_node: numa_node(wanted),
        })?;
        if wanted.umem.hugepages && !umem.hugepages() {
            slog::warn!(
                setup.log,
                "no hugepages for the packet memory, normal pages are used: raise \
                vm.nr_hugepages"
            );
        }
        let Setup { log, level, clock, file, run_dir } = setup;
        // What cannot change without a restart is running from the start.
        let running = Topology {
            general: wanted.general.clone(),
            umem: wanted.umem.clone(),
            pmd: wanted.pmd.clone(),
            datapath: wanted.datapath.clone(),
            log: wanted.log.clone(),
            control: wanted.control.clone(),
            ..Topology::default()
        };
        let mut switchd = Self {
            log,
            level,
            clock,
            file,
            run_dir,
            running,
            generation: 0,
            last_reload_error: None,
            umem,
            switch: Arc::new(Switch::new()),
            meters: Arc::default(),
            threads: Vec::new(),
            ports: BTreeMap::new(),
            draining: Vec::new(),
            closed: BTreeMap::new(),
            groups: UmemGroups::new(umem),
            links: Some(LinkMonitor::new()?),
            retired: Retired::default(),
            suspicion: None,
            limited: BTreeMap::new(),
            control_changed: None,
            exit: false,
        };
        switchd.threads = switchd.start_threads(&wanted.pmd)?;
        switchd.become_topology(wanted.clone())?;
        Ok(switchd)
    }

    /// Closes all ports and stops the threads. Sockets leave their maps before they close.
    pub fn stop(&mut self) {
        let names: Vec<_> = self.running.ports.iter().map(|port| port.name.to_string()).collect();
        for name in names {
            if let Err(error) = self.close_port(&name) {
                slog::error!(self.log, "cannot close {name}: {error}");
            }
        }
        let threads = std::mem::take(&mut self.threads);
        self.stop_threads(threads);
    }

    /// Mode and group of the control socket, when they have changed since the last call.
    pub fn take_control_change(&mut self) -> Option<xvs_config::Control> {
        self.control_changed.take()
    }

    /// True when a command has asked the daemon to end.
    #[must_use]
    pub fn wants_exit(&self) -> bool {
        self.exit
    }

    /// To be called when [`Switchd::next_tick`] says so: retries, ageing, frames that came free.
    pub fn tick(&mut self) {
        let now = self.clock.now();
        self.switch.tick(now);
        self.warn_of_loops(now);
        self.sample_usage(now);
        self.tell_suspicious();
        self.restart_stopped();
        self.reclaim();
        self.retry_ports(now);
    }
}
