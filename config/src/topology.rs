//! The validated configuration, and what must hold between its parts.

use std::collections::BTreeSet;

use crate::conflicts;
use crate::kinds::Auto;
use crate::{
    Bridge, Control, Datapath, Error, Errors, General, Log, Pmd, Port, Problem, Section, Subject,
    Umem,
};
use xvs_datapath::PortNo;

/// What the switch is made of. Every value is within its limits; [`check`](Self::check) says whether
/// the values also fit together, which holds for everything that [`parse`](crate::parse) returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Of the process.
    pub general: General,
    /// Packet memory.
    pub umem: Umem,
    /// Threads.
    pub pmd: Pmd,
    /// Flow table.
    pub datapath: Datapath,
    /// Log.
    pub log: Log,
    /// Control socket.
    pub control: Control,
    /// Bridges, in the order of the file.
    pub bridges: Vec<Bridge>,
    /// Ports, in the order of the file.
    pub ports: Vec<Port>,
}

impl Default for Topology {
    /// All defaults, no bridge and no port.
    fn default() -> Self {
        Self {
            general: General::preset(),
            umem: Umem::preset(),
            pmd: Pmd::preset(),
            datapath: Datapath::preset(),
            log: Log::preset(),
            control: Control::preset(),
            bridges: Vec::new(),
            ports: Vec::new(),
        }
    }
}

/// Settings that do not fit together.
#[derive(Debug)]
pub struct Fault {
    /// The section to blame.
    pub section: &'static str,
    /// Which of several of that section.
    pub index: usize,
    /// The key to blame.
    pub key: &'static str,
    /// What is wrong.
    pub problem: Problem,
    /// Sections of which any may be the cause.
    pub(crate) depends: &'static [&'static str],
}

/// Frames that a PMD thread keeps in its cache and its batches at most.
const FRAMES_PER_THREAD: u64 = 1024;

impl Topology {
    /// Frames that all rings and threads can hold at once: for each port n-rxq × rx-ring and, as each
    /// thread has a transmit queue, threads × tx-ring; and 1024 for each thread.
    #[must_use]
    pub fn frames_needed(&self) -> u64 {
        let threads = self.pmd.cpu_mask.n_cores();
        let ports = self.ports.iter().map(|port| port.frames_needed(threads));
        ports.sum::<u64>() + u64::from(threads) * FRAMES_PER_THREAD
    }

    /// Checks what must hold between settings. To be called before a port is added by hand.
    ///
    /// # Errors
    /// All that does not fit together.
    pub fn check(&self) -> Result<(), Errors> {
        let errors = self.faults().into_iter().map(|fault| Error::from(fault.problem));
        Errors::collect(errors.collect()).map_or(Ok(()), Err)
    }

    /// What [`check`](Self::check) finds, with the section and key to blame.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let bridges = self.bridges.iter().map(|bridge| (&bridge.name, Some(&bridge.name)));
        duplicates(bridges, Bridge::NAME, "name", &mut faults);
        let ports = self.ports.iter().map(|port| (&port.name, Some(&port.name)));
        duplicates(ports, Port::NAME, "name", &mut faults);
        let numbers = self.ports.iter().map(|port| (&port.name, port.port_no.fixed()));
        duplicates(numbers, Port::NAME, "port-no", &mut faults);
        for (index, port) in self.ports.iter().enumerate() {
            self.port_faults(index, port, &mut faults);
        }
        self.size_faults(&mut faults);
        faults
    }

    fn port_faults(&self, index: usize, port: &Port, faults: &mut Vec<Fault>) {
        if !self.bridges.iter().any(|bridge| bridge.name == port.bridge) {
            let bridges = self.bridges.iter().map(|bridge| bridge.name.to_string()).collect();
            let (port, bridge) = (port.name.clone(), port.bridge.clone());
            let problem = Problem::UnknownBridge { port, bridge, bridges };
            let (section, key, depends) = (Port::NAME, "bridge", &[Bridge::NAME] as &[_]);
            faults.push(Fault { section, index, key, problem, depends });
        }
        for conflict in conflicts::of(port) {
            let (section, key) = (Port::NAME, conflict.key);
            let problem = conflict.problem(port);
            faults.push(Fault { section, index, key, problem, depends: &[] });
        }
    }

    fn size_faults(&self, faults: &mut Vec<Fault>) {
        let n_ports = self.ports.len();
        if n_ports > PortNo::MAX.index() {
            let problem = Problem::TooManyPorts { n_ports };
            let (section, index, key) = (Port::NAME, n_ports - 1, "name");
            faults.push(Fault { section, index, key, problem, depends: &[] });
        }
        let (needed, frames) = (self.frames_needed(), self.umem.frames);
        if needed > u64::from(frames) {
            let problem = Problem::TooFewFrames { needed, frames };
            let depends = &[Umem::NAME, Pmd::NAME, Port::NAME];
            let (section, index, key) = (Umem::NAME, 0, "frames");
            faults.push(Fault { section, index, key, problem, depends });
        }
    }

    /// Gives each port whose number is the daemon's choice one: the number that it has in `running`,
    /// else the lowest free one, in the order of the file.
    #[must_use]
    pub fn numbered(mut self, running: Option<&Self>) -> Self {
        let mut taken: BTreeSet<u32> =
            self.ports.iter().filter_map(|port| port.port_no.fixed()).collect();
        let running = running.map_or(&[] as &[_], |running| &running.ports);
        for port in &mut self.ports {
            let same = running.iter().find(|running| running.name == port.name);
            if let (Auto::Auto, Some(number)) = (port.port_no, same.and_then(|p| p.port_no.fixed()))
                && taken.insert(number)
            {
                port.port_no = Auto::Fixed(number);
            }
        }
        for port in &mut self.ports {
            if port.port_no == Auto::Auto {
                let free = (1..=PortNo::MAX.0).find(|&number| taken.insert(number));
                port.port_no = free.map_or(Auto::Auto, Auto::Fixed);
            }
        }
        self
    }

    /// The port on this interface.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<&Port> {
        self.ports.iter().find(|port| port.name.as_str() == name)
    }

    /// The bridge of this name.
    #[must_use]
    pub fn bridge(&self, name: &str) -> Option<&Bridge> {
        self.bridges.iter().find(|bridge| bridge.name.as_str() == name)
    }
}

/// Adds a fault for each value that an earlier one of the section has too. `values` come with the name
/// of their owner.
fn duplicates<V: Ord + ToString>(
    values: impl Iterator<Item = (impl ToString, Option<V>)>,
    section: &'static str,
    key: &'static str,
    faults: &mut Vec<Fault>,
) {
    let mut seen = BTreeSet::new();
    for (index, (owner, value)) in values.enumerate() {
        let Some(value) = value else { continue };
        let (subject, text) = (Subject::Named(section, owner.to_string()), value.to_string());
        if !seen.insert(value) {
            let problem = Problem::Duplicate { subject, key, value: text };
            faults.push(Fault { section, index, key, problem, depends: &[] });
        }
    }
}
