//! The two halves of a port that a PMD thread drives. Implementations live beside the drivers.

use crate::{DropCounters, Nanos, PacketBatch};

/// A receive queue with one owner.
pub trait RxQueue {
    /// The kind of packet it yields.
    type Packet;
    /// The owning thread's cache of free frames.
    type Cache;

    /// Adds up to `batch.room()` received packets to `batch`, refills what the device needs, and
    /// returns how many were added. Never blocks.
    fn receive(&mut self, batch: &mut PacketBatch<Self::Packet>, cache: &mut Self::Cache) -> usize;
}

/// A transmit queue with one owner at a time.
pub trait TxQueue {
    /// The kind of packet it takes.
    type Packet;
    /// The owning thread's cache of free frames.
    type Cache;

    /// Queues all of `bin`, leaving it empty; what does not fit goes to `cache` and is counted in
    /// `drops` with its reason. No system call.
    fn enqueue(
        &mut self,
        bin: &mut Vec<Self::Packet>,
        cache: &mut Self::Cache,
        drops: &DropCounters,
        now: Nanos,
    );

    /// Hands what is queued to the kernel as far as it takes it, and takes back what is completed.
    /// Called on every pass, also when nothing was enqueued; bounded; makes no system call when there
    /// is nothing to do.
    fn flush(&mut self, cache: &mut Self::Cache, drops: &DropCounters, now: Nanos);

    /// Packets accepted and not yet taken by the kernel.
    fn queued(&self) -> usize;
}
