//! The rigs: two hosts in namespaces of their own, and between them the namespace `dut`, whose two
//! interfaces become ports. All interfaces keep their default ethtool settings: whoever needs offloads off
//! is not fit for the rig.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::{Result, ns::Netns, ping::Ping, proc, scratch::Scratch, wait_until};

/// IPv4 address of the first host.
pub const C1: &str = "10.1.1.1";
/// IPv4 address of the second host.
pub const C2: &str = "10.1.1.2";
/// IPv6 address of the first host.
pub const C1_V6: &str = "fd00::1";
/// IPv6 address of the second host.
pub const C2_V6: &str = "fd00::2";
/// MAC address of the first host's `e0`.
pub const C1_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 1];
/// MAC address of the second host's `e0`.
pub const C2_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 2];

/// An interface of the switch, and the lines of its `[[port]]` section that the rig needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Name of the interface.
    pub name: String,
    /// TOML lines beside name, bridge and type.
    pub lines: String,
}

impl PortSpec {
    /// A port with these lines.
    #[must_use]
    pub fn new(name: &str, lines: &str) -> Self {
        Self { name: name.to_owned(), lines: lines.to_owned() }
    }
}

/// Two hosts `c1` and `c2` with an interface `e0`, and the switch's namespace between them.
#[derive(Debug)]
pub struct Rig {
    /// The first host, 10.1.1.1.
    pub c1: Netns,
    /// The second host, 10.1.1.2.
    pub c2: Netns,
    /// Where the switch runs, with `v1` towards `c1` and `v2` towards `c2`.
    pub dut: Netns,
    /// The two ports, in the order of the hosts.
    pub ports: Vec<PortSpec>,
    /// Where logs, configuration and the run directory lie.
    pub scratch: Scratch,
}

impl Rig {
    /// Two plain veth pairs.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn pair() -> Result<Self> {
        Self::with_veth("")
    }

    /// As [`Rig::pair`], and what leaves towards `c2` passes a macvlan `m2` (generic mode) and a token
    /// bucket of 100 Mbit/s, which holds the packets with their socket charge as a slow NIC does.
    ///
    /// # Errors
    /// When `ip` or `tc` refuses.
    pub fn slow_link() -> Result<Self> {
        let mut rig = Self::pair()?;
        rig.dut.ip("link add link v2 name m2 type macvlan mode passthru")?;
        rig.dut.ip("link set m2 up")?;
        rig.dut.run("tc qdisc add dev v2 root tbf rate 100mbit burst 20k limit 4m")?;
        rig.ports = vec![PortSpec::new("v1", ""), PortSpec::new("m2", "xdp-mode = \"generic\"")];
        Ok(rig)
    }

    /// As [`Rig::pair`], each interface with four queues.
    ///
    /// # Errors
    /// When `ip` or `ethtool` refuses.
    pub fn multi_queue() -> Result<Self> {
        let rig = Self::with_veth("numrxqueues 4 numtxqueues 4")?;
        for (ns, interface) in
            [(&rig.c1, "e0"), (&rig.c2, "e0"), (&rig.dut, "v1"), (&rig.dut, "v2")]
        {
            ns.run(&format!("ethtool -L {interface} rx 4 tx 4"))?;
        }
        Ok(rig)
    }

    /// Of each name, its pair of network cards joined by a cable, such as those of `tests/vm/boot`: `NAME0` for
    /// the switch, `NAME1` for the host. `veth` is a new veth pair, `v2` for the switch and `e0` for the host.
    ///
    /// # Errors
    /// When there is no such card, or `ip` refuses.
    pub fn cards(first: &str, second: &str) -> Result<Self> {
        let scratch = Scratch::new()?;
        let mut rig = Self {
            c1: Netns::new(&scratch, "c1")?,
            c2: Netns::new(&scratch, "c2")?,
            dut: Netns::new(&scratch, "dut")?,
            ports: Vec::new(),
            scratch,
        };
        for (n, name) in (1..).zip([first, second]) {
            if name == "veth" {
                rig.wire(n, "")?;
                rig.ports.push(PortSpec::new(&format!("v{n}"), ""));
                continue;
            }
            let host = if n == 1 { &rig.c1 } else { &rig.c2 };
            for (end, ns) in [&rig.dut, host].into_iter().enumerate() {
                let card = format!("{name}{end}");
                // A namespace that ends gives its cards back a little later.
                wait_until(&card, Duration::from_secs(10), || {
                    Ok(Path::new("/sys/class/net").join(&card).exists().then_some(()))
                })?;
                proc::run(Command::new("ip").args(["link", "set", &card, "netns", ns.name()]))?;
                // A host has addresses beside that of its card.
                let promiscuous = if end == 1 { "promisc on" } else { "" };
                ns.ip(&format!("link set {card} mtu 1500 {promiscuous} up"))?;
            }
            rig.ports.push(PortSpec::new(&format!("{name}0"), ""));
        }
        Ok(rig)
    }

    /// The three namespaces, joined by veth pairs with the given options.
    fn with_veth(options: &str) -> Result<Self> {
        let scratch = Scratch::new()?;
        let rig = Self {
            c1: Netns::new(&scratch, "c1")?,
            c2: Netns::new(&scratch, "c2")?,
            dut: Netns::new(&scratch, "dut")?,
            ports: vec![PortSpec::new("v1", ""), PortSpec::new("v2", "")],
            scratch,
        };
        rig.wire(1, options)?;
        rig.wire(2, options)?;
        Ok(rig)
    }

    /// Makes the veth pair of host `n` (1 or 2) anew, addresses included.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn wire(&self, n: u8, options: &str) -> Result<()> {
        let host = if n == 1 { &self.c1 } else { &self.c2 };
        let peer =
            format!("type veth peer name e0 netns {} address 02:00:00:00:00:0{n}", host.name());
        self.dut.ip(&format!("link add v{n} {options} {peer} {options}"))?;
        host.ip(&format!("addr add 10.1.1.{n}/24 dev e0"))?;
        host.ip(&format!("addr add fd00::{n}/64 dev e0 nodad"))?;
        host.ip("link set e0 up")?;
        self.dut.ip(&format!("link set v{n} up"))?;
        Ok(())
    }

    /// Waits until `c1` can ping `c2`, at most `limit`.
    ///
    /// # Errors
    /// When it cannot within the limit.
    pub fn wait_forwarding(&self, limit: Duration) -> Result<()> {
        wait_until("a ping from c1 to c2", limit, || {
            let ping = Ping::new(&self.c1, C2).count(1).timeout_s(0.2).run(&self.scratch)?;
            Ok((ping.lost() == 0).then_some(()))
        })
    }

    /// The value of a counter of `nstat` in a namespace, since the namespace was made.
    ///
    /// # Errors
    /// When there is no such counter.
    pub fn nstat(ns: &Netns, counter: &str) -> Result<u64> {
        let text = ns.run(&format!("nstat -asz {counter}"))?;
        text.lines()
            .find_map(|line| {
                line.strip_prefix(counter)?.split_ascii_whitespace().next()?.parse().ok()
            })
            .ok_or(crate::Error::Output { what: format!("nstat {counter}"), text })
    }
}
