//! Flow keys and masks as arrays of words, and the one table that says which field lies where.
//!
//! Words are ordered so that a UDP or TCP packet over IPv4 uses only the first few: hashing and
//! comparing stop there. A field is `bits` wide at `shift` in `word`; fields of 128 bits span two
//! words, the more significant first. Bits outside all fields are zero, and so are the words at and
//! beyond [`FlowKey::used`]. Values are in host order: the number that a person would write.
//!
//! The last words hold what no packet has as it arrives: they cost nothing until an action sets them.

use crate::hash::hash_words;
use crate::wire::TCI_PRESENT;

/// 64-bit words of a key.
pub const N_WORDS: usize = 19;

/// So many leading words are all that a UDP or TCP packet over IPv4 needs.
pub(crate) const SHORT: usize = 6;

/// How a field is written by people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Decimal number, hexadecimal mask.
    Dec,
    /// Hexadecimal number and mask.
    Hex,
    /// Ethernet address.
    Mac,
    /// IPv4 address.
    Ipv4,
    /// IPv6 address.
    Ipv6,
    /// `no`, `first` or `later`.
    Frag,
    /// TCP flags, by name.
    TcpFlags,
    /// Flags of connection tracking, by name.
    CtState,
    /// Four hexadecimal digits.
    EthType,
    /// Port, by name if it has one.
    Port,
}

/// One row of the field table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name within the table, unique.
    pub name: &'static str,
    /// First (most significant) word.
    pub word: usize,
    /// Lowest bit within that word; 0 for fields of 128 bits.
    pub shift: u32,
    /// Width: 1 to 64, or 128.
    pub bits: u32,
    /// How it is written.
    pub format: Format,
}

macro_rules! fields {
    ($($(#[doc = $doc:literal])+ $konst:ident $name:ident: $word:literal @ $shift:literal, $bits:literal, $format:ident;)+) => {
        impl Field {
            $($(#[doc = $doc])+ pub const $konst: Self = Self {
                name: stringify!($name), word: $word, shift: $shift, bits: $bits, format: Format::$format,
            };)+

            /// Every field, in the order of the words.
            pub const ALL: &'static [Self] = &[$(Self::$konst,)+];
        }
    };
}

fields! {
    /// The port on which the packet arrived.
    IN_PORT in_port: 0 @ 0, 32, Port;
    /// How often and why the packet came round again; 0 at first.
    RECIRC_ID recirc_id: 0 @ 32, 32, Hex;
    /// Destination Ethernet address.
    ETH_DST eth_dst: 1 @ 0, 48, Mac;
    /// Ethertype after at most two VLAN tags; 0x05ff for 802.2 frames.
    ETH_TYPE eth_type: 1 @ 48, 16, EthType;
    /// Source Ethernet address.
    ETH_SRC eth_src: 2 @ 0, 48, Mac;
    /// Outer VLAN tag control information; bit 12 (CFI) set means that there is a tag.
    VLAN_TCI vlan_tci: 2 @ 48, 16, EthType;
    /// IPv4 source, or the sender's protocol address in ARP.
    IPV4_SRC ipv4_src: 3 @ 0, 32, Ipv4;
    /// IPv4 destination, or the target's protocol address in ARP.
    IPV4_DST ipv4_dst: 3 @ 32, 32, Ipv4;
    /// IP protocol (after IPv6 extension headers), or the low 8 bits of the ARP operation.
    IP_PROTO ip_proto: 4 @ 0, 8, Dec;
    /// IPv4 type of service or IPv6 traffic class.
    IP_TOS ip_tos: 4 @ 8, 8, Hex;
    /// IPv4 time to live or IPv6 hop limit.
    IP_TTL ip_ttl: 4 @ 16, 8, Dec;
    /// Fragment: 0 no, 1 first, 3 later (bit 0: any fragment, bit 1: not the first).
    IP_FRAG ip_frag: 4 @ 24, 8, Frag;
    /// Transport source port, or ICMP type.
    TP_SRC tp_src: 4 @ 32, 16, Dec;
    /// Transport destination port, or ICMP code.
    TP_DST tp_dst: 4 @ 48, 16, Dec;
    /// IPv6 flow label.
    IPV6_LABEL ipv6_label: 5 @ 0, 20, Hex;
    /// 1 when the outer VLAN tag is one of 802.1ad (0x88a8), 0 for 802.1Q (0x8100).
    VLAN_AD vlan_ad: 5 @ 20, 1, Dec;
    /// The same of the second tag.
    INNER_AD inner_ad: 5 @ 21, 1, Dec;
    /// Control information of the second VLAN tag; bit 12 set means that there is one.
    INNER_TCI inner_tci: 5 @ 32, 16, EthType;
    /// TCP flags.
    TCP_FLAGS tcp_flags: 5 @ 52, 12, TcpFlags;
    /// IPv6 source.
    IPV6_SRC ipv6_src: 6 @ 0, 128, Ipv6;
    /// IPv6 destination.
    IPV6_DST ipv6_dst: 8 @ 0, 128, Ipv6;
    /// Sender's hardware address in ARP, source link-layer address in neighbour discovery.
    ARP_SHA arp_sha: 10 @ 0, 48, Mac;
    /// Target's hardware address in ARP, target link-layer address in neighbour discovery.
    ARP_THA arp_tha: 11 @ 0, 48, Mac;
    /// The hash that an action computed before the packet came round again.
    DP_HASH dp_hash: 12 @ 0, 32, Hex;
    /// A mark that stays with the packet from one lookup to the next; 0 unless an action sets it.
    SKB_MARK skb_mark: 12 @ 32, 32, Hex;
    /// Target of neighbour discovery.
    ND_TARGET nd_target: 13 @ 0, 128, Ipv6;
    /// A priority that stays with the packet as the mark does; it changes nothing at the output.
    SKB_PRIORITY skb_priority: 15 @ 0, 32, Hex;
    /// Mark of the connection; 0 as connections are not tracked.
    CT_MARK ct_mark: 15 @ 32, 32, Hex;
    /// State of the connection; 0 as connections are not tracked.
    CT_STATE ct_state: 16 @ 0, 8, CtState;
    /// Zone of connection tracking; 0 as connections are not tracked.
    CT_ZONE ct_zone: 16 @ 16, 16, Hex;
    /// Namespace (upper half) and type of the outermost header; 0 is Ethernet, and so is every packet.
    PACKET_TYPE packet_type: 16 @ 32, 32, Hex;
    /// Label of the connection; 0 as connections are not tracked.
    CT_LABEL ct_label: 17 @ 0, 128, Hex;
}

impl Field {
    /// Control information and kind of each tag, the outer one first.
    pub const TAGS: [(&Self, &Self); 2] =
        [(&Self::VLAN_TCI, &Self::VLAN_AD), (&Self::INNER_TCI, &Self::INNER_AD)];

    /// All ones, as wide as the field.
    #[must_use]
    pub const fn max(&self) -> u128 {
        if self.bits >= 128 { u128::MAX } else { (1 << self.bits) - 1 }
    }

    /// How many words it touches.
    #[must_use]
    pub const fn words(&self) -> usize {
        if self.bits > 64 { 2 } else { 1 }
    }
}

/// Reads and writes fields of an array of words; shared by keys and masks.
fn get(words: &[u64; N_WORDS], field: &Field) -> u128 {
    let word = |i: usize| words.get(i).copied().map_or(0, u128::from);
    if field.bits > 64 {
        word(field.word) << 64 | word(field.word + 1)
    } else {
        (word(field.word) >> field.shift) & field.max()
    }
}

#[allow(clippy::cast_possible_truncation, reason = "each half is masked to 64 bits")]
fn set(words: &mut [u64; N_WORDS], field: &Field, value: u128) {
    let value = value & field.max();
    if field.bits > 64 {
        if let Some(word) = words.get_mut(field.word) {
            *word = (value >> 64) as u64;
        }
        if let Some(word) = words.get_mut(field.word + 1) {
            *word = value as u64;
        }
    } else if let Some(word) = words.get_mut(field.word) {
        *word = *word & !((field.max() as u64) << field.shift) | (value as u64) << field.shift;
    }
}

/// The parsed headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    words: [u64; N_WORDS],
    used: u8,
}

impl Default for FlowKey {
    fn default() -> Self {
        Self { words: [0; N_WORDS], used: 3 }
    }
}

impl FlowKey {
    /// From raw words; `used` is worked out.
    #[must_use]
    pub fn from_words(words: [u64; N_WORDS]) -> Self {
        let mut key = Self { words, used: 0 };
        key.trim(N_WORDS);
        key
    }

    /// Its words, all zero now, to be set; then it needs [`trim`](Self::trim).
    #[inline]
    pub(crate) const fn clear(&mut self) -> &mut [u64; N_WORDS] {
        self.words = [0; N_WORDS];
        &mut self.words
    }

    /// Works out how many words are used; none at and beyond `bound` is set.
    #[inline]
    pub(crate) fn trim(&mut self, bound: usize) {
        let mut used = bound;
        while used > 3 && self.words.get(used - 1).is_none_or(|&word| word == 0) {
            used -= 1;
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most N_WORDS")]
        let used = used as u8;
        self.used = used;
    }

    /// All words; those from [`used`](Self::used) on are zero.
    #[inline]
    #[must_use]
    pub const fn words(&self) -> &[u64; N_WORDS] {
        &self.words
    }

    /// How many leading words may be other than zero: 3 to [`N_WORDS`].
    #[inline]
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used as usize
    }

    /// The leading words that may be other than zero.
    #[inline]
    #[must_use]
    pub fn significant(&self) -> &[u64] {
        self.words.get(..self.used()).unwrap_or(&self.words)
    }

    /// Equality, fast for short keys, and for those that differ in their ports.
    #[inline]
    pub(crate) fn is(&self, other: &Self) -> bool {
        const PORTS: usize = Field::TP_SRC.word;
        self.used == other.used && self.words[PORTS] == other.words[PORTS] && self.has(&other.words)
    }

    /// True when its words are these, which are all that it uses and zero where it has none.
    #[inline]
    pub(crate) fn has<const N: usize>(&self, words: &[u64; N]) -> bool {
        let same = |own: &[u64], other: &[u64]| {
            own.iter().zip(other).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
        };
        let (short, rest) = self.words.split_at(SHORT);
        // Of a fixed length, the common part is a handful of instructions.
        same(short, words)
            && (self.used() <= SHORT || same(rest, words.get(SHORT..).unwrap_or(&[])))
    }

    /// A hash of all of it.
    #[inline]
    pub(crate) fn hash(&self, seed: u64) -> u64 {
        let (short, rest) = self.words.split_at(SHORT);
        let hash = hash_words(seed, short);
        let n_rest = self.used().saturating_sub(SHORT);
        if n_rest == 0 { hash } else { hash_words(hash, rest.get(..n_rest).unwrap_or(rest)) }
    }

    /// A field's value.
    #[inline]
    #[must_use]
    pub fn get(&self, field: &Field) -> u128 {
        get(&self.words, field)
    }

    /// Sets a field; excess bits of `value` are ignored.
    pub fn set(&mut self, field: &Field, value: u128) {
        set(&mut self.words, field, value);
        *self = Self::from_words(self.words);
    }

    /// The key with all bits cleared that `mask` does not have.
    #[must_use]
    pub fn masked(&self, mask: &FlowMask) -> Self {
        let mut words = self.words;
        for (word, mask) in words.iter_mut().zip(&mask.words) {
            *word &= mask;
        }
        Self::from_words(words)
    }
}

/// Which bits of a key matter: one bits do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowMask {
    words: [u64; N_WORDS],
}

impl FlowMask {
    /// Everything that a field can hold matters.
    #[must_use]
    pub fn exact() -> Self {
        let mut mask = Self::default();
        for field in Field::ALL {
            mask.add(field);
        }
        mask
    }

    /// From raw words.
    #[must_use]
    pub const fn from_words(words: [u64; N_WORDS]) -> Self {
        Self { words }
    }

    /// All words.
    #[inline]
    #[must_use]
    pub const fn words(&self) -> &[u64; N_WORDS] {
        &self.words
    }

    /// A field's mask.
    #[must_use]
    pub fn get(&self, field: &Field) -> u128 {
        get(&self.words, field)
    }

    /// Sets a field's mask.
    pub fn set(&mut self, field: &Field, mask: u128) {
        set(&mut self.words, field, mask);
    }

    /// The whole field matters.
    pub fn add(&mut self, field: &Field) {
        self.set(field, field.max());
    }

    /// These bits of the field matter too.
    pub fn add_bits(&mut self, field: &Field, bits: u128) {
        self.set(field, self.get(field) | bits);
    }

    /// Whatever matters to `other` matters too.
    pub fn union(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// True when the two keys agree in all bits that matter.
    #[inline]
    #[must_use]
    pub fn matches(&self, a: &FlowKey, b: &FlowKey) -> bool {
        let agree = |mask: &[u64], a: &[u64], b: &[u64]| {
            let words = mask.iter().zip(a.iter().zip(b));
            words.fold(0, |acc, (mask, (a, b))| acc | (a ^ b) & mask) == 0
        };
        let (short, rest) = self.words.split_at(SHORT);
        let ((a_short, a_rest), (b_short, b_rest)) =
            (a.words.split_at(SHORT), b.words.split_at(SHORT));
        // As in `has`, a fixed length for what is common.
        agree(short, a_short, b_short)
            && (a.used().max(b.used()) <= SHORT || agree(rest, a_rest, b_rest))
    }
}

/// What a flow or rule matches: packets that agree with `key` in all bits of `mask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    /// The wanted bits; zero where `mask` is.
    pub key: FlowKey,
    /// The bits that matter.
    pub mask: FlowMask,
}

impl Match {
    /// The match for packets like `key` in what `mask` has. So that equal matches look equal, one that says
    /// that there is no tag says so with all bits of the tag and no more of tags, one that says that there is
    /// a tag says of which kind, and none says that packets are Ethernet.
    #[must_use]
    pub fn new(key: &FlowKey, mut mask: FlowMask) -> Self {
        if mask.get(&Field::PACKET_TYPE) & key.get(&Field::PACKET_TYPE) == 0 {
            mask.set(&Field::PACKET_TYPE, 0);
        }
        let present = u128::from(TCI_PRESENT);
        let mut is_bare = false;
        for (tci, kind) in Field::TAGS {
            if is_bare {
                mask.set(tci, 0);
                mask.set(kind, 0);
            } else if mask.get(tci) & present == 0 {
                break;
            } else if key.get(tci) & present == 0 {
                mask.add(tci);
                mask.set(kind, 0);
                is_bare = true;
            } else {
                mask.add(kind);
            }
        }
        Self { key: key.masked(&mask), mask }
    }

    /// Wants all of `field` to be `value`.
    #[must_use]
    pub fn with(self, field: &Field, value: u128) -> Self {
        self.with_masked(field, value, field.max())
    }

    /// Wants the bits `mask` of `field` to be as in `value`; replaces what was wanted of `field`.
    #[must_use]
    pub fn with_masked(mut self, field: &Field, value: u128, mask: u128) -> Self {
        self.key.set(field, value & mask);
        self.mask.set(field, mask);
        self
    }

    /// True when a packet with this key matches.
    #[inline]
    #[must_use]
    pub fn matches(&self, key: &FlowKey) -> bool {
        self.mask.matches(&self.key, key)
    }

    /// True when every packet that `other` matches is matched by this too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let words = self.mask.words().iter().zip(other.mask.words());
        words.fold(0, |acc, (mine, theirs)| acc | mine & !theirs) == 0 && self.matches(&other.key)
    }
}
