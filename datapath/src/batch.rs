//! Batches in and bins out: where packets are between the receive and the transmit queues.

use std::collections::VecDeque;

use crate::execute::Passage;
use crate::{DropCounters, DropReason, PortNo};

/// Packets received together from one receive queue; at most its capacity.
#[derive(Debug)]
pub struct PacketBatch<P> {
    packets: Vec<P>,
    capacity: usize,
}

impl<P> PacketBatch<P> {
    /// The largest `batch-size`.
    pub const MAX: usize = 256;

    /// An empty batch for `capacity` packets, 1 to [`PacketBatch::MAX`]; the only allocation.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, Self::MAX);
        Self { packets: Vec::with_capacity(capacity), capacity }
    }

    /// How many packets still fit.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        self.capacity - self.packets.len()
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// Gives the packet back when the batch is full.
    #[inline]
    pub fn push(&mut self, packet: P) -> Result<(), P> {
        if self.room() == 0 {
            return Err(packet);
        }
        self.packets.push(packet);
        Ok(())
    }

    /// Takes all packets out, first received first.
    #[inline]
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = P> + '_ {
        self.packets.drain(..)
    }

    /// The packets, to look at or rewrite in place.
    #[inline]
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [P] {
        &mut self.packets
    }

    /// The packets.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[P] {
        &self.packets
    }

    /// How many packets are in it.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True when there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// Where `process` puts every packet: one bin for each port, and one for the dropped.
///
/// The owner empties all bins after each pass: the ports' bins into their transmit queues, the drop
/// bin into the pool of free frames. Nothing is freed or sent before.
#[derive(Debug)]
pub struct Outputs<P> {
    bins: Vec<Option<Vec<P>>>,
    touched: Vec<PortNo>,
    dropped: Vec<P>,
    /// What is to be looked up once more; empty unless `process` runs.
    again: VecDeque<(P, Passage)>,
}

/// The most packets that wait to be looked up once more.
const MAX_AGAIN: usize = 4 * PacketBatch::<()>::MAX;

/// Bins start with room for this many packets, so that growing one is rare.
const BIN_CAPACITY: usize = 2 * PacketBatch::<()>::MAX;

impl<P> Default for Outputs<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> Outputs<P> {
    /// No ports yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bins: Vec::new(),
            touched: Vec::with_capacity(PortNo::MAX.index() + 1),
            dropped: Vec::with_capacity(BIN_CAPACITY),
            again: VecDeque::with_capacity(MAX_AGAIN),
        }
    }

    /// Makes a bin for `port`; does nothing when it has one. Allocates: not on the packet path.
    pub fn open(&mut self, port: PortNo) {
        if port > PortNo::MAX {
            return;
        }
        if self.bins.len() <= port.index() {
            self.bins.resize_with(port.index() + 1, || None);
        }
        if let Some(bin) = self.bins.get_mut(port.index()) {
            bin.get_or_insert_with(|| Vec::with_capacity(BIN_CAPACITY));
        }
    }

    /// Removes the bin of `port` and returns what was in it (nothing, between passes).
    #[must_use]
    pub fn close(&mut self, port: PortNo) -> Vec<P> {
        self.touched.retain(|&p| p != port);
        self.bins.get_mut(port.index()).and_then(Option::take).unwrap_or_default()
    }

    /// True when `port` has a bin.
    #[inline]
    #[must_use]
    pub fn has(&self, port: PortNo) -> bool {
        matches!(self.bins.get(port.index()), Some(Some(_)))
    }

    /// Sends `packet` towards `port` at the end of the pass; without such a port it is dropped.
    #[inline]
    pub fn send(&mut self, port: PortNo, packet: P, drops: &DropCounters) {
        match self.bins.get_mut(port.index()) {
            Some(Some(bin)) => {
                if bin.is_empty() {
                    self.touched.push(port);
                }
                bin.push(packet);
            }
            _ => self.discard(packet, DropReason::NoPort, drops),
        }
    }

    /// Sends all of `packets` towards `port`, as [`send`](Self::send) does with one.
    #[inline]
    pub fn send_all(
        &mut self,
        port: PortNo,
        packets: impl Iterator<Item = P>,
        drops: &DropCounters,
    ) {
        let Some(Some(bin)) = self.bins.get_mut(port.index()) else {
            return packets.for_each(|packet| self.discard(packet, DropReason::NoPort, drops));
        };
        let untouched = bin.is_empty();
        bin.extend(packets);
        if untouched && !bin.is_empty() {
            self.touched.push(port);
        }
    }

    /// Drops `packet` at the end of the pass and counts it now.
    #[inline]
    pub fn discard(&mut self, packet: P, reason: DropReason, drops: &DropCounters) {
        drops.add(reason, 1);
        self.dropped.push(packet);
    }

    /// Has `packet` looked up once more, unless it was too often or too many wait for it.
    pub(crate) fn recirculate(&mut self, packet: P, passage: Passage, drops: &DropCounters) {
        if passage.too_often() || self.again.len() >= MAX_AGAIN {
            return self.discard(packet, DropReason::Recirc, drops);
        }
        self.again.push_back((packet, passage));
    }

    /// The next packet to be looked up once more.
    #[inline]
    pub(crate) fn next_again(&mut self) -> Option<(P, Passage)> {
        self.again.pop_front()
    }

    /// Calls `f` with each port that has packets, and its bin, which `f` must leave empty.
    #[inline]
    pub fn flush(&mut self, mut f: impl FnMut(PortNo, &mut Vec<P>)) {
        for port in self.touched.drain(..) {
            if let Some(Some(bin)) = self.bins.get_mut(port.index()) {
                f(port, bin);
                debug_assert!(bin.is_empty(), "the bin of port {port} was not emptied");
            }
        }
    }

    /// The packets that were dropped since the last call; the caller frees them all.
    #[inline]
    #[must_use]
    pub fn dropped(&mut self) -> &mut Vec<P> {
        &mut self.dropped
    }
}
