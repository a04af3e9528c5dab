//! Where every packet ended and where every frame is: read while all threads stand between two passes.

use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use xvs_datapath::{DatapathStats, DropCounters, DropReason};
use xvs_netdev_afxdp::{RxStats, TxStats};

use super::threads::Thread;
use super::{Error, Switchd};
use crate::ctl::{FrameLedger, Ledger, PacketLedger};
use crate::pmd::PmdError;

/// How long the threads may take until all stand still; usually a few microseconds.
const ALL_WITHIN: Duration = Duration::from_millis(200);

/// How long a thread stands still for the others at most: longer, so that all stand when they are read.
const STAND_STILL: Duration = Duration::from_millis(400);

/// Counts of sockets and threads that are gone.
#[derive(Debug, Default)]
pub(super) struct Retired(PacketLedger);

impl Retired {
    pub(super) fn rx(&mut self, stats: &RxStats) {
        add_rx(&mut self.0, stats);
    }

    pub(super) fn tx(&mut self, stats: &TxStats) {
        add_tx(&mut self.0, stats);
    }

    pub(super) fn drops(&mut self, drops: &DropCounters) {
        self.0.drops.add_all(drops);
    }

    pub(super) fn thread(&mut self, stats: &DatapathStats) {
        add_thread(&mut self.0, stats);
    }
}

fn add_rx(ledger: &mut PacketLedger, stats: &RxStats) {
    ledger.rx += stats.packets.get();
    ledger.drops.add(DropReason::TooManyFrames, stats.too_many_frames.get());
}

fn add_tx(ledger: &mut PacketLedger, stats: &TxStats) {
    ledger.tx += stats.packets.get();
    ledger.segments += stats.segments.get();
    ledger.queued += stats.queued.get();
}

fn add_thread(ledger: &mut PacketLedger, stats: &DatapathStats) {
    ledger.copies += stats.copies.get();
    ledger.drops.add_all(&stats.drops);
}

impl Switchd {
    /// Both ledgers, with every thread between two passes.
    pub(super) fn take_ledger(&self) -> Result<Ledger, Error> {
        let hung = |thread: &Thread| PmdError::Hung(thread.core());
        if let Some(thread) = self.threads.iter().find(|thread| thread.handle.is_hung()) {
            return Err(hung(thread).into());
        }
        let deadline = Instant::now() + ALL_WITHIN;
        let mut gates = Vec::with_capacity(self.threads.len());
        for thread in &self.threads {
            let (arrive, arrived) = bounded(1);
            let (gate, opened) = bounded::<()>(1);
            thread.handle.post(move |_| {
                // Both fail only when the other side has given up.
                let _ = arrive.send(());
                let _ = opened.recv_timeout(STAND_STILL);
            })?;
            gates.push((gate, arrived));
        }
        for (thread, (_, arrived)) in self.threads.iter().zip(&gates) {
            arrived.recv_deadline(deadline).map_err(|_| hung(thread))?;
        }
        let ledger = self.read_ledger();
        drop(gates);
        Ok(ledger)
    }

    fn read_ledger(&self) -> Ledger {
        let mut packets = self.retired.0.clone();
        for thread in &self.threads {
            add_thread(&mut packets, &thread.datapath);
        }
        for drops in self.ports.values().flat_map(super::Port::drops) {
            packets.drops.add_all(drops);
        }
        for queue in self.ports.values().flat_map(super::Port::queues) {
            add_rx(&mut packets, &queue.rx);
            add_tx(&mut packets, &queue.tx);
        }
        let frames = self.umem.ledger();
        Ledger {
            packets,
            frames: FrameLedger {
                total: frames.frames,
                pool: frames.pool,
                caches: frames.caches,
                batches: 0,
                queued: frames.queued,
                filled: frames.filled,
                tx: frames.tx,
                held: 0,
                quarantined: frames.quarantined,
            },
        }
    }
}
