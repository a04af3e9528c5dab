//! Starting, stopping and configuring the PMD threads, and which queue is polled by which.

use std::sync::Arc;
use std::time::Duration;

use slog::{error, info};
use xvs_config::{Datapath as DatapathSettings, Pmd as PmdSettings};
use xvs_datapath::{CoreId, Datapath, DatapathConfig, DatapathStats, Nanos};
use xvs_netdev_afxdp::FrameCache;

use super::usage::History;
use super::{Error, Switchd};
use crate::numa::node_of;
use crate::pmd::{Pmd, PmdConfig, PmdHandle};

/// A PMD thread, with what is read of it without asking.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) handle: PmdHandle,
    /// The NUMA node of its core.
    pub(super) numa: u32,
    pub(super) datapath: Arc<DatapathStats>,
    /// What the counters were when the statistics were cleared.
    pub(super) baseline: Baseline,
    /// Its busy time.
    pub(super) usage: History,
}

macro_rules! baseline {
    ($($field:ident: $source:ident,)+) => {
        /// The counters of a thread at some time; counters themselves never go back.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct Baseline {
            pub(super) at: Nanos,
            $(pub(super) $field: u64,)+
        }

        impl Baseline {
            /// The counters now.
            pub(super) fn take(handle: &PmdHandle, datapath: &DatapathStats, at: Nanos) -> Self {
                let pmd = handle.stats();
                Self { at, $($field: $source!(pmd, datapath).$field.get(),)+ }
            }
        }
    };
}

macro_rules! pmd {
    ($pmd:ident, $datapath:ident) => {
        $pmd
    };
}
macro_rules! path {
    ($pmd:ident, $datapath:ident) => {
        $datapath
    };
}

baseline! {
    passes: pmd, busy_passes: pmd, sleeps: pmd, sleep_ns: pmd, busy_ns: pmd, idle_ns: pmd,
    tx_packets: pmd, tx_batches: pmd,
    rx_packets: path, emc_hits: path, smc_hits: path, megaflow_hits: path, masked_lookups: path, misses: path,
    recirculated: path, lost_upcalls: path,
}

impl Thread {
    pub(super) fn core(&self) -> CoreId {
        self.handle.core()
    }
}

fn pmd_config(pmd: &PmdSettings) -> PmdConfig {
    PmdConfig {
        batch_size: pmd.batch_size as usize,
        sleep_max: Duration::from_micros(pmd.sleep_max_us.into()),
        perf_metrics: pmd.perf_metrics,
    }
}

fn datapath_config(pmd: &PmdSettings, datapath: &DatapathSettings) -> DatapathConfig {
    DatapathConfig {
        emc_insert_one_in: pmd.emc_insert_inv_prob,
        smc: pmd.smc_enable,
        flow_limit: datapath.flow_limit as usize,
        max_idle: Nanos::from_millis(datapath.max_idle_ms.into()),
        ..DatapathConfig::default()
    }
}

/// What hashes start from: not to be guessed from outside.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

impl Switchd {
    /// Starts a thread on each core of the mask: all or none.
    pub(super) fn start_threads(&mut self, pmd: &PmdSettings) -> Result<Vec<Thread>, Error> {
        let mut threads = Vec::new();
        for core in pmd.cpu_mask.cores() {
            match self.start_thread(core, pmd) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    self.stop_threads(threads);
                    return Err(error);
                }
            }
        }
        Ok(threads)
    }

    fn start_thread(&self, core: CoreId, pmd: &PmdSettings) -> Result<Thread, Error> {
        let mut datapath = Datapath::new(datapath_config(pmd, &self.running.datapath), seed());
        datapath.share_meters(Arc::clone(&self.meters));
        let stats = Arc::clone(datapath.stats());
        let cache = FrameCache::new(self.umem, FrameCache::DEFAULT_LIMIT);
        let switch = Arc::clone(&self.switch);
        let config = pmd_config(pmd);
        let handle = PmdHandle::start(core, self.clock, |sleeper| {
            Pmd::new(config, datapath, cache, switch, sleeper)
        })?;
        let now = self.clock.now();
        Ok(Thread {
            handle,
            numa: node_of(core),
            datapath: stats,
            baseline: Baseline { at: now, ..Baseline::default() },
            usage: History::start(now, 0),
        })
    }

    /// Stops threads that have no ports any more.
    pub(super) fn stop_threads(&mut self, threads: Vec<Thread>) {
        for mut thread in threads {
            if thread.handle.stop().is_none() {
                error!(self.log, "{} does not stop", crate::pmd::thread_name(thread.core()));
            }
            self.retired.thread(&thread.datapath);
        }
    }

    /// Changes the threads: their settings between two passes, or, for another set of cores, by handing
    /// all ports to new threads. Those are there first, so that a refusal disturbs nothing.
    pub(super) fn set_pmd(&mut self, pmd: &PmdSettings, other_cores: bool) -> Result<(), Error> {
        if !other_cores {
            let (config, datapath) =
                (pmd_config(pmd), datapath_config(pmd, &self.running.datapath));
            self.each_thread(move |pmd| {
                pmd.set_config(config);
                pmd.datapath.configure(datapath);
            })?;
            self.suspect()?;
            if pmd.batch_size != self.running.pmd.batch_size {
                for port in self.ports.values() {
                    self.warn_of_values(&port.settings, port.queues(), pmd.batch_size);
                }
            }
            return Ok(());
        }
        let threads = self.start_threads(pmd)?;
        let ports: Vec<_> = self.ports.keys().copied().collect();
        ports.into_iter().for_each(|no| self.unbind(no, "it moves to other threads".to_owned()));
        let before = std::mem::replace(&mut self.threads, threads);
        self.stop_threads(before);
        self.suspect()?;
        self.retry_ports(self.clock.now());
        info!(self.log, "threads run on cores {}", pmd.cpu_mask);
        Ok(())
    }

    /// Changes the limits of the flow tables.
    pub(super) fn set_datapath(&mut self, datapath: &DatapathSettings) -> Result<(), Error> {
        let config = datapath_config(&self.running.pmd, datapath);
        self.each_thread(move |pmd| pmd.datapath.configure(config))
    }

    fn each_thread(&self, f: impl FnOnce(&mut Pmd) + Clone + Send + 'static) -> Result<(), Error> {
        for thread in &self.threads {
            thread.handle.call(f.clone())?;
        }
        Ok(())
    }
}
