//! Ports: opened on their device, spread over the threads, closed, and opened again when they can be.
//!
//! ```text
//!            open ok
//!  waiting ──────────► bound ── close ──► gone; its frames drain
//!     ▲  └─ retry ─┘
//!     └── the queue is still bound by a socket that was closed
//! ```
//!
//! Nothing here waits for the kernel: what is not possible yet is tried again by [`Switchd::tick`].

use std::sync::{Arc, Mutex};

use slog::{info, warn};
use xvs_config::{Port as Settings, XdpMode};
use xvs_datapath::{Counter, DropCounters, Nanos, PortNo, QueueId};
use xvs_netdev_afxdp::{
    BusyPoll, FrameCache, InForce, Netdev, NetdevOptions, RxStats, SocketStats, TxStats,
    XdpMode as Mode, Xsk, XskTx,
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
    /// Transmit halves that no thread needs.
    spare: Vec<(QueueId, XskTx)>,
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
    /// Index of the thread that polls it.
    pub(super) rx_thread: usize,
    /// Indexes of the threads that send on it; more than one share it under a lock.
    pub(super) tx_threads: Vec<usize>,
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
        name: port.name.as_str(),
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
    }
}

/// Which threads send on which of `n_queues` queues: each thread its own where there are enough, else
/// the queues go round.
fn spread_tx(n_queues: usize, n_threads: usize) -> Vec<Vec<usize>> {
    let mut threads = vec![Vec::new(); n_queues];
    for thread in 0..n_threads {
        if let Some(users) = threads.get_mut(thread % n_queues.max(1)) {
            users.push(thread);
        }
    }
    threads
}

impl Switchd {
    /// What can be known about a port's device before anything is changed.
    pub(super) fn check_device(&self, port: &Settings) -> Result<(), Error> {
        let device = Netdev::inspect(&options(port))?;
        if !port.force && device.has_default_route()? {
            return Err(Error::LockOut(port.name.to_string()));
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
                warn!(self.log, "port {name} waits: {error}");
                self.waiting(PortState::Draining, error.to_string())
            }
            Err(error) => return Err(error),
        };
        if let Some(port) = self.ports.get_mut(&settings.number()) {
            port.state = state;
        }
        Ok(())
    }

    /// True for a busy queue that will come free by itself: one of ours was closed just now, or the
    /// daemon starts and its predecessor's may.
    fn may_pass(&self, name: &str, error: &xvs_netdev_afxdp::Error) -> bool {
        let busy = matches!(error, xvs_netdev_afxdp::Error::QueueBusy { .. });
        let recent = |at: &Nanos| self.clock.now().since(*at) < RELEASED_WITHIN;
        busy && (self.generation == 0
            || self.drains(name)
            || self.closed.get(name).is_some_and(recent))
    }

    /// True while frames of a closed socket of this port are out of use.
    fn drains(&self, name: &str) -> bool {
        self.draining.iter().any(|drain| drain.port() == name)
    }

    fn bind(&mut self, settings: &Settings) -> Result<Box<Bound>, Error> {
        let (netdev, sockets) = Netdev::open(&mut self.groups, &options(settings))?;
        let name = &settings.name;
        info!(self.log, "port {name} is bound"; "mode" => %netdev.mode(), "program" => netdev.program_id());
        if let Some(why) = netdev.stepped_down() {
            info!(self.log, "port {name}: {why}");
        }
        let mut bound = Box::new(Bound {
            netdev,
            queues: Vec::new(),
            spare: Vec::new(),
            drops: self.threads.iter().map(|_| Arc::default()).collect(),
        });
        if let Err(error) = self.hand_out(settings.number(), &mut bound, sockets) {
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
        port: PortNo,
        bound: &mut Bound,
        sockets: Vec<(QueueId, Xsk)>,
    ) -> Result<(), Error> {
        let n_threads = self.threads.len();
        let users = spread_tx(sockets.len(), n_threads);
        for ((id, socket), tx_threads) in sockets.into_iter().zip(users) {
            let rx_thread = self.least_loaded(bound);
            // Both rings were asked for.
            let (Some(rx), Some(tx)) = (socket.rx, socket.tx) else { continue };
            let queue = Queue {
                id,
                rx: rx.stats(),
                tx: tx.stats(),
                kernel: socket.stats,
                in_force: socket.in_force,
                busy_ns: Arc::default(),
                usage: History::start(self.clock.now(), 0),
                rx_thread,
                tx_threads,
            };
            let slot = RxSlot {
                port,
                queue: queue.id,
                rx,
                busy_ns: Arc::clone(&queue.busy_ns),
                in_pass: 0,
            };
            self.give_tx(port, (id, tx), &queue.tx_threads, bound)?;
            bound.queues.push(queue);
            if let Some(thread) = self.threads.get(rx_thread) {
                thread.handle.call(move |pmd| pmd.add_rx(slot))?;
            }
        }
        Ok(())
    }

    /// The thread with the fewest receive queues, those of the port that is `opening` included, among
    /// those on the port's NUMA node if there are any.
    fn least_loaded(&self, opening: &Bound) -> usize {
        let queues = || self.ports.values().flat_map(Port::queues).chain(&opening.queues);
        let load = |thread: usize| queues().filter(|queue| queue.rx_thread == thread).count();
        let node = opening.netdev.device().numa_node;
        let cost = |&(i, thread): &(usize, &Thread)| {
            (node.is_some_and(|node| node != thread.numa), load(i))
        };
        self.threads.iter().enumerate().min_by_key(cost).map_or(0, |(i, _)| i)
    }

    fn give_tx(
        &self,
        port: PortNo,
        (queue, tx): (QueueId, XskTx),
        users: &[usize],
        bound: &mut Bound,
    ) -> Result<(), Error> {
        let mut handles = match users {
            [] => {
                bound.spare.push((queue, tx));
                return Ok(());
            }
            [_] => vec![TxHandle::Owned(tx)],
            _ => {
                let shared = Arc::new(Mutex::new(tx));
                users.iter().map(|_| TxHandle::Shared(Arc::clone(&shared))).collect()
            }
        };
        for &user in users {
            let thread = self.threads.get(user).zip(bound.drops.get(user)).zip(handles.pop());
            if let Some(((thread, drops), tx)) = thread {
                let slot = TxSlot { port, queue, tx, drops: Arc::clone(drops) };
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
        let Bound { netdev, queues, spare, drops } = *bound;
        netdev.leave();
        let (no, port) = (settings.number(), &settings.name);
        let mut closed = Vec::new();
        for thread in &self.threads {
            match thread.handle.call(move |pmd| pmd.remove_port(no)) {
                Ok(halves) => closed.extend(halves),
                // Its frames stay where they are: a hung thread may still use them.
                Err(error) => warn!(self.log, "port {port}: {error}"),
            }
        }
        if !spare.is_empty() {
            let (mut cache, unused) = (FrameCache::new(self.umem, 0), DropCounters::default());
            let spare = spare.into_iter();
            closed.extend(spare.map(|(queue, tx)| (queue, tx.close(&mut cache, &unused))));
        }
        self.draining.extend(closed.into_iter().map(|(queue, half)| netdev.drain(queue, half)));
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
            let draining = self.drains(settings.name.as_str());
            let Some(port) = self.ports.get_mut(&settings.number()) else { continue };
            match (result, &mut port.state) {
                (Ok(bound), state) => *state = State::Bound(bound),
                (Err(error), State::Waiting(waiting)) => {
                    let reason = error.to_string();
                    if reason != waiting.reason {
                        warn!(self.log, "port {} waits: {reason}", settings.name);
                        waiting.reason = reason;
                    }
                    waiting.state = if draining { PortState::Draining } else { PortState::Waiting };
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
