//! Flows of the PMD threads, for commands. Whatever touches many flows is many calls of the thread, between
//! which packets pass.

use xvs_datapath::{Action, DumpCursor, FlowError, FlowSnapshot, Match, Nanos, Ufid};

use super::threads::Thread;
use super::{Error, Switchd};
use crate::ctl::{CtlError, FlowInfo, FlowSpec, VisitFlow};
use crate::pmd::Pmd;

/// Flows that one call adds; to add one takes longer than to look at one.
const ADD_AT_ONCE: usize = 128;

fn flow_info(flow: FlowSnapshot, now: Nanos) -> FlowInfo {
    let used = flow.stats.used;
    FlowInfo {
        ufid: flow.ufid.0,
        rule: flow.rule,
        actions: flow.actions.to_vec(),
        packets: flow.stats.packets,
        bytes: flow.stats.bytes,
        used_ms: (flow.stats.packets > 0).then(|| now.since(used).0 / 1_000_000),
        tcp_flags: flow.stats.tcp_flags,
    }
}

/// As Open vSwitch words it.
fn flow_error(error: FlowError) -> CtlError {
    let why = match error {
        FlowError::Exists(_) => "File exists",
        FlowError::Missing(_) => "No such file or directory",
        FlowError::Full(_) => "No space left on device: raise flow-limit",
    };
    CtlError::Datapath { what: "updating flow table".to_owned(), why: why.to_owned() }
}

/// Adds flows of one call; on refusal, how many there are before the one that was refused.
fn add(
    pmd: &mut Pmd,
    flows: &[(Match, Box<[Action]>)],
    now: Nanos,
) -> Result<(), (usize, CtlError)> {
    let switch = pmd.switch();
    for (done, (rule, actions)) in flows.iter().enumerate() {
        let added = pmd.datapath.add(*rule, actions.clone(), &*switch, now);
        added.map_err(|error| (done, flow_error(error)))?;
    }
    Ok(())
}

/// Deletes flows of one call; returns how many there were.
fn del(pmd: &mut Pmd, ufids: &[Ufid], now: Nanos) -> u64 {
    let switch = pmd.switch();
    let there = ufids.iter().filter_map(|&ufid| pmd.datapath.del(ufid, &*switch, now));
    there.count() as u64
}

impl Switchd {
    /// The threads that are meant, at least one.
    pub(super) fn meant(&self, pmd: Option<u32>) -> Result<Vec<&Thread>, CtlError> {
        let meant = self.threads.iter().filter(|t| pmd.is_none_or(|core| core == t.core().0));
        let meant: Vec<_> = meant.collect();
        match pmd {
            Some(core) if meant.is_empty() => {
                let cores = self.threads.iter().map(|thread| thread.core().0).collect();
                Err(CtlError::NoThread { core, cores })
            }
            Some(_) | None => Ok(meant),
        }
    }

    /// Runs `f` on the threads that are meant.
    pub(super) fn on_threads<R: Send + 'static>(
        &self,
        pmd: Option<u32>,
        f: impl Fn(&mut Pmd) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, CtlError> {
        let call = |thread: &Thread| {
            let f = f.clone();
            Ok(thread.handle.call(move |pmd| f(pmd)).map_err(Error::Pmd)?)
        };
        self.meant(pmd)?.into_iter().map(call).collect()
    }

    pub(super) fn show_flows(
        &self,
        pmd: Option<u32>,
        visit: VisitFlow<'_>,
    ) -> Result<(), CtlError> {
        let now = self.clock.now();
        for thread in self.meant(pmd)? {
            let mut next = Some(DumpCursor::default());
            while let Some(from) = next {
                let dump = move |pmd: &mut Pmd| pmd.datapath.dump(from, DumpCursor::MAX_PLACES);
                let (some, rest) = thread.handle.call(dump).map_err(Error::Pmd)?;
                for flow in some {
                    visit(thread.core().0, flow_info(flow, now))?;
                }
                next = rest;
            }
        }
        Ok(())
    }

    pub(super) fn find_flow(
        &self,
        ufid: u128,
        pmd: Option<u32>,
    ) -> Result<Option<FlowInfo>, CtlError> {
        let now = self.clock.now();
        let found = self.on_threads(pmd, move |pmd| pmd.datapath.get(Ufid(ufid)))?;
        Ok(found.into_iter().flatten().next().map(|flow| flow_info(flow, now)))
    }

    /// Adds flows slice by slice, each to all threads that are meant; at a refusal all that was added goes.
    pub(super) fn add_all_flows(&self, flows: &[FlowSpec]) -> Result<(), (usize, CtlError)> {
        let now = self.clock.now();
        // What was added, and to which thread.
        let mut added: Vec<(&Thread, &[FlowSpec])> = Vec::new();
        for (number, slice) in flows.chunks(ADD_AT_ONCE).enumerate() {
            let first = number * ADD_AT_ONCE;
            let pmd = slice.first().and_then(|flow| flow.pmd);
            for thread in self.meant(pmd).map_err(|error| (first, error))? {
                let batch = slice.iter().map(|flow| (flow.rule, flow.actions.clone().into()));
                let batch: Vec<_> = batch.collect();
                let call = thread.handle.call(move |pmd| add(pmd, &batch, now));
                // A thread that does not answer may yet add them.
                let failed = |error| Err((slice.len(), Error::Pmd(error).into()));
                if let Err((done, error)) = call.unwrap_or_else(failed) {
                    added.push((thread, slice.get(..done).unwrap_or_default()));
                    self.take_back(&added);
                    return Err((first + done, error));
                }
                added.push((thread, slice));
            }
        }
        Ok(())
    }

    fn take_back(&self, added: &[(&Thread, &[FlowSpec])]) {
        let now = self.clock.now();
        for (thread, flows) in added {
            let ufids: Vec<_> = flows.iter().map(|flow| Ufid::of(&flow.rule)).collect();
            if let Err(error) = thread.handle.call(move |pmd| del(pmd, &ufids, now)) {
                slog::error!(self.log, "flows that were refused as a whole may be there: {error}");
            }
        }
    }

    pub(super) fn change_flow(
        &self,
        flow: &FlowSpec,
        clear: bool,
        create: bool,
    ) -> Result<(), CtlError> {
        let (rule, actions, now) = (flow.rule, flow.actions.clone(), self.clock.now());
        let modify = move |pmd: &mut Pmd| {
            let (ufid, actions) = (Ufid::of(&rule), actions.clone().into_boxed_slice());
            match pmd.datapath.modify(ufid, actions.clone(), clear) {
                Err(FlowError::Missing(_)) if create => {
                    let switch = pmd.switch();
                    pmd.datapath.add(rule, actions, &*switch, now).map(|_| ())
                }
                result => result,
            }
        };
        let results = self.on_threads(flow.pmd, modify)?;
        // A flow of the bridge may be cached by some threads only.
        let best = results.into_iter().reduce(|a, b| if a.is_ok() { a } else { b });
        best.unwrap_or(Ok(())).map_err(flow_error)
    }

    pub(super) fn del_flow_on(&self, ufid: Ufid, pmd: Option<u32>) -> Result<(), CtlError> {
        let now = self.clock.now();
        let n: u64 = self.on_threads(pmd, move |pmd| del(pmd, &[ufid], now))?.into_iter().sum();
        if n > 0 {
            return Ok(());
        }
        let (what, why) = ("deleting flow".to_owned(), "No such file or directory".to_owned());
        Err(CtlError::Datapath { what, why })
    }

    pub(super) fn del_flows_on(&self, core: u32, ufids: &[u128]) -> Result<u64, CtlError> {
        let (now, mut n) = (self.clock.now(), 0);
        for slice in ufids.chunks(DumpCursor::MAX_PLACES) {
            let slice: Vec<_> = slice.iter().copied().map(Ufid).collect();
            let removed = self.on_threads(Some(core), move |pmd| del(pmd, &slice, now))?;
            n += removed.into_iter().sum::<u64>();
        }
        Ok(n)
    }

    pub(super) fn del_all_flows(&self) -> Result<u64, CtlError> {
        let (now, mut n) = (self.clock.now(), 0);
        for thread in &self.threads {
            let mut next = Some(DumpCursor::default());
            n += thread.datapath.flows.get();
            while let Some(from) = next {
                let flush = move |pmd: &mut Pmd| {
                    let switch = pmd.switch();
                    pmd.datapath.flush(from, DumpCursor::MAX_PLACES, &*switch, now)
                };
                next = thread.handle.call(flush).map_err(Error::Pmd)?;
            }
        }
        Ok(n)
    }
}
