//! Ports: opened on their device, spread over the threads, closed, and opened again when they can be.
//!
//! ```text
//!                              open ok
//!  waiting, draining, failed ──────────► bound ── close ──► gone; its frames drain
//!        ▲    └── retry ──┘                │
//!        └── its interface is gone, its MTU rose, the kernel stopped its socket
//! ```
//!
//! What is tried again is *draining* while the kernel has not let go of a socket that was closed, *waiting* while
//! its interface is not there, and *failed* when somebody has to do something about it. Nothing here waits
//! for the kernel: what is not possible yet is tried again by [`Switchd::tick`], with growing pauses.

use std::sync::{Arc, Mutex};

use slog::{info, warn};
use xvs_config::{Port as Settings, XdpMode};
use xvs_datapath::{Counter, DropCounters, Nanos, PortNo, QueueId};
use xvs_netdev_afxdp::{
    BusyPoll, Error as NetdevError, FrameCache, InForce, Netdev, NetdevOptions, RxStats,
    SocketStats, TxStats, XdpMode as Mode, Xsk, XskRx, XskTx,
};

use super::threads::Thread;
use super::usage::History;
use super::{Error, Switchd};
use crate::ctl::PortState;
use crate::pmd::{RxSlot, TxHandle, TxSlot};

/// First pause before a port is tried again, and the longest.
const MIN_PAUSE: Nanos = Nanos::from_millis(5);
const MAX_PAUSE: Nanos = Nanos::from_secs(1);

/// How long the kernel may need to release the queue of a closed socket, at most: packets of it wait in
/// the queue of a slow link.
const RELEASED_WITHIN: Nanos = Nanos::from_secs(30);

/// Packets of one busy poll when none is configured: what the kernel's own polls take.
const AUTO_BUSY_POLL_BUDGET: u32 = 64;

/// A port that is wanted.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) settings: Settings,
    pub(super) state: State,
}

/// Whether it works.
#[derive(Debug)]
pub(super) enum State {
    /// Sockets are bound, packets flow.
    Bound(Box<Bound>),
    /// It cannot be opened for now.
    Waiting(Waiting),
}

/// A port that is tried again.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Draining while an earlier socket is let go of, else waiting.
    pub(super) state: PortState,
    /// Why.
    pub(super) reason: String,
    pub(super) retry_at: Nanos,
    pause: Nanos,
}

/// A port that works.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) netdev: Netdev,
    pub(super) queues: Vec<Queue>,
    /// What its interface is called now, if not as the port.
    pub(super) renamed: Option<String>,
    /// What each thread dropped on the way out of this port.
    pub(super) drops: Vec<Arc<DropCounters>>,
}

/// What is read of a queue without asking the threads that own its halves.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) id: QueueId,
    pub(super) rx: Arc<RxStats>,
    pub(super) tx: Arc<TxStats>,
    pub(super) kernel: SocketStats,
    pub(super) in_force: InForce,
    pub(super) busy_ns: Arc<Counter>,
    /// The same at intervals.
    pub(super) usage: History,
    /// Index of the thread that polls it, unless it only sends.
    pub(super) rx_thread: Option<usize>,
    /// Indexes of the threads that send on it; more than one share it under a lock. None: it only receives.
    pub(super) tx_threads: Vec<usize>,
}

impl Queue {
    fn sends(&self) -> bool {
        self.in_force.tx_ring != 0
    }
}

impl Port {
    pub(super) fn name(&self) -> String {
        self.settings.name.to_string()
    }

    pub(super) fn queues(&self) -> &[Queue] {
        match &self.state {
            State::Bound(bound) => &bound.queues,
            State::Waiting(_) => &[],
        }
    }

    pub(super) fn queues_mut(&mut self) -> &mut [Queue] {
        match &mut self.state {
            State::Bound(bound) => &mut bound.queues,
            State::Waiting(_) => &mut [],
        }
    }

    /// The NUMA node of its device, if that has one.
    pub(super) fn numa_node(&self) -> Option<u32> {
        match &self.state {
            State::Bound(bound) => bound.netdev.device().numa_node,
            State::Waiting(_) => None,
        }
    }

    /// What was dropped on the way out of it, by thread.
    pub(super) fn drops(&self) -> &[Arc<DropCounters>] {
        match &self.state {
            State::Bound(bound) => &bound.drops,
            State::Waiting(_) => &[],
        }
    }
}

fn mode(mode: XdpMode) -> Option<Mode> {
    match mode {
        XdpMode::BestEffort => None,
        XdpMode::NativeWithZerocopy => Some(Mode::ZeroCopy),
        XdpMode::Native => Some(Mode::Native),
        XdpMode::Generic => Some(Mode::Generic),
    }
}

fn options(port: &Settings) -> NetdevOptions<'_> {
    NetdevOptions {
        mode: mode(port.xdp_mode),
        n_rxq: port.n_rxq,
        start_queue: port.start_queue,
        rx_ring: port.rx_ring,
        tx_ring: port.tx_ring,
        tx_budget: port.tx_budget.fixed(),
        sndbuf: port.sndbuf.fixed(),
        xmit_batch: port.xmit_batch,
        busy_poll: (port.busy_poll_us != 0).then(|| BusyPoll {
            us: port.busy_poll_us,
            budget: port.busy_poll_budget.fixed().unwrap_or(AUTO_BUSY_POLL_BUDGET),
            prefer: port.prefer_busy_poll,
        }),
        force: port.force,
        ..NetdevOptions::new(port.name.as_str())
    }
}

/// Which threads send on which transmit queue, each thread on one: that of a queue from which it receives,
/// if possible, and queues have as few threads as can be. `rx_threads`: who receives from each queue.
fn spread_tx(rx_threads: &[Option<usize>], n_threads: usize) -> Vec<Vec<usize>> {
    let mut threads = vec![Vec::new(); rx_threads.len()];
    let mut rest: Vec<usize> = (0..n_threads).collect();
    for (users, rx) in threads.iter_mut().zip(rx_threads) {
        let own = rest.iter().position(|thread| Some(*thread) == *rx);
        users.extend(own.map(|at| rest.remove(at)));
    }
    for thread in rest {
        if let Some(fewest) = threads.iter_mut().min_by_key(|users| users.len()) {
            fewest.push(thread);
        }
    }
    threads
}

/// What a port is that could not be opened. `releasing`: the kernel may be letting go of its queues.
fn state_after(error: &Error, releasing: bool) -> PortState {
    if matches!(error, Error::Netdev(NetdevError::NoSuchInterface { .. })) {
        PortState::Waiting
    } else if releasing && matches!(error, Error::Netdev(NetdevError::QueueBusy { .. })) {
        PortState::Draining
    } else {
        PortState::Failed
    }
}

impl Switchd {
    /// What can be known about a port's device before anything is changed.
    pub(super) fn check_device(&self, port: &Settings) -> Result<(), Error> {
        let device = Netdev::inspect(&options(port))?;
        if !port.force && device.has_default_route()? {
            return Err(Error::LockOut(port.name.to_string()));
        }
        if let Some(from) = device.connection()?.filter(|_| !port.force) {
            return Err(Error::Connected { port: port.name.to_string(), from });
        }
        for address in device.addresses()? {
            warn!(
                self.log,
                "{} has the address {address}, which will not answer any more", port.name
            );
        }
        Ok(())
    }

    /// Adds a port to its bridge; it waits until it is opened.
    pub(super) fn add_port(&mut self, settings: Settings) -> Result<(), Error> {
        let no = settings.number();
        self.switch.add_port(no, settings.name.as_str(), settings.bridge.as_str())?;
        let state = self.waiting(PortState::Waiting, "it is not open yet".to_owned());
        self.ports.insert(no, Port { settings, state });
        Ok(())
    }

    /// A port that is to be tried at once.
    fn waiting(&self, state: PortState, reason: String) -> State {
        State::Waiting(Waiting { state, reason, retry_at: self.clock.now(), pause: MIN_PAUSE })
    }

    /// Opens a port that was added, or lets it wait for a queue that is still bound by a socket of ours.
    pub(super) fn open_port(&mut self, settings: &Settings) -> Result<(), Error> {
        let name = settings.name.as_str();
        let state = match self.bind(settings) {
            Ok(bound) => State::Bound(bound),
            Err(Error::Netdev(error)) if self.may_pass(name, &error) => {
                warn!(self.log, "port {name} is draining: {error}");
                self.waiting(PortState::Draining, error.to_string())
            }
            Err(error) => return Err(error),
        };
        if let Some(port) = self.ports.get_mut(&settings.number()) {
            port.state = state;
        }
        Ok(())
    }

    /// True for a busy queue that will come free by itself.
    fn may_pass(&self, name: &str, error: &NetdevError) -> bool {
        matches!(error, NetdevError::QueueBusy { .. }) && self.is_releasing(name)
    }

    /// True when the kernel may still be letting go of queues of this port: ours were closed just now, or
    /// the daemon starts and its predecessor's may have been.
    fn is_releasing(&self, name: &str) -> bool {
        let recent = |at: &Nanos| self.clock.now().since(*at) < RELEASED_WITHIN;
        self.generation == 0 || self.drains(name) || self.closed.get(name).is_some_and(recent)
    }

    /// True while frames of a closed socket of this port are out of use.
    fn drains(&self, name: &str) -> bool {
        self.draining.iter().any(|drain| drain.port() == name)
    }

    fn bind(&mut self, settings: &Settings) -> Result<Box<Bound>, Error> {
        let name = &settings.name;
        let options = NetdevOptions {
            n_txq: u32::try_from(self.threads.len()).unwrap_or(u32::MAX),
            share_busy: !self.is_releasing(name.as_str()),
            ..options(settings)
        };
        let (netdev, sockets) = Netdev::open(&mut self.groups, &options)?;
        info!(self.log, "port {name} is bound"; "mode" => %netdev.mode(), "program" => netdev.program_id());
        if let Some(why) = netdev.stepped_down() {
            info!(self.log, "port {name}: {why}");
        }
        if let Some(why) = netdev.hidden_tags() {
            info!(self.log, "port {name}: {why}");
        }
        let mut bound = Box::new(Bound {
            netdev,
            queues: Vec::new(),
            renamed: None,
            drops: self.threads.iter().map(|_| Arc::default()).collect(),
        });
        if let Err(error) = self.hand_out(settings, &mut bound, sockets) {
            self.take_down(settings, bound);
            return Err(error);
        }
        // Packets arrive from here on, when everything that handles them is in place.
        if let Err(error) = bound.netdev.enter() {
            self.take_down(settings, bound);
            return Err(error.into());
        }
        self.warn_of_values(settings, &bound.queues, self.running.pmd.batch_size);
        Ok(bound)
    }

    /// Gives each half of each socket to its thread.
    fn hand_out(
        &self,
        settings: &Settings,
        bound: &mut Bound,
        sockets: Vec<(QueueId, Xsk)>,
    ) -> Result<(), Error> {
        let port = settings.number();
        for (id, socket) in &sockets {
            bound.queues.push(Queue {
                id: *id,
                rx: socket.rx.as_ref().map(XskRx::stats).unwrap_or_default(),
                tx: socket.tx.as_ref().map(XskTx::stats).unwrap_or_default(),
                kernel: socket.stats.clone(),
                in_force: socket.in_force,
                busy_ns: Arc::default(),
                usage: History::start(self.clock.now(), 0),
                rx_thread: socket.rx.is_some().then(|| self.least_loaded(bound)),
                tx_threads: Vec::new(),
            });
        }
        let sending = bound.queues.iter().filter(|queue| queue.sends());
        let rx_threads: Vec<_> = sending.map(|queue| queue.rx_thread).collect();
        let users = spread_tx(&rx_threads, self.threads.len());
        let n_shared = users.iter().filter(|users| users.len() > 1).count();
        if n_shared > 0 {
            info!(
                self.log,
                "port {}: threads share {n_shared} of {} tx queues under a lock",
                settings.name,
                users.len()
            );
        }
        for (queue, users) in bound.queues.iter_mut().filter(|queue| queue.sends()).zip(users) {
            queue.tx_threads = users;
        }
        for (queue, (_, socket)) in bound.queues.iter().zip(sockets) {
            if let Some(tx) = socket.tx {
                self.give_tx(port, queue, tx, &bound.drops)?;
            }
            if let (Some(rx), Some(index)) = (socket.rx, queue.rx_thread) {
                let watched = queue.tx_threads.iter().all(|&thread| thread == index);
                let (queue, busy_ns) = (queue.id, Arc::clone(&queue.busy_ns));
                let slot = RxSlot { port, queue, rx, watched, busy_ns, in_pass: 0 };
                if let Some(thread) = self.threads.get(index) {
                    thread.handle.call(move |pmd| pmd.add_rx(slot))?;
                }
            }
        }
        Ok(())
    }

    /// The thread with the fewest receive queues, those of the port that is `opening` included, among
    /// those on the port's NUMA node if there are any.
    fn least_loaded(&self, opening: &Bound) -> usize {
        let queues = || self.ports.values().flat_map(Port::queues).chain(&opening.queues);
        let polls = |queue: &&Queue, thread| queue.rx_thread == Some(thread);
        let load = |thread: usize| queues().filter(|queue| polls(queue, thread)).count();
        let node = opening.netdev.device().numa_node;
        let cost = |&(i, thread): &(usize, &Thread)| {
            (node.is_some_and(|node| node != thread.numa), load(i))
        };
        self.threads.iter().enumerate().min_by_key(cost).map_or(0, |(i, _)| i)
    }

    fn give_tx(
        &self,
        port: PortNo,
        queue: &Queue,
        tx: XskTx,
        drops: &[Arc<DropCounters>],
    ) -> Result<(), Error> {
        let users = &queue.tx_threads;
        let mut handles = match users.as_slice() {
            [_] => vec![TxHandle::Owned(tx)],
            _ => {
                let shared = Arc::new(Mutex::new(tx));
                users.iter().map(|_| TxHandle::Shared(Arc::clone(&shared))).collect()
            }
        };
        for &user in users {
            let thread = self.threads.get(user).zip(drops.get(user)).zip(handles.pop());
            if let Some(((thread, drops), tx)) = thread {
                let slot = TxSlot { port, queue: queue.id, tx, drops: Arc::clone(drops) };
                thread.handle.call(move |pmd| pmd.add_tx(slot))?;
            }
        }
        Ok(())
    }

    /// Closes a port and forgets it.
    pub(super) fn close_port(&mut self, name: &str) -> Result<(), Error> {
        let no = self.switch.port_no(name).ok_or_else(|| Error::NoPort(name.to_owned()))?;
        let Some(port) = self.ports.remove(&no) else { return Ok(self.switch.del_port(no)?) };
        if let State::Bound(bound) = port.state {
            self.take_down(&port.settings, bound);
        }
        info!(self.log, "port {name} is closed");
        Ok(self.switch.del_port(no)?)
    }

    /// Takes a port's queues from the threads and closes its sockets; they leave the map first.
    fn take_down(&mut self, settings: &Settings, bound: Box<Bound>) {
        let Bound { netdev, queues, drops, renamed: _ } = *bound;
        netdev.leave();
        let (no, port) = (settings.number(), &settings.name);
        let (mut rxqs, mut txqs) = (Vec::new(), Vec::new());
        for thread in &self.threads {
            match thread.handle.call(move |pmd| pmd.remove_port(no)) {
                Ok((rx, tx)) => {
                    rxqs.extend(rx);
                    txqs.extend(tx);
                }
                // Its frames stay where they are: a hung thread may still use them.
                Err(error) => warn!(self.log, "port {port}: {error}"),
            }
        }
        let mut cache = FrameCache::new(self.umem, 0);
        for slot in rxqs {
            self.draining.push(netdev.drain(slot.queue, slot.rx.close()));
        }
        for TxSlot { queue, tx, drops, .. } in txqs {
            // The last one of those who share it has the queue itself.
            if let Some(tx) = tx.into_inner() {
                self.draining.push(netdev.drain(queue, tx.close(&mut cache, &drops)));
            }
        }
        drop(cache);
        for queue in &queues {
            self.retired.rx(&queue.rx);
            self.retired.tx(&queue.tx);
        }
        drops.iter().for_each(|drops| self.retired.drops(drops));
        let now = self.clock.now();
        self.closed.retain(|_, at| now.since(*at) < RELEASED_WITHIN);
        self.closed.insert(settings.name.to_string(), now);
        drop(netdev);
        self.reclaim();
    }

    /// Closes a port's sockets and lets the port wait until it can be opened again.
    pub(super) fn unbind(&mut self, no: PortNo, reason: String) {
        let waiting = self.waiting(PortState::Waiting, reason);
        let Some(port) = self.ports.get_mut(&no) else { return };
        let settings = port.settings.clone();
        if let State::Bound(bound) = std::mem::replace(&mut port.state, waiting) {
            self.take_down(&settings, bound);
        }
    }

    /// Takes back the frames of closed sockets whose queue is provably unbound.
    pub(super) fn reclaim(&mut self) {
        self.draining.retain_mut(|drain| !drain.reclaim());
    }

    /// Changes what needs no new socket: the bridge.
    pub(super) fn modify_port(&mut self, settings: &Settings) -> Result<(), Error> {
        let no = settings.number();
        let Some(port) = self.ports.get_mut(&no) else {
            return Err(Error::NoPort(settings.name.to_string()));
        };
        if port.settings.bridge != settings.bridge {
            self.switch.del_port(no)?;
            self.switch.add_port(no, settings.name.as_str(), settings.bridge.as_str())?;
        }
        port.settings = settings.clone();
        Ok(())
    }

    /// Tries the ports that wait and are due.
    pub(super) fn retry_ports(&mut self, now: Nanos) {
        let due = |port: &Port| match &port.state {
            State::Waiting(waiting) if waiting.retry_at <= now => Some(port.settings.clone()),
            State::Waiting(_) | State::Bound(_) => None,
        };
        let ports: Vec<_> = self.ports.values().filter_map(due).collect();
        for settings in ports {
            let result = self.bind(&settings);
            let releasing = self.is_releasing(settings.name.as_str());
            let Some(port) = self.ports.get_mut(&settings.number()) else { continue };
            match (result, &mut port.state) {
                (Ok(bound), state) => *state = State::Bound(bound),
                (Err(error), State::Waiting(waiting)) => {
                    let reason = error.to_string();
                    waiting.state = state_after(&error, releasing);
                    if reason != waiting.reason {
                        warn!(self.log, "port {} is {}: {reason}", settings.name, waiting.state);
                        waiting.reason = reason;
                    }
                    waiting.retry_at = Nanos(now.0 + waiting.pause.0);
                    waiting.pause = Nanos((waiting.pause.0 * 2).min(MAX_PAUSE.0));
                }
                (Err(_), State::Bound(_)) => {}
            }
        }
    }

    /// When [`Switchd::tick`] wants to be called next, in nanoseconds from `now`.
    #[must_use]
    pub fn next_tick(&self, now: Nanos) -> Nanos {
        let retry = |port: &Port| match &port.state {
            State::Waiting(waiting) => Some(waiting.retry_at.since(now)),
            State::Bound(_) => None,
        };
        let draining = (!self.draining.is_empty()).then_some(Nanos::from_millis(20));
        let retries = self.ports.values().filter_map(retry);
        retries.chain(draining).min().unwrap_or(Nanos::from_secs(1)).min(Nanos::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::spread_tx;

    #[test]
    fn each_thread_sends_on_one_queue_on_its_own_if_there_are_enough() {
        let own =
            |threads: &[usize]| threads.iter().map(|&thread| vec![thread]).collect::<Vec<_>>();
        assert_eq!(spread_tx(&[Some(0)], 1), own(&[0]));
        // What it receives from comes first, whatever the order.
        assert_eq!(spread_tx(&[Some(1), Some(0)], 2), own(&[1, 0]));
        // Queues that only send go to the others.
        assert_eq!(spread_tx(&[Some(1), None, None], 3), own(&[1, 0, 2]));
        // A thread that receives from two queues sends on the first.
        assert_eq!(spread_tx(&[Some(0), Some(0)], 2), own(&[0, 1]));
    }

    #[test]
    fn too_few_queues_are_shared_evenly() {
        assert_eq!(spread_tx(&[Some(1)], 3), [[1, 0, 2]]);
        assert_eq!(spread_tx(&[Some(0), Some(2)], 4), [[0, 1], [2, 3]]);
        assert_eq!(spread_tx(&[Some(0), None], 5), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(spread_tx(&[], 2), Vec::<Vec<usize>>::new());
    }
}
