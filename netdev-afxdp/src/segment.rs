//! Packets that a sender left to be cut, in frames: a segment is made of new frames, headers and its part
//! of the payload copied. Whole or not at all: the frames of all segments are at hand before the first.

use xvs_datapath::{Packet, Segments};

use crate::cache::FrameCache;
use crate::packet::XskPacket;

/// The most frames that all segments of a packet may need; so many every cache can hold.
pub(crate) const MAX_SEGMENT_FRAMES: usize = 128;

/// Gives `f` the segments of `packet` in order, and the cache. Returns false, and has given none, when
/// frames are short.
#[must_use]
pub(crate) fn segment(
    packet: &XskPacket,
    plan: &Segments,
    cache: &mut FrameCache,
    mut f: impl FnMut(XskPacket, &mut FrameCache),
) -> bool {
    let room = cache.umem().rx_room();
    let frames = plan.count() * (plan.headers() + plan.payload(0).len()).div_ceil(room);
    let headers = packet.head().get(..plan.headers());
    let Some(headers) = headers.filter(|headers| headers.len() < room) else { return false };
    if frames > MAX_SEGMENT_FRAMES || !cache.reserve(frames) {
        return false;
    }
    let mut payload = Reader { rest: &[], slices: packet.slices() };
    payload.skip(headers.len());
    for n in 0..plan.count() {
        let len = headers.len() + plan.payload(n).len();
        let Some(mut made) = cache.packet_with(len, |at, bytes| {
            let bytes = match at {
                0 => {
                    let (head, bytes) = bytes.split_at_mut(headers.len());
                    head.copy_from_slice(headers);
                    bytes
                }
                _ => bytes,
            };
            payload.read(bytes);
        }) else {
            // Not so: the frames were there.
            return n > 0;
        };
        plan.write(made.head_mut(), n);
        made.set_layers(packet.layers());
        f(made, cache);
    }
    true
}

/// Reads a packet's bytes from the start.
struct Reader<'a, I> {
    rest: &'a [u8],
    slices: I,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Reader<'a, I> {
    /// Calls `f` with the next `n` bytes, in pieces; there are so many.
    fn each(&mut self, mut n: usize, mut f: impl FnMut(&[u8])) {
        while n > 0 {
            if self.rest.is_empty() {
                let Some(next) = self.slices.next() else { return };
                self.rest = next;
            }
            let (piece, rest) = self.rest.split_at(n.min(self.rest.len()));
            f(piece);
            self.rest = rest;
            n -= piece.len();
        }
    }

    fn skip(&mut self, n: usize) {
        self.each(n, |_| {});
    }

    fn read(&mut self, mut out: &mut [u8]) {
        self.each(out.len(), |piece| {
            if let Some(place) = out.split_off_mut(..piece.len()) {
                place.copy_from_slice(piece);
            }
        });
    }
}

#[cfg(test)]
mod tests;
