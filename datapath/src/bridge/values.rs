//! Values of rule syntax: numbers, addresses, fragments and flags, with their masks.

use core::fmt::Write;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::MacAddr;

use super::words::Form;

/// `no` and so on: name, value, mask.
const FRAGMENTS: [(&str, u128, u128); 5] =
    [("no", 0, 0xff), ("yes", 1, 1), ("first", 1, 0xff), ("later", 3, 0xff), ("not_later", 0, 2)];

/// From the lowest bit.
const FLAGS: [&str; 9] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"];

/// A decimal or `0x` hexadecimal number.
pub(super) fn number(text: &str) -> Option<u128> {
    let is_plain = |digits: &str| digits.starts_with(|c: char| c.is_ascii_hexdigit());
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => is_plain(hex).then(|| u128::from_str_radix(hex, 16).ok())?,
        None => is_plain(text).then(|| text.parse().ok())?,
    }
}

/// Value and mask; without `/mask` the mask is `None`.
pub(super) fn parse(form: Form, text: &str) -> Option<(u128, Option<u128>)> {
    if form == Form::Frag {
        let (_, value, mask) = FRAGMENTS.iter().find(|(name, ..)| *name == text)?;
        return Some((*value, Some(*mask)));
    }
    if form == Form::TcpFlags && text.starts_with(['+', '-']) {
        let (value, mask) = flags(text)?;
        return Some((value, Some(mask)));
    }
    let Some((value, mask)) = text.split_once('/') else { return Some((one(form, text)?, None)) };
    let bits = address_bits(form);
    let mask = if bits > 0 && !mask.contains(['.', ':']) {
        prefix(bits, mask.parse().ok().filter(|&n| n <= bits)?)
    } else {
        one(form, mask)?
    };
    Some((one(form, value)?, Some(mask)))
}

/// The width of addresses that may have a prefix length; 0 for other forms.
fn address_bits(form: Form) -> u32 {
    if form == Form::Ipv4 { 32 } else { u32::from(form == Form::Ipv6) * 128 }
}

/// The `n` leading of the `bits` low bits.
fn prefix(bits: u32, n: u32) -> u128 {
    let ones = |n| u128::MAX.checked_shr(128 - n).unwrap_or(0);
    ones(bits) & !ones(bits - n)
}

fn one(form: Form, text: &str) -> Option<u128> {
    match form {
        Form::Mac => text.parse().ok().map(|mac: MacAddr| mac.to_u64().into()),
        Form::Ipv4 => text.parse().ok().map(|ip: Ipv4Addr| ip.to_bits().into()),
        Form::Ipv6 => text.parse().ok().map(|ip: Ipv6Addr| ip.to_bits()),
        Form::Frag => None,
        Form::Dec | Form::Hex(_) | Form::TcpFlags | Form::Vid | Form::Pcp | Form::Tci => {
            number(text)
        }
    }
}

/// `+syn-ack`: those with a plus set, those with a minus not.
fn flags(text: &str) -> Option<(u128, u128)> {
    let (mut value, mut mask) = (0, 0);
    let mut rest = text;
    while !rest.is_empty() {
        let (is_set, word) = match rest.strip_prefix('+') {
            Some(word) => (true, word),
            None => (false, rest.strip_prefix('-')?),
        };
        let end = word.find(['+', '-']).unwrap_or(word.len());
        let (name, after) = word.split_at_checked(end)?;
        let bit = 1 << FLAGS.iter().position(|flag| *flag == name)?;
        mask |= bit;
        value |= if is_set { bit } else { 0 };
        rest = after;
    }
    Some((value, mask))
}

/// The value; followed by the mask unless that is `exact`.
pub(super) fn print(form: Form, value: u128, mask: u128, exact: u128) -> String {
    if form == Form::Frag
        && let Some((name, ..)) = FRAGMENTS.iter().find(|(_, v, m)| (*v, *m) == (value, mask))
    {
        return (*name).to_owned();
    }
    if mask == exact {
        return print_one(form, value);
    }
    if form == Form::TcpFlags && mask >> FLAGS.len() == 0 {
        return print_flags(value, mask);
    }
    let (bits, n) = (address_bits(form), mask.count_ones());
    if bits > 0 && mask == prefix(bits, n) {
        return format!("{}/{n}", print_one(form, value));
    }
    let form = if form == Form::Dec { Form::Hex(0) } else { form };
    format!("{}/{}", print_one(form, value), print_one(form, mask))
}

fn print_one(form: Form, value: u128) -> String {
    match form {
        Form::Mac => MacAddr::from_u64(u64::try_from(value).unwrap_or(0)).to_string(),
        Form::Ipv4 => Ipv4Addr::from_bits(u32::try_from(value).unwrap_or(0)).to_string(),
        Form::Ipv6 => Ipv6Addr::from_bits(value).to_string(),
        Form::Dec | Form::Vid | Form::Pcp => value.to_string(),
        Form::Hex(digits) => format!("0x{value:0digits$x}"),
        Form::Tci => format!("0x{value:04x}"),
        Form::TcpFlags => format!("0x{value:03x}"),
        Form::Frag => format!("0x{value:x}"),
    }
}

fn print_flags(value: u128, mask: u128) -> String {
    let mut text = String::new();
    for (i, flag) in FLAGS.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1) {
        let sign = if value >> i & 1 == 1 { '+' } else { '-' };
        // Writing to a string cannot fail.
        let _ = write!(text, "{sign}{flag}");
    }
    text
}
