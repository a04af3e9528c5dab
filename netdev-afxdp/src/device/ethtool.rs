//! Questions by the ethtool ioctl, which drivers of all ages answer.

#![allow(unsafe_code, reason = "one ioctl that fills a structure")]

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use super::Queues;

/// linux/sockios.h
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_DRVINFO: u32 = 0x03;
const GET_FLAGS: u32 = 0x25;
const GET_CHANNELS: u32 = 0x3c;

/// ETH_FLAG_RXVLAN: received tags are taken off.
pub(super) const RX_VLAN: u32 = 1 << 8;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// A structure that one ethtool command fills.
///
/// # Safety
/// The type is what the kernel expects for the command in its first field, any bytes are a valid
/// value of it, and it has no padding.
unsafe trait Answer {}

// SAFETY: nine u32, as the kernel fills for GET_CHANNELS.
unsafe impl Answer for Channels {}
// SAFETY: two u32, as the kernel fills for GET_FLAGS.
unsafe impl Answer for Value {}
// SAFETY: a u32 and 192 bytes, as the kernel fills for GET_DRVINFO.
unsafe impl Answer for DriverInfo {}

/// The queues in use and at most; combined ones count on both sides.
pub(super) fn channels(name: &str) -> io::Result<Queues> {
    let mut found = Channels { command: GET_CHANNELS, ..Channels::default() };
    ask(name, &mut found)?;
    Ok(Queues {
        rx: found.rx.saturating_add(found.combined),
        tx: found.tx.saturating_add(found.combined),
        max_rx: found.max_rx.saturating_add(found.max_combined),
        max_tx: found.max_tx.saturating_add(found.max_combined),
    })
}

/// Which of the oldest offloads are on.
pub(super) fn flags(name: &str) -> io::Result<u32> {
    let mut found = Value { command: GET_FLAGS, data: 0 };
    ask(name, &mut found)?;
    Ok(found.data)
}

/// The name of the driver.
pub(super) fn driver(name: &str) -> io::Result<String> {
    let mut found = DriverInfo { command: GET_DRVINFO, driver: [0; 32], rest: [0; 160] };
    ask(name, &mut found)?;
    let text = found.driver.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn ask<T: Answer>(name: &str, answer: &mut T) -> io::Result<()> {
    // Any socket will do; this one belongs to the thread's network namespace.
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut *answer).cast() },
    };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: `request` names a structure that the caller borrows mutably for the whole call and
    // that, as `Answer` promises, the kernel may fill as the command in it says.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
