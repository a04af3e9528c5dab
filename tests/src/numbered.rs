//! Numbered frames from one host to the other, compared byte by byte where they arrive. Few are under way at a
//! time, so that no ring or socket buffer on the way can be full: a frame that is missing was lost by the switch.

use std::time::{Duration, Instant};

use crate::{Error, Result, frame, ns::Netns, raw::RawSocket};

/// A type for experiments (IEEE 802 local experimental).
const ETHER_TYPE: u16 = 0x88b5;
/// Frames under way at most.
const WINDOW: u32 = 64;
/// How long a frame may be under way.
const LATE: Duration = Duration::from_secs(5);
/// Header and number.
const LEAST: usize = 18;

/// A host's interface and a MAC address of its own.
#[derive(Clone, Copy, Debug)]
pub struct Station<'a> {
    /// The namespace.
    pub ns: &'a Netns,
    /// The interface in it.
    pub interface: &'a str,
    /// Its address.
    pub mac: [u8; 6],
}

impl Station<'_> {
    fn open(&self) -> Result<RawSocket> {
        let interface = self.interface.to_owned();
        self.ns.enter(move || RawSocket::open(&interface))
    }
}

/// Sends `count` frames of `size` bytes (18 at least) and returns once all have arrived unchanged, each once.
///
/// # Errors
/// What was wrong with which frame.
pub fn pass(from: Station<'_>, to: Station<'_>, size: usize, count: u32) -> Result<()> {
    let (sender, receiver) = (from.open()?, to.open()?);
    let mut arrived = vec![false; count as usize];
    let (mut sent, mut received, mut last) = (0, 0, Instant::now());
    let mut buffer = vec![0; 65_600];
    let make = |number| numbered(from.mac, to.mac, size, number);
    while received < count {
        while sent < count && sent - received < WINDOW {
            if !sender.send(&make(sent))? {
                return Err(Error::Check(format!("frame {sent} of {size} bytes is not sent")));
            }
            sent += 1;
        }
        if let Some(frame) = receiver.next(&mut buffer)?
            && frame.get(12..14) == Some(&ETHER_TYPE.to_be_bytes())
            && let Some(number) = frame.get(14..LEAST).and_then(<[u8]>::first_chunk)
        {
            let number = u32::from_be_bytes(*number);
            // What the one before left, or another sender.
            if frame.get(..12) != make(0).get(..12) {
                continue;
            }
            if frame != make(number) {
                let length = frame.len();
                return Err(Error::Check(format!(
                    "frame {number} of {size} bytes arrives changed, with {length} bytes"
                )));
            }
            match arrived.get_mut(number as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(Error::Check(format!("frame {number} arrives a second time"))),
            }
            received += 1;
            last = Instant::now();
        } else if last.elapsed() > LATE {
            let first = arrived.iter().position(|seen| !seen).unwrap_or_default();
            return Err(Error::Check(format!(
                "of {sent} frames of {size} bytes {received} arrive: {first} is the first that is missing"
            )));
        }
    }
    Ok(())
}

/// Sends single frames until one arrives, at most for `limit`: a link that was reset needs its time. What is
/// under way then has arrived or is lost when this returns.
///
/// # Errors
/// When none arrives.
pub fn wait(from: Station<'_>, to: Station<'_>, limit: Duration) -> Result<()> {
    let (sender, receiver) = (from.open()?, to.open()?);
    let start = Instant::now();
    let mut buffer = vec![0; 65_600];
    let probe = numbered(from.mac, to.mac, 64, u32::MAX);
    let mut seen = false;
    while start.elapsed() < limit {
        match receiver.next(&mut buffer)? {
            Some(frame) if frame == probe => seen = true,
            Some(_) => {}
            None if seen => return Ok(()),
            None => {
                sender.send(&probe)?;
            }
        }
    }
    let what = format!("a frame from {} at {}", from.interface, to.interface);
    Err(Error::Timeout { what, limit })
}

/// How long each of `count` frames takes that are sent one by one, a pause before each; in ascending order.
///
/// # Errors
/// When one is lost.
pub fn delays(
    from: Station<'_>,
    to: Station<'_>,
    pause: Duration,
    count: u32,
) -> Result<Vec<Duration>> {
    let (sender, receiver) = (from.open()?, to.open()?);
    let mut took = Vec::new();
    for number in 0..count {
        std::thread::sleep(pause);
        let frame = numbered(from.mac, to.mac, 64, number);
        let start = Instant::now();
        sender.send(&frame)?;
        receiver
            .receive(LATE, |received| received == frame)?
            .ok_or_else(|| Error::Check(format!("frame {number} does not arrive")))?;
        took.push(start.elapsed());
    }
    took.sort_unstable();
    Ok(took)
}

/// Frame `number`: its bytes are others than those of its neighbours.
fn numbered(from: [u8; 6], to: [u8; 6], size: usize, number: u32) -> Vec<u8> {
    let mut bytes = frame::ethernet(to, from, ETHER_TYPE, &number.to_be_bytes());
    let mut next = number.wrapping_mul(0x9e37_79b9) | 1;
    while bytes.len() < size.max(LEAST) {
        next = next.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        bytes.extend((next >> 8).to_be_bytes());
    }
    bytes.truncate(size.max(LEAST));
    bytes
}
