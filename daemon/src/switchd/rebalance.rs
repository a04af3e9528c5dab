//! Which thread polls which receive queue, by how busy the queues were.
//!
//! A queue moves between two passes of both threads; what it has received waits in its ring meanwhile.
//! Transmit queues stay where they are.

use slog::info;
use xvs_datapath::{PortNo, QueueId};

use super::{Error, Switchd};
use crate::ctl::RxqMove;
use crate::pmd::thread_name;

/// Over how many seconds queues are compared.
const SECONDS: u32 = 60;

/// A receive queue with its load in percent of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    port: PortNo,
    queue: QueueId,
    thread: usize,
    percent: u32,
}

/// The thread for each queue: the busiest queue first, each to the thread that has least to do so far, and
/// where it is if that is as good.
fn spread(mut loads: Vec<Load>, n_threads: usize) -> Vec<(Load, usize)> {
    loads.sort_by_key(|load| (core::cmp::Reverse(load.percent), load.port, load.queue));
    // Percent, and queues: an idle queue costs a look in each pass.
    let mut sums = vec![(0, 0); n_threads];
    let mut plan = Vec::with_capacity(loads.len());
    for load in loads {
        let cost = |&(thread, sum): &(usize, (u32, u32))| (sum, thread != load.thread);
        let best = sums.iter().copied().enumerate().min_by_key(cost);
        let to = best.map_or(load.thread, |(thread, _)| thread);
        if let Some((percent, queues)) = sums.get_mut(to) {
            *percent += load.percent;
            *queues += 1;
        }
        plan.push((load, to));
    }
    plan
}

/// What the busiest thread has to do.
fn worst(plan: impl Iterator<Item = (usize, u32)>, n_threads: usize) -> u32 {
    let mut sums = vec![0; n_threads];
    for (thread, percent) in plan {
        if let Some(sum) = sums.get_mut(thread) {
            *sum += percent;
        }
    }
    sums.into_iter().max().unwrap_or(0)
}

impl Switchd {
    /// Moves queues to other threads if the busiest thread has less to do afterwards.
    pub(super) fn rebalance_rxqs(&mut self) -> Result<Vec<RxqMove>, Error> {
        let (now, n) = (self.clock.now(), self.threads.len());
        let loads = self.ports.iter().flat_map(|(&port, state)| {
            state.queues().iter().filter_map(move |queue| {
                let percent = queue.usage.percent(SECONDS, now, queue.busy_ns.get());
                let (queue, thread) = (queue.id, queue.rx_thread?);
                Some(Load { port, queue, thread, percent: percent.unwrap_or(0) })
            })
        });
        let loads: Vec<Load> = loads.collect();
        let before = worst(loads.iter().map(|load| (load.thread, load.percent)), n);
        let plan = spread(loads, n);
        if worst(plan.iter().map(|(load, to)| (*to, load.percent)), n) >= before {
            return Ok(Vec::new());
        }
        let mut moves = Vec::new();
        for (load, to) in plan.into_iter().filter(|(load, to)| load.thread != *to) {
            moves.extend(self.move_rxq(load, to)?);
        }
        Ok(moves)
    }

    fn move_rxq(&mut self, load: Load, to: usize) -> Result<Option<RxqMove>, Error> {
        let Load { port: no, queue: id, thread: from, .. } = load;
        let Some((old, new)) = self.threads.get(from).zip(self.threads.get(to)) else {
            return Ok(None);
        };
        let Some(port) = self.ports.get_mut(&no) else { return Ok(None) };
        let name = port.name();
        let Some(queue) = port.queues_mut().iter_mut().find(|queue| queue.id == id) else {
            return Ok(None);
        };
        let watched = queue.tx_threads.iter().all(|&thread| thread == to);
        let Some(mut slot) = old.handle.call(move |pmd| pmd.take_rx(no, id))? else {
            return Ok(None);
        };
        slot.watched = watched;
        new.handle.call(move |pmd| pmd.add_rx(slot))?;
        queue.rx_thread = Some(to);
        let (from, to) = (old.core(), new.core());
        info!(
            self.log,
            "port {name} queue {}: {} polls it instead of {}",
            id.0,
            thread_name(to),
            thread_name(from)
        );
        Ok(Some(RxqMove { port: name, queue: id.0, from: from.0, to: to.0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(port: u32, thread: usize, percent: u32) -> Load {
        Load { port: PortNo(port), queue: QueueId(0), thread, percent }
    }

    fn threads(loads: &[Load], n: usize) -> Vec<(u32, usize)> {
        let mut plan: Vec<_> =
            spread(loads.to_vec(), n).iter().map(|(load, to)| (load.port.0, *to)).collect();
        plan.sort_unstable();
        plan
    }

    #[test]
    fn two_busy_queues_of_one_thread_are_parted() {
        let loads = [load(1, 0, 50), load(2, 0, 45), load(3, 1, 0), load(4, 1, 1)];
        let plan = threads(&loads, 2);
        assert_ne!(plan[0].1, plan[1].1);
        assert_eq!(worst(loads.iter().map(|load| (load.thread, load.percent)), 2), 95);
        let after = spread(loads.to_vec(), 2);
        assert_eq!(worst(after.iter().map(|(load, to)| (*to, load.percent)), 2), 50);
    }

    #[test]
    fn what_is_balanced_stays() {
        let loads = [load(1, 1, 40), load(2, 0, 40)];
        assert_eq!(threads(&loads, 2), [(1, 1), (2, 0)]);
        assert_eq!(threads(&[load(1, 0, 10)], 1), [(1, 0)]);
        assert_eq!(spread(Vec::new(), 2), []);
    }

    #[test]
    fn idle_queues_are_spread_by_number() {
        let loads: Vec<_> = (1..=4).map(|port| load(port, 0, 0)).collect();
        let on_second = threads(&loads, 2).iter().filter(|(_, thread)| *thread == 1).count();
        assert_eq!(on_second, 2);
    }
}
