//! The table of settings: every section, every key, its type, limit, default and documentation, once.

use core::fmt;

use xvs_datapath::{PacketBatch, PortNo};

use crate::kinds::{Auto, CpuMask, FileMode, LogLevel, PortType, Rule, RunDir, RxqAssign, XdpMode};
use crate::{BridgeName, GroupName, IfName, Limit, Raw, Value};
use Limit::{Any, Either, PowerOfTwo, Range};
use OnChange::{Identity, Live, Recreate, Restart};
use Presence::{Optional, Required};

/// What it takes to give a running daemon another value, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnChange {
    /// Nothing is interrupted.
    Live,
    /// The port is closed and opened again.
    Recreate,
    /// The thing is known by it: with another value it is another thing, and the old one goes first.
    Identity,
    /// The daemon has to be restarted.
    Restart,
}

/// Whether a key may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must be there; the table's value is an example.
    Required,
    /// Without it the table's value holds.
    Optional,
}

/// One row of the table: a key of section `S`.
pub struct Key<S> {
    /// As written in the file.
    pub name: &'static str,
    /// What it is for; lines without comment signs.
    pub doc: &'static [&'static str],
    /// What is allowed, as it follows "want ".
    pub allowed: fn() -> String,
    /// Whether it may be left out.
    pub presence: Presence,
    /// What it takes to change it.
    pub on_change: OnChange,
    /// Sets the value and returns true, or false when it is not allowed.
    pub set: fn(&mut S, &Raw<'_>) -> bool,
    /// The value as TOML.
    pub print: fn(&S) -> String,
}

impl<S> fmt::Debug for Key<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A section of the file: a table, or each of an array of tables.
pub trait Section: Clone + PartialEq + Sized + 'static {
    /// As written in the file; empty for the keys before the first section.
    const NAME: &'static str;
    /// What it is for.
    const DOC: &'static [&'static str];
    /// Its keys, in the order in which they are printed.
    const KEYS: &'static [Key<Self>];

    /// With all defaults, and examples where there is none.
    fn preset() -> Self;
}

macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $section:ident $name:literal {
            $($(#[doc = $kdoc:literal])+
            $field:ident $key:literal: $type:ty, $limit:expr, $presence:ident $default:expr, $on_change:ident;)+
        }
    )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $section { $($(#[doc = $kdoc])+ pub $field: $type,)+ }

            impl Section for $section {
                const NAME: &'static str = $name;
                const DOC: &'static [&'static str] = &[$($doc),+];
                const KEYS: &'static [Key<Self>] = &[$(Key {
                    name: $key,
                    doc: &[$($kdoc),+],
                    allowed: || <$type as Value>::allowed($limit),
                    presence: $presence,
                    on_change: $on_change,
                    set: |section, raw| {
                        let value = <$type as Value>::read(raw, $limit);
                        value.map(|value| section.$field = value).is_some()
                    },
                    print: |section| Value::print(&section.$field),
                },)+];

                fn preset() -> Self {
                    Self { $($field: $default,)+ }
                }
            }
        )+
    };
}

settings! {
    /// Settings of the process.
    General "" {
        /// Directory of the control socket `ctl` and the pid file. `--run-dir` overrides it.
        run_dir "run-dir": RunDir, Any, Optional RunDir("/run/xvswitch".into()), Restart;
    }

    /// The packet memory, shared by all sockets of all ports.
    Umem "umem" {
        /// How many frames there are. The need is, for each port, n-rxq × rx-ring + threads × tx-ring,
        /// and 1024 for each thread (the cores of cpu-mask).
        frames "frames": u32, Range(1024, 4_194_304), Optional 16384, Restart;
        /// Bytes of one frame, headroom included. 2048 halves the memory; packets that do not fit into
        /// one frame then take several, which zero-copy mode does not know: with 2048 it is for an MTU of at
        /// most 1774, on igb, igc and ixgbe 1006.
        frame_size "frame-size": u32, Either(2048, 4096), Optional 4096, Restart;
        /// Use huge pages; when there are none, the daemon says so and uses normal pages.
        hugepages "hugepages": bool, Any, Optional false, Restart;
    }

    /// The threads that poll the ports.
    Pmd "pmd" {
        /// The cores, one pinned thread on each.
        cpu_mask "cpu-mask": CpuMask, Any, Optional CpuMask::CORE_0, Live;
        /// The most packets taken from a receive queue at once.
        batch_size "batch-size": u32, Range(1, BATCH_MAX), Optional 32, Live;
        /// The longest sleep of a thread that has nothing to do, in microseconds; 0 polls always and
        /// keeps its core busy. It ends with the first packet, but where threads share a transmit queue
        /// packets of that port may wait so long: sleeping on its socket would transmit.
        sleep_max_us "sleep-max-us": u32, Range(0, 10_000), Optional 0, Live;
        /// One new flow in so many enters the exact-match cache; 0 turns the cache off, 1 admits all.
        emc_insert_inv_prob "emc-insert-inv-prob": u32, Any, Optional 100, Live;
        /// A signature cache in addition: 262,144 packet headers in 2 MiB for each thread. Worth it where
        /// many thousands of connections meet many different masks (`xvsctl pmd stats`: more than ten
        /// subtables per megaflow hit).
        smc_enable "smc-enable": bool, Any, Optional false, Live;
        /// How `ovs-appctl dpif-netdev/pmd-rxq-rebalance` spreads the receive queues over the threads: by how busy
        /// they were, the busiest first, in turns up and down the threads (cycles) or each to the thread that has
        /// least to do so far (group); or in turns without regard to that (roundrobin).
        rxq_assign "rxq-assign": RxqAssign, Any, Optional RxqAssign::Cycles, Live;
        /// Measure every pass of the threads: histograms and the last thousand passes in `ovs-appctl
        /// dpif-netdev/pmd-perf-show`, and what `pmd-perf-log-set` needs. It takes a little of each pass.
        perf_metrics "perf-metrics": bool, Any, Optional false, Live;
    }

    /// The flow table.
    Datapath "datapath" {
        /// The most flows; beyond it packets are still forwarded, each by the slow path.
        flow_limit "flow-limit": u32, Range(1, 10_000_000), Optional 200_000, Live;
        /// A flow that no packet has used for so many milliseconds is removed.
        max_idle_ms "max-idle-ms": u32, Range(100, 3_600_000), Optional 10_000, Live;
    }

    /// What is logged.
    Log "log" {
        /// The least important messages to log.
        level "level": LogLevel, Any, Optional LogLevel::Info, Live;
    }

    /// Who may command the daemon: whoever may open its socket.
    Control "control" {
        /// Permission bits of the control socket.
        mode "mode": FileMode, Any, Optional FileMode(0o660), Live;
        /// Group of the control socket; "" leaves the daemon's own group.
        group "group": GroupName, Any, Optional GroupName::literal(""), Live;
    }

    /// A bridge: it decides what happens to packets that no flow matches yet.
    Bridge "bridge" {
        /// Its name, by which ports join it.
        name "name": BridgeName, Any, Required BridgeName::literal("br0"), Identity;
        /// An address that has not been seen for so many seconds is forgotten.
        mac_aging_s "mac-aging-s": u32, Range(15, 3600), Optional 300, Live;
        /// The most addresses that are learned.
        mac_table_size "mac-table-size": u32, Range(10, 1_000_000), Optional 8192, Live;
        /// Rules in the syntax of ovs-ofctl, as "table=0,priority=100,in_port=1,actions=output:2".
        /// Without any the bridge learns addresses and forwards by them (NORMAL).
        rules "rules": Vec<Rule>, Any, Optional Vec::new(), Live;
    }

    /// A port: a network interface whose packets the switch takes.
    Port "port" {
        /// The interface. Its traffic no longer reaches the host: never take the one through which you
        /// are logged in.
        name "name": IfName, Any, Required IfName::literal("eth1"), Identity;
        /// The bridge it belongs to.
        bridge "bridge": BridgeName, Any, Required BridgeName::literal("br0"), Live;
        /// How the interface is driven.
        port_type "type": PortType, Any, Optional PortType::Afxdp, Recreate;
        /// Which kind of XDP. best-effort takes the fastest that works and says which it is; any other
        /// fails with the reason when the device cannot do it. In generic mode packets arrive as local
        /// senders leave them to be cut, 64 KiB large: TCP is cut here (Linux 6.6 or later). UDP sent with
        /// UDP_SEGMENT, as by QUIC servers, cannot be, because the size of its datagrams is not visible:
        /// what exceeds the MTU is dropped (unsegmented), what does not passes as one datagram. For such
        /// use native mode, or turn it off at the sender: ethtool -K DEV tx-udp-segmentation off.
        xdp_mode "xdp-mode": XdpMode, Any, Optional XdpMode::BestEffort, Recreate;
        /// How many receive queues are polled; they are spread over the threads. Each thread sends on a
        /// transmit queue of its own if the device has enough, else they share one under a lock.
        n_rxq "n-rxq": u32, Range(1, 64), Optional 1, Recreate;
        /// The first of them; packets of other queues go on to the host.
        start_queue "start-queue": u32, Range(0, 1023), Optional 0, Recreate;
        /// Descriptors of each receive ring.
        rx_ring "rx-ring": u32, PowerOfTwo(64, 32768), Optional 2048, Recreate;
        /// Descriptors of each transmit ring, and the most frames that wait for the link in it and in the
        /// fair queue before it.
        tx_ring "tx-ring": u32, PowerOfTwo(64, 32768), Optional 2048, Recreate;
        /// The most packets that the kernel sends in one call; at most tx-ring. auto takes up to 256
        /// where the kernel allows to set it, and what the kernel has built in elsewhere.
        tx_budget "tx-budget": Auto<u32>, Range(32, 32768), Optional Auto::Auto, Recreate;
        /// The socket's send buffer in bytes; auto makes it as large as a full transmit ring needs.
        sndbuf "sndbuf": Auto<u32>, Range(4096, 1 << 30), Optional Auto::Auto, Recreate;
        /// How many packets the kernel hands to the device together, at most tx-budget; 0: one by one. This
        /// is XDP_GENERIC_XMIT_BATCH, which no released kernel has yet and whose number is not settled:
        /// `xvsctl port show` says whether it is in force or unsupported. Where it is there, take 32.
        xmit_batch "xmit-batch": u32, Range(0, 32768), Optional 0, Recreate;
        /// Busy polling: the thread runs the driver's receive routine itself whenever its ring is empty,
        /// instead of waiting for an interrupt. 0: off. Any other value switches it on: an AF_XDP socket
        /// polls once at each call, however many microseconds (SO_BUSY_POLL) are allowed. It costs a
        /// system call at each turn of an idle thread. It is meant for NICs. On veth there is no effect to
        /// speak of (medians of 7 runs in turns: a ping takes 11 µs instead of 9, small packets pass at
        /// 153,000 a second instead of 141,000, and single runs differ by more).
        busy_poll_us "busy-poll-us": u32, Range(0, 10_000), Optional 0, Recreate;
        /// The most packets of one such poll (SO_BUSY_POLL_BUDGET); auto takes 64.
        busy_poll_budget "busy-poll-budget": Auto<u32>, Range(1, 65_535), Optional Auto::Auto, Recreate;
        /// Ask the kernel to leave the queue to busy polling (SO_PREFER_BUSY_POLL). It holds interrupts
        /// back only on devices whose napi_defer_hard_irqs and gro_flush_timeout are set.
        prefer_busy_poll "prefer-busy-poll": bool, Any, Optional false, Recreate;
        /// Number of the port in flows and rules; auto takes the lowest free one.
        port_no "port-no": Auto<u32>, Range(1, PortNo::MAX.0), Optional Auto::Auto, Identity;
        /// Take the interface even if it carries the default route, and replace an XDP program that
        /// somebody else has attached.
        force "force": bool, Any, Optional false, Live;
    }
}

/// The largest batch, as number of the file.
#[allow(clippy::cast_possible_truncation, reason = "256")]
const BATCH_MAX: u32 = PacketBatch::<()>::MAX as u32;

impl Port {
    /// Frames that its sockets can hold at most, with `threads` PMD threads.
    #[must_use]
    pub fn frames_needed(&self, threads: u32) -> u64 {
        u64::from(self.n_rxq) * u64::from(self.rx_ring)
            + u64::from(threads) * u64::from(self.tx_ring)
    }

    /// Its number: 0, which no port has, until [`numbered`](crate::Topology::numbered) gave it one.
    #[must_use]
    pub fn number(&self) -> PortNo {
        PortNo(self.port_no.fixed().unwrap_or(0))
    }
}
