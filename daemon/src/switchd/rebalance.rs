//! Which thread polls which receive queue, by how busy the queues were.
//!
//! A queue moves between two passes of both threads; what it has received waits in its ring meanwhile.
//! Transmit queues stay where they are.

use std::collections::BTreeMap;

use slog::info;
use xvs_config::RxqAssign;
use xvs_datapath::{PortNo, QueueId};

use super::{Error, Switchd};
use crate::ctl::RxqMove;
use crate::pmd::thread_name;

/// Over how many seconds queues are compared.
const SECONDS: u32 = 60;

/// A receive queue with its load in percent of a core, and the NUMA node of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    node: Option<u32>,
    port: PortNo,
    queue: QueueId,
    thread: usize,
    percent: u32,
}

/// Up and down: with 3 threads 0 1 2 2 1 0 0 1 and so on.
fn up_and_down(turn: usize, n: usize) -> usize {
    let at = turn % (2 * n);
    at.min(2 * n - 1 - at)
}

/// The thread for each queue, among those on its node (`nodes`: of each thread) if there are any. With
/// [`RxqAssign::Group`] a queue stays where it is if that is as good.
fn spread(assign: RxqAssign, mut loads: Vec<Load>, nodes: &[u32]) -> Vec<(Load, usize)> {
    loads.sort_by_key(|load| (load.port, load.queue));
    if assign != RxqAssign::Roundrobin {
        loads.sort_by_key(|load| core::cmp::Reverse(load.percent));
    }
    // Percent, and queues: an idle queue costs a look in each pass.
    let mut sums = vec![(0, 0); nodes.len()];
    let mut turns: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    let mut plan = Vec::with_capacity(loads.len());
    for load in loads {
        let all = || 0..nodes.len();
        let near = |thread: &usize| load.node.as_ref() == nodes.get(*thread);
        let near: Vec<_> = all().filter(near).collect();
        let may = if near.is_empty() { all().collect() } else { near };
        let cost = |&thread: &usize| (sums.get(thread).copied(), thread != load.thread);
        let turn = turns.entry(may.clone()).or_default();
        let best = match assign {
            _ if may.is_empty() => None,
            RxqAssign::Cycles => may.get(up_and_down(*turn, may.len())).copied(),
            RxqAssign::Roundrobin => may.get(*turn % may.len()).copied(),
            RxqAssign::Group => may.iter().copied().min_by_key(cost),
        };
        *turn += 1;
        let to = best.unwrap_or(load.thread);
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
    /// Moves queues to other threads as `rxq-assign` says: if that goes by what they have to do, only when the
    /// busiest thread has less afterwards.
    pub(super) fn rebalance_rxqs(&mut self) -> Result<Vec<RxqMove>, Error> {
        let (now, n) = (self.clock.now(), self.threads.len());
        let assign = self.running.pmd.rxq_assign;
        let nodes: Vec<_> = self.threads.iter().map(|thread| thread.numa).collect();
        let loads = self.ports.iter().flat_map(|(&port, state)| {
            let node = state.numa_node();
            state.queues().iter().filter_map(move |queue| {
                let percent = queue.usage.percent(SECONDS, now, queue.busy_ns.get());
                let (queue, thread) = (queue.id, queue.rx_thread?);
                Some(Load { node, port, queue, thread, percent: percent.unwrap_or(0) })
            })
        });
        let loads: Vec<Load> = loads.collect();
        let before = worst(loads.iter().map(|load| (load.thread, load.percent)), n);
        let plan = spread(assign, loads, &nodes);
        let after = worst(plan.iter().map(|(load, to)| (*to, load.percent)), n);
        if assign != RxqAssign::Roundrobin && after >= before {
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
        Load { node: None, port: PortNo(port), queue: QueueId(0), thread, percent }
    }

    fn by(assign: RxqAssign, loads: &[Load], nodes: &[u32]) -> Vec<(u32, usize)> {
        let plan = spread(assign, loads.to_vec(), nodes);
        let mut plan: Vec<_> = plan.iter().map(|(load, to)| (load.port.0, *to)).collect();
        plan.sort_unstable();
        plan
    }

    fn threads(loads: &[Load], n: usize) -> Vec<(u32, usize)> {
        by(RxqAssign::Group, loads, &vec![0; n])
    }

    #[test]
    fn in_turns_or_up_and_down() {
        let loads = [load(1, 0, 10), load(2, 0, 40), load(3, 0, 30), load(4, 0, 20), load(5, 0, 5)];
        let turns = [(1, 0), (2, 1), (3, 0), (4, 1), (5, 0)];
        assert_eq!(by(RxqAssign::Roundrobin, &loads, &[0, 0]), turns);
        // 40 to the first, 30 and 20 to the second, 10 and 5 to the first.
        let cycles = [(1, 0), (2, 0), (3, 1), (4, 1), (5, 0)];
        assert_eq!(by(RxqAssign::Cycles, &loads, &[0, 0]), cycles);
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|turn| up_and_down(turn, 3)), [0, 1, 2, 2, 1, 0, 0]);
        for assign in [RxqAssign::Roundrobin, RxqAssign::Cycles, RxqAssign::Group] {
            assert!(by(assign, &loads, &[7]).iter().all(|(_, thread)| *thread == 0));
            assert_eq!(by(assign, &loads, &[]).len(), loads.len());
        }
    }

    #[test]
    fn queues_stay_on_their_node_if_it_has_threads() {
        let on = |node, port| Load { node: Some(node), ..load(port, 0, 50) };
        let loads = [on(0, 1), on(0, 2), on(1, 3), on(1, 4), on(2, 5)];
        for assign in [RxqAssign::Roundrobin, RxqAssign::Cycles, RxqAssign::Group] {
            let plan = by(assign, &loads, &[0, 1, 1]);
            assert_eq!(plan[..2], [(1, 0), (2, 0)], "{assign}");
            let other = [plan[2].1, plan[3].1];
            assert!(other == [1, 2] || other == [2, 1], "{assign}: {plan:?}");
        }
    }

    #[test]
    fn two_busy_queues_of_one_thread_are_parted() {
        let loads = [load(1, 0, 50), load(2, 0, 45), load(3, 1, 0), load(4, 1, 1)];
        let plan = threads(&loads, 2);
        assert_ne!(plan[0].1, plan[1].1);
        assert_eq!(worst(loads.iter().map(|load| (load.thread, load.percent)), 2), 95);
        let after = spread(RxqAssign::Group, loads.to_vec(), &[0, 0]);
        assert_eq!(worst(after.iter().map(|(load, to)| (*to, load.percent)), 2), 50);
    }

    #[test]
    fn what_is_balanced_stays() {
        let loads = [load(1, 1, 40), load(2, 0, 40)];
        assert_eq!(threads(&loads, 2), [(1, 1), (2, 0)]);
        assert_eq!(threads(&[load(1, 0, 10)], 1), [(1, 0)]);
        assert_eq!(spread(RxqAssign::Group, Vec::new(), &[0, 0]), []);
    }

    #[test]
    fn idle_queues_are_spread_by_number() {
        let loads: Vec<_> = (1..=4).map(|port| load(port, 0, 0)).collect();
        let on_second = threads(&loads, 2).iter().filter(|(_, thread)| *thread == 1).count();
        assert_eq!(on_second, 2);
    }
}
