//! The command line of `xvsctl`, and which command of the daemon each verb is.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use super::trace::TraceArgs;

const HELP: &str = "\
Examples:
  xvsctl port add eth1 bridge=br0 xdp-mode=native
  xvsctl port list
  xvsctl rule add br0 'priority=10,ip,nw_dst=10.0.0.0/24,actions=output:2' 'actions=NORMAL'
  xvsctl flow add 'in_port(1),eth(),eth_type(0x0806)' 2
  xvsctl flow dump -m
  xvsctl trace --bridge br0 in_port=1,udp,nw_dst=10.0.0.2
  xvsctl trace --in-port eth1 --pcap file.pcap --packet 3
  xvsctl --json pmd stats
  xvsctl config check new.toml

Exit status:
  0  done
  1  refused: by the daemon, or for mistakes in a configuration file
  2  wrong command line
  3  no daemon listens
  4  no permission to use the control socket
  5  the daemon has not answered for 5 seconds
  6  the connection broke, or something else answers";

/// Shows and changes a running xvswitchd.
#[derive(Clone, Debug, Parser)]
#[command(name = "xvsctl", version, after_help = HELP, disable_help_subcommand = true)]
pub struct Args {
    /// The daemon's directory, as its `run-dir`.
    #[arg(long, global = true, value_name = "DIR", default_value = "/run/xvswitch")]
    pub run_dir: PathBuf,
    /// Print JSON, for programs.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Ports: interfaces that the switch forwards between.
    #[command(subcommand)]
    Port(PortVerb),
    /// Flows of the datapath, in the syntax of ovs-dpctl.
    #[command(subcommand)]
    Flow(FlowVerb),
    /// Rules of bridges, in the syntax of ovs-ofctl.
    #[command(subcommand)]
    Rule(RuleVerb),
    /// MAC tables of bridges.
    #[command(subcommand)]
    Fdb(FdbVerb),
    /// Meters: rates for the action meter().
    #[command(subcommand)]
    Meter(MeterVerb),
    /// Take out the packets that the action userspace() queued.
    Upcalls {
        /// How many at most; all by default.
        max: Option<usize>,
    },
    /// Say what would happen to a packet, and why; nothing changes.
    Trace(TraceArgs),
    /// PMD threads.
    #[command(subcommand)]
    Pmd(PmdVerb),
    /// Where every packet ended and where every frame is.
    Ledger,
    /// The configuration.
    #[command(subcommand)]
    Config(ConfigVerb),
    /// The daemon in brief: ports, threads, configuration, what the kernel offers.
    Status,
    /// Versions of client and daemon.
    Version,
    /// Run any command of the daemon (`call list-commands` lists them), as ovs-appctl does.
    Call {
        /// Its name, as dpctl/show.
        command: String,
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// What to do with ports.
#[derive(Clone, Debug, Subcommand)]
pub enum PortVerb {
    /// Add an interface.
    Add {
        /// The interface.
        name: String,
        /// Keys of [[port]] in the configuration, as bridge=br0 or n-rxq=2.
        #[arg(value_name = "KEY=VALUE")]
        options: Vec<String>,
    },
    /// Remove ports.
    Del {
        /// Names or numbers.
        #[arg(required = true)]
        ports: Vec<String>,
    },
    /// One line for each port.
    List,
    /// Everything about some ports, or all.
    Show {
        /// Names or numbers.
        ports: Vec<String>,
    },
}

/// What to do with flows of the datapath.
#[derive(Clone, Debug, Subcommand)]
pub enum FlowVerb {
    /// Add a flow.
    Add {
        /// Which packets, as 'in_port(1),eth(),eth_type(0x0806)'.
        flow: String,
        /// What to do with them, as 2 or drop.
        actions: String,
    },
    /// Remove a flow, or all.
    Del {
        /// Which packets, or ufid:…, as dumped.
        #[arg(required_unless_present = "all")]
        flow: Option<String>,
        /// Remove all flows; the rules make new ones.
        #[arg(long, conflicts_with = "flow")]
        all: bool,
    },
    /// Show the cached flows.
    Dump {
        /// With identifiers, and names of ports.
        #[arg(short, long)]
        more: bool,
        /// Only of the PMD thread on this core.
        #[arg(long, value_name = "CORE")]
        pmd: Option<u32>,
        /// Only flows that share packets with this match.
        #[arg(long, value_name = "FLOW")]
        filter: Option<String>,
    },
}

/// What to do with rules.
#[derive(Clone, Debug, Subcommand)]
pub enum RuleVerb {
    /// Add rules, all or none; those with the same match and priority are replaced.
    Add {
        /// The bridge.
        bridge: String,
        /// As 'priority=10,ip,nw_dst=10.0.0.0/24,actions=NORMAL'.
        #[arg(required = true)]
        rules: Vec<String>,
    },
    /// Remove the rules that a match covers; all without one.
    Del {
        /// The bridge.
        bridge: String,
        /// As 'ip,nw_dst=10.0.0.0/24'.
        rule: Option<String>,
        /// Only the rule with exactly this match and priority.
        #[arg(long)]
        strict: bool,
    },
    /// Show the rules with their counters.
    Dump {
        /// The bridge; all by default.
        bridge: Option<String>,
    },
}

/// What to do with MAC tables.
#[derive(Clone, Debug, Subcommand)]
pub enum FdbVerb {
    /// Show which address is behind which port.
    Show {
        /// The bridge; all by default.
        bridge: Option<String>,
    },
    /// Forget learned addresses.
    Flush {
        /// The bridge; all by default.
        bridge: Option<String>,
    },
}

/// What to do with meters.
#[derive(Clone, Debug, Subcommand)]
pub enum MeterVerb {
    /// Add a meter, or change its rate.
    Add {
        /// As 'meter=1,kbps,band=type=drop,rate=1000,burst_size=100'.
        meter: String,
    },
    /// Remove a meter that no flow names.
    Del {
        /// Its number.
        meter: u32,
    },
    /// Show the meters and what they dropped.
    List,
}

/// What to do with PMD threads.
#[derive(Clone, Debug, Subcommand)]
pub enum PmdVerb {
    /// What each thread did.
    Stats,
    /// Which thread polls which queue.
    Rxqs,
    /// Start the statistics afresh.
    Clear,
}

/// What to do with the configuration.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigVerb {
    /// Check a file, also without a daemon; with one, say what would change.
    Check {
        /// The file; the daemon's own by default.
        file: Option<PathBuf>,
    },
    /// Show the running configuration as a file.
    Show,
    /// Read the file again and apply what changed.
    Reload,
}

impl Verb {
    /// The file of `config check FILE`.
    pub(super) fn file_to_check(&self) -> Option<&Path> {
        if let Self::Config(ConfigVerb::Check { file }) = self { file.as_deref() } else { None }
    }

    /// The daemon's command for it, and its arguments.
    pub(super) fn request(&self) -> (&str, Vec<String>) {
        match self {
            Self::Port(verb) => verb.request(),
            Self::Flow(verb) => verb.request(),
            Self::Rule(verb) => verb.request(),
            Self::Fdb(FdbVerb::Show { bridge }) => ("fdb/show", words(bridge)),
            Self::Fdb(FdbVerb::Flush { bridge }) => ("fdb/flush", words(bridge)),
            Self::Meter(MeterVerb::Add { meter }) => ("xvs/meter-add", vec![meter.clone()]),
            Self::Meter(MeterVerb::Del { meter }) => ("xvs/meter-del", vec![meter.to_string()]),
            Self::Meter(MeterVerb::List) => ("xvs/meter-list", Vec::new()),
            Self::Upcalls { max } => {
                ("xvs/upcall-read", max.iter().map(usize::to_string).collect())
            }
            Self::Pmd(PmdVerb::Stats) => ("xvs/pmd-stats", Vec::new()),
            Self::Pmd(PmdVerb::Rxqs) => ("dpif-netdev/pmd-rxq-show", Vec::new()),
            Self::Pmd(PmdVerb::Clear) => ("dpif-netdev/pmd-stats-clear", Vec::new()),
            // Its words are not yet known: they may lie in a file.
            Self::Trace(_) => ("ofproto/trace", Vec::new()),
            Self::Ledger => ("xvs/ledger", Vec::new()),
            Self::Config(ConfigVerb::Check { .. }) => ("xvs/config-check", Vec::new()),
            Self::Config(ConfigVerb::Show) => ("xvs/config-show", Vec::new()),
            Self::Config(ConfigVerb::Reload) => ("xvs/config-reload", Vec::new()),
            Self::Status => ("xvs/status", Vec::new()),
            Self::Version => ("version", Vec::new()),
            Self::Call { command, words } => (command, words.clone()),
        }
    }
}

impl PortVerb {
    fn request(&self) -> (&str, Vec<String>) {
        match self {
            Self::Add { name, options } => {
                ("xvs/port-add", words([name].into_iter().chain(options)))
            }
            Self::Del { ports } => ("xvs/port-del", ports.clone()),
            Self::List => ("xvs/port-list", Vec::new()),
            Self::Show { ports } => ("xvs/port-show", ports.clone()),
        }
    }
}

impl FlowVerb {
    fn request(&self) -> (&str, Vec<String>) {
        match self {
            Self::Add { flow, actions } => ("dpctl/add-flow", words([flow, actions])),
            Self::Del { all: true, .. } => ("dpctl/del-flows", Vec::new()),
            Self::Del { flow, .. } => ("dpctl/del-flow", words(flow)),
            Self::Dump { more, pmd, filter } => {
                let more = more.then(|| "-m".to_owned());
                let pmd = pmd.map(|core| format!("pmd={core}"));
                let filter = filter.as_ref().map(|text| format!("filter={text}"));
                ("dpctl/dump-flows", more.into_iter().chain(pmd).chain(filter).collect())
            }
        }
    }
}

impl RuleVerb {
    fn request(&self) -> (&str, Vec<String>) {
        match self {
            Self::Add { bridge, rules } => {
                ("xvs/rule-add", words([bridge].into_iter().chain(rules)))
            }
            Self::Del { bridge, rule, strict } => {
                let strict = strict.then(|| "--strict".to_owned());
                ("xvs/rule-del", words(strict.iter().chain([bridge]).chain(rule)))
            }
            Self::Dump { bridge } => ("xvs/rule-dump", words(bridge)),
        }
    }
}

fn words<'a>(words: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    words.into_iter().cloned().collect()
}
