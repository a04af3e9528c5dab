//! Values and masks of one member, in the notation of its format.

use core::fmt::Write;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::PortNames;
use super::error::{ErrorKind, ParseError};
use super::scan::{Scanner, Word};
use super::table::Member;
use crate::wire::{FRAG_FIRST, FRAG_LATER};
use crate::{Format, MacAddr, PortNo};

/// Names of the TCP flags, lowest bit first.
const TCP_FLAGS: [&str; 12] =
    ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];

/// Names of the flags of connection tracking, lowest bit first.
const CT_STATE: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];

/// The names of single bits, lowest first; none for other formats.
const fn flag_names(format: Format) -> &'static [&'static str] {
    match format {
        Format::TcpFlags => &TCP_FLAGS,
        Format::CtState => &CT_STATE,
        Format::Dec
        | Format::Hex
        | Format::Mac
        | Format::Ipv4
        | Format::Ipv6
        | Format::Frag
        | Format::EthType
        | Format::Port => &[],
    }
}

const FRAGS: [(&str, u8); 3] = [("no", 0), ("first", FRAG_FIRST), ("later", FRAG_LATER)];

/// Reads `value` or `value/mask`.
pub(super) fn parse(
    scan: &mut Scanner<'_>,
    member: &Member,
    ports: &dyn PortNames,
) -> Result<(u128, u128), ParseError> {
    let (format, max) = (member.format, member.max());
    let word = scan.some_word("a value")?;
    if !flag_names(format).is_empty() && word.text.starts_with(['+', '-']) {
        return signed_flags(word, format);
    }
    let value = one(word, format, member.limit, ports)?;
    if !scan.take('/') {
        return Ok((value, max));
    }
    let word = scan.some_word("a mask")?;
    let is_address = matches!(format, Format::Ipv4 | Format::Ipv6);
    let mask = match word.text.parse::<u32>() {
        Ok(prefix) if is_address && prefix <= member.bits => {
            let host = max.checked_shr(prefix).unwrap_or(0);
            max & !host
        }
        _ if matches!(format, Format::Port | Format::Frag) => number(word, max)?,
        _ if is_address => one(word, format, max, ports)
            .or_else(|_| word.want("a prefix length that fits, or an address as mask"))?,
        _ => one(word, format, max, ports)?,
    };
    Ok((value, mask))
}

/// Reads a value that must not have a mask.
pub(super) fn parse_exact(
    scan: &mut Scanner<'_>,
    member: &Member,
    ports: &dyn PortNames,
) -> Result<u128, ParseError> {
    let word = scan.here();
    match parse(scan, member, ports)? {
        (value, mask) if mask == member.max() => Ok(value),
        _ => word.want("a value without mask"),
    }
}

/// One value, or a mask in the same notation.
fn one(
    word: Word<'_>,
    format: Format,
    max: u128,
    ports: &dyn PortNames,
) -> Result<u128, ParseError> {
    match format {
        Format::Dec | Format::Hex | Format::EthType => number(word, max),
        Format::Mac => match word.text.parse::<MacAddr>() {
            Ok(mac) => Ok(mac.to_u64().into()),
            Err(_) => word.want("an Ethernet address, as 02:00:00:00:00:01"),
        },
        Format::Ipv4 => match word.text.parse::<Ipv4Addr>() {
            Ok(ip) => Ok(u32::from(ip).into()),
            Err(_) => word.want("an IPv4 address"),
        },
        Format::Ipv6 => match word.text.parse::<Ipv6Addr>() {
            Ok(ip) => Ok(ip.into()),
            Err(_) => word.want("an IPv6 address"),
        },
        Format::Frag => match FRAGS.iter().find(|(name, _)| *name == word.text) {
            Some((_, value)) => Ok((*value).into()),
            None => number(word, max).or_else(|_| word.want("no, first or later")),
        },
        Format::TcpFlags | Format::CtState => flags(word, format, max),
        Format::Port => port(word, ports).map(|port| port.0.into()),
    }
}

/// A port by name or number; a name wins.
pub(super) fn port(word: Word<'_>, ports: &dyn PortNames) -> Result<PortNo, ParseError> {
    if let Some(port) = ports.number(word.text) {
        return Ok(port);
    }
    match word.text.parse().map(PortNo) {
        Ok(port) if port <= PortNo::MAX => Ok(port),
        _ => Err(word.error(ErrorKind::NoSuchPort)),
    }
}

/// A decimal number, or a hexadecimal one after `0x`.
pub(super) fn number(word: Word<'_>, max: u128) -> Result<u128, ParseError> {
    let (digits, radix) = match word.text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (word.text, 10),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    match u128::from_str_radix(digits, radix) {
        _ if !is_number => word.want("a number"),
        Ok(value) if value <= max => Ok(value),
        _ => Err(word.error(ErrorKind::TooLarge(max))),
    }
}

/// `syn|ack`, or a number.
fn flags(word: Word<'_>, format: Format, max: u128) -> Result<u128, ParseError> {
    if word.text.starts_with(|c: char| c.is_ascii_digit()) {
        return number(word, max);
    }
    let mut value = 0;
    for name in word.text.split('|') {
        value |= flag(word, name, format)?;
    }
    Ok(value)
}

fn flag(word: Word<'_>, name: &str, format: Format) -> Result<u128, ParseError> {
    match flag_names(format).iter().position(|&known| known == name) {
        Some(bit) => Ok(1 << bit),
        None if format == Format::CtState => word.want("flags of ct_state, as trk|est or +trk-new"),
        None => word.want("TCP flags, as syn|ack or +syn-ack"),
    }
}

/// `+syn-ack`: these flags set and those not, the others do not matter.
fn signed_flags(word: Word<'_>, format: Format) -> Result<(u128, u128), ParseError> {
    let (mut value, mut mask) = (0, 0);
    let mut rest = word.text;
    while let Some(sign) = rest.chars().next() {
        rest = rest.get(1..).unwrap_or_default();
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let bit = flag(word, name, format)?;
        mask |= bit;
        value |= if sign == '+' { bit } else { 0 };
        rest = after;
    }
    Ok((value, mask))
}

/// Appends `value`, or `value/mask` unless the mask is `max`.
pub(super) fn print(
    out: &mut String,
    format: Format,
    (value, mask, max): (u128, u128, u128),
    ports: &dyn PortNames,
) {
    let exact = mask == max;
    let flags = flag_names(format);
    if !flags.is_empty() && !exact && mask != 0 {
        return print_signed_flags(out, value, mask, flags);
    }
    let name = if exact { name_of(format, value, ports) } else { None };
    match name {
        Some(name) => out.push_str(&name),
        None => print_one(out, format, value),
    }
    if exact {
        return;
    }
    out.push('/');
    match format {
        Format::Dec | Format::Port | Format::Frag | Format::TcpFlags | Format::CtState => {
            print_one(out, Format::Hex, mask);
        }
        Format::Hex | Format::EthType | Format::Mac | Format::Ipv4 | Format::Ipv6 => {
            print_one(out, format, mask);
        }
    }
}

/// What stands for an exact value, if not its number.
fn name_of(format: Format, value: u128, ports: &dyn PortNames) -> Option<String> {
    match format {
        Format::Port => ports.name(PortNo(value.try_into().ok()?)),
        Format::Frag => {
            let (name, _) = FRAGS.iter().find(|(_, v)| u128::from(*v) == value)?;
            Some((*name).to_owned())
        }
        Format::TcpFlags | Format::CtState if value != 0 => {
            let names = flag_names(format).iter().enumerate();
            let names = names.filter(|(bit, _)| value >> bit & 1 == 1);
            Some(names.map(|(_, name)| *name).collect::<Vec<_>>().join("|"))
        }
        Format::TcpFlags
        | Format::CtState
        | Format::Dec
        | Format::Hex
        | Format::EthType
        | Format::Mac
        | Format::Ipv4
        | Format::Ipv6 => None,
    }
}

fn print_signed_flags(out: &mut String, value: u128, mask: u128, names: &[&str]) {
    for (bit, name) in names.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1) {
        out.push(if value >> bit & 1 == 1 { '+' } else { '-' });
        out.push_str(name);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "values are no wider than their formats")]
fn print_one(out: &mut String, format: Format, value: u128) {
    // Writing to a string does not fail.
    let _ = match format {
        Format::Dec | Format::Port | Format::Frag => write!(out, "{value}"),
        Format::Hex | Format::TcpFlags | Format::CtState if value == 0 => write!(out, "0"),
        Format::Hex | Format::TcpFlags | Format::CtState => write!(out, "{value:#x}"),
        Format::EthType => write!(out, "{value:#06x}"),
        Format::Mac => write!(out, "{}", MacAddr::from_u64(value as u64)),
        Format::Ipv4 => write!(out, "{}", Ipv4Addr::from(value as u32)),
        Format::Ipv6 => write!(out, "{}", Ipv6Addr::from(value)),
    };
}
