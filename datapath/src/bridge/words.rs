//! The words of rule syntax: one table of names for parser and printer.

use crate::{Field, Match};

/// Packets of one protocol: a shorthand in a match, and what fields need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protocol {
    /// How to write it.
    pub(super) name: &'static str,
    eth_type: u16,
    ip_proto: Option<u8>,
    icmp_type: Option<u8>,
}

const fn protocol(name: &'static str, eth_type: u16, ip_proto: u8) -> Protocol {
    Protocol { name, eth_type, ip_proto: Some(ip_proto), icmp_type: None }
}

const fn ethernet(name: &'static str, eth_type: u16) -> Protocol {
    Protocol { name, eth_type, ip_proto: None, icmp_type: None }
}

const fn discovery(name: &'static str, icmp_type: u8) -> Protocol {
    Protocol { icmp_type: Some(icmp_type), ..protocol(name, 0x86dd, 58) }
}

const IP: Protocol = ethernet("ip", 0x0800);
const IPV6: Protocol = ethernet("ipv6", 0x86dd);
const ARP: Protocol = ethernet("arp", 0x0806);
const RARP: Protocol = ethernet("rarp", 0x8035);
const ICMP: Protocol = protocol("icmp", 0x0800, 1);
const TCP: Protocol = protocol("tcp", 0x0800, 6);
const UDP: Protocol = protocol("udp", 0x0800, 17);
const SCTP: Protocol = protocol("sctp", 0x0800, 132);
const ICMP6: Protocol = protocol("icmp6", 0x86dd, 58);
const TCP6: Protocol = protocol("tcp6", 0x86dd, 6);
const UDP6: Protocol = protocol("udp6", 0x86dd, 17);
const SCTP6: Protocol = protocol("sctp6", 0x86dd, 132);
const SOLICIT: Protocol = discovery("icmp6,icmpv6_type=135", 135);
const ADVERT: Protocol = discovery("icmp6,icmpv6_type=136", 136);

/// The shorthands; the more specific ones first, so that a printer takes the first that fits.
pub(super) const SHORTHANDS: &[Protocol] =
    &[TCP, UDP, ICMP, SCTP, TCP6, UDP6, ICMP6, SCTP6, IP, IPV6, ARP, RARP];

impl Protocol {
    /// What matches it.
    pub(super) fn matching(&self) -> Match {
        let mut matching = Match::default().with(&Field::ETH_TYPE, self.eth_type.into());
        if let Some(ip_proto) = self.ip_proto {
            matching = matching.with(&Field::IP_PROTO, ip_proto.into());
        }
        match self.icmp_type {
            Some(icmp_type) => matching.with(&Field::TP_SRC, icmp_type.into()),
            None => matching,
        }
    }
}

/// How values of a word are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Decimal.
    Dec,
    /// Hexadecimal, with so many digits.
    Hex(usize),
    /// An Ethernet address.
    Mac,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// `no`, `yes`, `first`, `later`, `not_later`.
    Frag,
    /// `+syn-ack`, or a number.
    TcpFlags,
    /// A VLAN identifier: implies that there is a tag.
    Vid,
    /// A VLAN priority: implies that there is a tag.
    Pcp,
    /// The control information of a tag.
    Tci,
}

/// A word `name=value` of a match, or the destination of `set_field`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) name: &'static str,
    pub(super) field: Field,
    /// Which bits of the field it stands for.
    pub(super) bits: u128,
    /// How far its value is shifted within the field.
    pub(super) shift: u32,
    /// The largest value.
    pub(super) max: u128,
    pub(super) form: Form,
    /// It is possible to match or set only some of the bits.
    pub(super) maskable: bool,
    /// It can be set.
    pub(super) settable: bool,
    /// The match must say that it is one of these.
    pub(super) needs: &'static [Protocol],
}

impl Word {
    const fn of(name: &'static str, field: Field, form: Form, needs: &'static [Protocol]) -> Self {
        let max = field.max();
        let (bits, shift) = (max, 0);
        Self { name, field, bits, shift, max, form, maskable: true, settable: true, needs }
    }

    const fn bits(self, bits: u128, shift: u32) -> Self {
        Self { bits, shift, max: bits >> shift, maskable: false, ..self }
    }

    const fn upto(self, max: u128) -> Self {
        Self { max, ..self }
    }

    const fn whole(self) -> Self {
        Self { maskable: false, ..self }
    }

    const fn fixed(self) -> Self {
        Self { settable: false, ..self }
    }

    /// The word of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        WORDS.iter().find(|word| word.name == name)
    }

    /// True when there is an action `mod_` and this name.
    pub(super) fn is_mod(&self) -> bool {
        const MODS: [&str; 11] = [
            "vlan_vid", "vlan_pcp", "dl_src", "dl_dst", "nw_src", "nw_dst", "nw_tos", "nw_ecn",
            "nw_ttl", "tp_src", "tp_dst",
        ];
        MODS.contains(&self.name)
    }

    /// True when the match says that packets have it.
    pub(super) fn fits(&self, matching: &Match) -> bool {
        self.needs.is_empty() || self.needs.iter().any(|p| p.matching().covers(matching))
    }

    /// The field in the table of fields.
    pub(super) fn static_field(&self) -> Option<&'static Field> {
        Field::ALL.iter().find(|&&field| field == self.field)
    }
}

use Form::{Dec, Frag, Hex, Ipv4, Ipv6, Mac, Pcp, Tci, TcpFlags, Vid};

const IP_ANY: &[Protocol] = &[IP, IPV6];
const PORTS: &[Protocol] = &[TCP, UDP, SCTP, TCP6, UDP6, SCTP6];
const SIXES: &[Protocol] = &[IPV6];
const TCP_ANY: &[Protocol] = &[TCP, TCP6];
const UDP_ANY: &[Protocol] = &[UDP, UDP6];
const SCTP_ANY: &[Protocol] = &[SCTP, SCTP6];
const DISCOVERY: &[Protocol] = &[SOLICIT, ADVERT];
const ARPS: &[Protocol] = &[ARP, RARP];
const FOURS: &[Protocol] = &[IP, ARP, RARP];
const PROTOS: &[Protocol] = &[IP, IPV6, ARP, RARP];

/// All words but `in_port`. Of those for the same bits of the same packets, the printer takes the first.
pub(super) const WORDS: &[Word] = &[
    Word::of("dl_vlan", Field::VLAN_TCI, Vid, &[]).bits(0x0fff, 0),
    Word::of("dl_vlan_pcp", Field::VLAN_TCI, Pcp, &[]).bits(0xe000, 13),
    Word::of("vlan_tci", Field::VLAN_TCI, Tci, &[]),
    Word::of("dl_src", Field::ETH_SRC, Mac, &[]),
    Word::of("dl_dst", Field::ETH_DST, Mac, &[]),
    Word::of("dl_type", Field::ETH_TYPE, Hex(4), &[]).whole().fixed(),
    Word::of("arp_op", Field::IP_PROTO, Dec, ARPS).whole(),
    Word::of("arp_spa", Field::IPV4_SRC, Ipv4, ARPS),
    Word::of("arp_tpa", Field::IPV4_DST, Ipv4, ARPS),
    Word::of("nw_src", Field::IPV4_SRC, Ipv4, FOURS),
    Word::of("nw_dst", Field::IPV4_DST, Ipv4, FOURS),
    Word::of("ipv6_src", Field::IPV6_SRC, Ipv6, SIXES),
    Word::of("ipv6_dst", Field::IPV6_DST, Ipv6, SIXES),
    Word::of("ipv6_label", Field::IPV6_LABEL, Hex(5), SIXES),
    Word::of("nw_proto", Field::IP_PROTO, Dec, PROTOS).whole().fixed(),
    Word::of("nw_tos", Field::IP_TOS, Dec, IP_ANY).bits(0xfc, 0),
    Word::of("nw_ecn", Field::IP_TOS, Dec, IP_ANY).bits(0x03, 0),
    Word::of("nw_ttl", Field::IP_TTL, Dec, IP_ANY).whole(),
    Word::of("nw_frag", Field::IP_FRAG, Frag, IP_ANY).fixed(),
    Word::of("tp_src", Field::TP_SRC, Dec, PORTS),
    Word::of("tp_dst", Field::TP_DST, Dec, PORTS),
    Word::of("icmp_type", Field::TP_SRC, Dec, &[ICMP]).whole().upto(0xff),
    Word::of("icmp_code", Field::TP_DST, Dec, &[ICMP]).whole().upto(0xff),
    Word::of("icmpv6_type", Field::TP_SRC, Dec, &[ICMP6]).whole().upto(0xff),
    Word::of("icmpv6_code", Field::TP_DST, Dec, &[ICMP6]).whole().upto(0xff),
    Word::of("tcp_flags", Field::TCP_FLAGS, TcpFlags, TCP_ANY).fixed(),
    Word::of("arp_sha", Field::ARP_SHA, Mac, ARPS),
    Word::of("arp_tha", Field::ARP_THA, Mac, ARPS),
    Word::of("nd_sll", Field::ARP_SHA, Mac, &[SOLICIT]),
    Word::of("nd_tll", Field::ARP_THA, Mac, &[ADVERT]),
    Word::of("nd_target", Field::ND_TARGET, Ipv6, DISCOVERY),
    // Other names for the same.
    Word::of("vlan_vid", Field::VLAN_TCI, Vid, &[]).bits(0x0fff, 0),
    Word::of("vlan_pcp", Field::VLAN_TCI, Pcp, &[]).bits(0xe000, 13),
    Word::of("eth_src", Field::ETH_SRC, Mac, &[]),
    Word::of("eth_dst", Field::ETH_DST, Mac, &[]),
    Word::of("eth_type", Field::ETH_TYPE, Hex(4), &[]).whole().fixed(),
    Word::of("ip_src", Field::IPV4_SRC, Ipv4, FOURS),
    Word::of("ip_dst", Field::IPV4_DST, Ipv4, FOURS),
    Word::of("ip_proto", Field::IP_PROTO, Dec, PROTOS).whole().fixed(),
    Word::of("ip_dscp", Field::IP_TOS, Dec, IP_ANY).bits(0xfc, 2),
    Word::of("ip_ecn", Field::IP_TOS, Dec, IP_ANY).bits(0x03, 0),
    Word::of("ip_frag", Field::IP_FRAG, Frag, IP_ANY).fixed(),
    Word::of("tcp_src", Field::TP_SRC, Dec, TCP_ANY),
    Word::of("tcp_dst", Field::TP_DST, Dec, TCP_ANY),
    Word::of("udp_src", Field::TP_SRC, Dec, UDP_ANY),
    Word::of("udp_dst", Field::TP_DST, Dec, UDP_ANY),
    Word::of("sctp_src", Field::TP_SRC, Dec, SCTP_ANY),
    Word::of("sctp_dst", Field::TP_DST, Dec, SCTP_ANY),
];
