//! The one table of the syntax: groups, their members, and what each needs of the match.

use super::{PortNames, value};
use crate::wire::{self, proto};
use crate::{Field, Format, Match};

/// `name(member=…,member=…)`, or `name(…)` with one member without a name.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) need: Need,
    pub(super) members: &'static [Member],
}

/// Some bits of a field as people name them.
#[derive(Debug)]
pub(super) struct Member {
    /// Empty for the only member of a group.
    pub(super) name: &'static str,
    pub(super) field: &'static Field,
    /// Lowest bit within the field.
    pub(super) shift: u32,
    /// Width; all of the field unless said otherwise.
    pub(super) bits: u32,
    /// The largest value that makes sense.
    pub(super) limit: u128,
    pub(super) format: Format,
    /// Whether `set()` may name it.
    pub(super) rewritable: bool,
}

/// What a match must say for a header to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// A tag.
    Tag,
    /// Two tags.
    TwoTags,
    /// One of these Ethertypes.
    Eth(&'static [u16]),
    /// One of these Ethertypes and this protocol.
    Ip(&'static [u16], u8),
    /// Neighbour solicitation or advertisement.
    Nd,
}

const IP: &[u16] = &[wire::ETH_IPV4, wire::ETH_IPV6];
const IPV4: &[u16] = &[wire::ETH_IPV4];
const IPV6: &[u16] = &[wire::ETH_IPV6];
const ARP: &[u16] = &[wire::ETH_ARP, wire::ETH_RARP];

/// A member that `set()` may name.
const fn rw(name: &'static str, field: &'static Field) -> Member {
    Member {
        name,
        field,
        shift: 0,
        bits: field.bits,
        limit: field.max(),
        format: field.format,
        rewritable: true,
    }
}

/// A member that can only be matched.
const fn ro(name: &'static str, field: &'static Field) -> Member {
    Member { rewritable: false, ..rw(name, field) }
}

/// `bits` bits of the field, at `shift`, as a number.
const fn part(name: &'static str, (shift, bits): (u32, u32), whole: Member) -> Member {
    let limit = (1 << bits) - 1;
    Member { name, shift, bits, limit, format: Format::Dec, ..whole }
}

/// The members of a tag.
const fn tag(field: &'static Field, rewritable: bool) -> [Member; 4] {
    [
        Member { rewritable, ..part("vid", (0, 12), ro("", field)) },
        Member { rewritable, ..part("pcp", (13, 3), ro("", field)) },
        part("cfi", (12, 1), ro("", field)),
        ro(TCI, field),
    ]
}

/// Values of a wider field are at most `limit`.
const fn limit(limit: u128, member: Member) -> Member {
    Member { limit, ..member }
}

const fn group(name: &'static str, need: Need, members: &'static [Member]) -> Group {
    Group { name, need, members }
}

/// In the order in which they are printed; tags are printed before the Ethertype.
pub(super) static GROUPS: &[Group] = &[
    group("skb_priority", Need::Nothing, &[rw("", &Field::SKB_PRIORITY)]),
    group("skb_mark", Need::Nothing, &[rw("", &Field::SKB_MARK)]),
    group("ct_state", Need::Nothing, &[ro("", &Field::CT_STATE)]),
    group("ct_zone", Need::Nothing, &[ro("", &Field::CT_ZONE)]),
    group("ct_mark", Need::Nothing, &[ro("", &Field::CT_MARK)]),
    group("ct_label", Need::Nothing, &[ro("", &Field::CT_LABEL)]),
    group("recirc_id", Need::Nothing, &[ro("", &Field::RECIRC_ID)]),
    group("dp_hash", Need::Nothing, &[ro("", &Field::DP_HASH)]),
    group(IN_PORT, Need::Nothing, &[ro("", &Field::IN_PORT)]),
    group(
        PACKET_TYPE,
        Need::Nothing,
        &[
            part("ns", (16, 16), ro("", &Field::PACKET_TYPE)),
            Member { format: Format::Hex, ..part("id", (0, 16), ro("", &Field::PACKET_TYPE)) },
        ],
    ),
    group("eth", Need::Nothing, &[rw("src", &Field::ETH_SRC), rw("dst", &Field::ETH_DST)]),
    group(VLAN, Need::Tag, OUTER),
    group(VLAN, Need::TwoTags, INNER),
    group(ETH_TYPE, Need::Nothing, &[ro("", &Field::ETH_TYPE)]),
    group(
        "ipv4",
        Need::Eth(IPV4),
        &[
            rw("src", &Field::IPV4_SRC),
            rw("dst", &Field::IPV4_DST),
            ro("proto", &Field::IP_PROTO),
            rw("tos", &Field::IP_TOS),
            rw("ttl", &Field::IP_TTL),
            ro("frag", &Field::IP_FRAG),
        ],
    ),
    group(
        "ipv6",
        Need::Eth(IPV6),
        &[
            rw("src", &Field::IPV6_SRC),
            rw("dst", &Field::IPV6_DST),
            rw("label", &Field::IPV6_LABEL),
            ro("proto", &Field::IP_PROTO),
            rw("tclass", &Field::IP_TOS),
            rw("hlimit", &Field::IP_TTL),
            ro("frag", &Field::IP_FRAG),
        ],
    ),
    group(
        "arp",
        Need::Eth(ARP),
        &[
            rw("sip", &Field::IPV4_SRC),
            rw("tip", &Field::IPV4_DST),
            rw("op", &Field::IP_PROTO),
            rw("sha", &Field::ARP_SHA),
            rw("tha", &Field::ARP_THA),
        ],
    ),
    group("tcp", Need::Ip(IP, proto::TCP), PORTS),
    group("tcp_flags", Need::Ip(IP, proto::TCP), &[ro("", &Field::TCP_FLAGS)]),
    group("udp", Need::Ip(IP, proto::UDP), PORTS),
    group("sctp", Need::Ip(IP, proto::SCTP), PORTS),
    group("icmp", Need::Ip(IPV4, proto::ICMP), TYPE_AND_CODE),
    group("icmpv6", Need::Ip(IPV6, proto::ICMPV6), TYPE_AND_CODE),
    group(
        "nd",
        Need::Nd,
        &[rw("target", &Field::ND_TARGET), rw("sll", &Field::ARP_SHA), rw("tll", &Field::ARP_THA)],
    ),
];

const OUTER: &[Member] = &tag(&Field::VLAN_TCI, true);
const INNER: &[Member] = &tag(&Field::INNER_TCI, false);
const PORTS: &[Member] = &[rw("src", &Field::TP_SRC), rw("dst", &Field::TP_DST)];
const TYPE_AND_CODE: &[Member] =
    &[limit(0xff, rw("type", &Field::TP_SRC)), limit(0xff, rw("code", &Field::TP_DST))];

/// The group of the port.
pub(super) const IN_PORT: &str = "in_port";
/// The group of the kind of packet.
pub(super) const PACKET_TYPE: &str = "packet_type";
/// The group of the tag.
pub(super) const VLAN: &str = "vlan";
/// The member that is the whole tag; printed only when the others cannot say it.
pub(super) const TCI: &str = "tci";
/// The group of the Ethertype.
pub(super) const ETH_TYPE: &str = "eth_type";

/// Fields of Open vSwitch that are not accepted at all.
pub(super) const UNSUPPORTED: &[&str] =
    &["tunnel", "mpls", "nsh", "nd_ext", "ct_tuple4", "ct_tuple6"];

/// What `set()` may name: header and member, as `("ipv4", "ttl")`.
pub fn rewritable() -> impl Iterator<Item = (&'static str, &'static str)> {
    let members = GROUPS.iter().flat_map(|group| group.members.iter().map(|m| (group.name, m)));
    members.filter(|(_, member)| member.rewritable).map(|(group, member)| (group, member.name))
}

/// The group with this name; of tags the outer one.
pub(super) fn find(name: &str) -> Option<&'static Group> {
    find_in(name, 0)
}

/// The group with this name, within so many tags.
pub(super) fn find_in(name: &str, depth: usize) -> Option<&'static Group> {
    let fits = |group: &&Group| group.tag_level().is_none_or(|level| level == depth);
    GROUPS.iter().filter(fits).find(|group| group.name == name)
}

/// The group whose member `set()` rewrites this field in packets that `m` matches; if there is none,
/// the first that could elsewhere.
pub(super) fn rewriting(field: &Field, m: &Match) -> Option<&'static Group> {
    let could = |group: &&Group| {
        group.members.iter().any(|member| member.rewritable && member.field == field)
    };
    let fits = GROUPS.iter().filter(could).find(|group| group.need.holds(m));
    fits.or_else(|| GROUPS.iter().find(could))
}

/// All that a match can say, as `group.member`, or `group` where the member has no name; members of the second
/// tag as `encap.group.member`.
pub fn members() -> impl Iterator<Item = String> {
    let members = GROUPS.iter().flat_map(|group| group.members.iter().map(move |m| (group, m)));
    members.map(|(group, member)| {
        let encap = if group.tag_level() == Some(1) { "encap." } else { "" };
        let dot = if member.name.is_empty() { "" } else { "." };
        format!("{encap}{}{dot}{}", group.name, member.name)
    })
}

impl Group {
    /// True when a member is about this field.
    pub(super) fn has(&self, field: &Field) -> bool {
        self.members.iter().any(|member| member.field == field)
    }

    /// Which tag it is about, if any: 0 is the outer one.
    pub(super) fn tag_level(&self) -> Option<usize> {
        match self.need {
            Need::Tag => Some(0),
            Need::TwoTags => Some(1),
            Need::Nothing | Need::Eth(_) | Need::Ip(..) | Need::Nd => None,
        }
    }

    /// True when `set()` may name it.
    pub(super) fn is_rewritable(&self) -> bool {
        self.members.iter().any(|member| member.rewritable)
    }

    /// The only member, of groups whose member has no name.
    pub(super) fn bare(&self) -> Option<&'static Member> {
        self.members.first().filter(|member| member.name.is_empty())
    }
}

impl Member {
    /// The largest value.
    pub(super) fn max(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// What `m` says about the member: value and mask.
    pub(super) fn of(&self, m: &Match) -> (u128, u128) {
        (self.part(m.key.get(self.field)), self.part(m.mask.get(self.field)))
    }

    /// Appends `name=value/mask`, after a comma if need be.
    pub(super) fn print(&self, out: &mut String, value: u128, mask: u128, ports: &dyn PortNames) {
        if !out.ends_with('(') {
            out.push(',');
        }
        if !self.name.is_empty() {
            out.push_str(self.name);
            out.push('=');
        }
        value::print(out, self.format, (value, mask, self.max()), ports);
    }

    /// The member's part of a field's value.
    pub(super) fn part(&self, value: u128) -> u128 {
        value >> self.shift & self.max()
    }
}

impl Need {
    /// True when `m` matches only packets that have this header.
    pub(super) fn holds(self, m: &Match) -> bool {
        let exact = |field: &Field, values: &[u16]| {
            let is_exact = m.mask.get(field) == field.max();
            is_exact && values.iter().any(|&value| m.key.get(field) == value.into())
        };
        let is_there =
            |tci: &Field| m.mask.get(tci) & m.key.get(tci) & u128::from(wire::TCI_PRESENT) != 0;
        match self {
            Self::Nothing => true,
            Self::Tag => is_there(&Field::VLAN_TCI),
            Self::TwoTags => is_there(&Field::VLAN_TCI) && is_there(&Field::INNER_TCI),
            Self::Eth(types) => exact(&Field::ETH_TYPE, types),
            Self::Ip(types, proto) => {
                exact(&Field::ETH_TYPE, types) && exact(&Field::IP_PROTO, &[proto.into()])
            }
            Self::Nd => {
                let kinds = [wire::ND_SOLICIT.into(), wire::ND_ADVERT.into()];
                Self::Ip(IPV6, proto::ICMPV6).holds(m)
                    && exact(&Field::TP_SRC, &kinds)
                    && exact(&Field::TP_DST, &[0])
            }
        }
    }

    /// What the user has to write.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Tag => "eth_type(0x8100),vlan()",
            Self::TwoTags => "eth_type(0x8100),vlan(),encap(eth_type(0x8100),vlan())",
            Self::Eth(IPV4) => "eth_type(0x0800)",
            Self::Eth(IPV6) => "eth_type(0x86dd)",
            Self::Eth(_) => "eth_type(0x0806)",
            Self::Ip(_, proto::TCP) => "ipv4(proto=6) or ipv6(proto=6)",
            Self::Ip(_, proto::UDP) => "ipv4(proto=17) or ipv6(proto=17)",
            Self::Ip(_, proto::SCTP) => "ipv4(proto=132) or ipv6(proto=132)",
            Self::Ip(_, proto::ICMP) => "ipv4(proto=1)",
            Self::Ip(..) => "ipv6(proto=58)",
            Self::Nd => "icmpv6(type=135,code=0) or icmpv6(type=136,code=0)",
        }
    }
}
