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
    match form {
        Form::Frag => {
            let (_, value, mask) = FRAGMENTS.iter().find(|(name, ..)| *name == text)?;
            return Some((*value, Some(*mask)));
        }
        Form::TcpFlags if text.starts_with(['+', '-']) => {
            let (value, mask) = flags(text)?;
            return Some((value, Some(mask)));
        }
        _ => {}
    }
    match text.split_once('/') {
        None => Some((one(form, text)?, None)),
        Some((value, mask)) => {
            let prefix = |bits: u32| Some((u128::MAX, bits.checked_sub(mask.parse().ok()?)?));
            let mask = match form {
                Form::Ipv4 if !mask.contains('.') => {
                    prefix(32).and_then(|(ones, n)| Some(ones.checked_shl(n)? & 0xffff_ffff))
                }
                Form::Ipv6 if !mask.contains(':') => {
                    prefix(128).map(|(ones, n)| ones.checked_shl(n).unwrap_or(0))
                }
                _ => one(form, mask),
            };
            Some((one(form, value)?, Some(mask?)))
        }
    }
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
    let bits = match form {
        Form::Ipv4 => 32,
        Form::Ipv6 => 128,
        _ => 0,
    };
    let n = mask.count_ones();
    if bits > 0 && mask == exact & !exact.checked_shr(n).unwrap_or(0) {
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
