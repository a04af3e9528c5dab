//! A packet in UMEM frames.
//!
//! The packet owns its frames: the first in the struct, the others as a chain in the packet memory's
//! link table. Invariants: every frame of the chain is owned by this packet and by nothing else; for
//! each of them offset + length is at most the frame size (checked where the packet is made);
//! [`TX_METADATA_LEN`] bytes before the data are left for the kernel's metadata.
#![allow(unsafe_code, reason = "makes slices of packet memory")]

use xvs_datapath::{Layers, NoHeadroom, Packet};

use crate::abi::TX_METADATA_LEN;
use crate::frame::{Frame, Link};
use crate::umem::Umem;

/// The most frames that a packet may arrive in whose sender left it to be cut: 64 KiB in frames with room
/// for 1024 bytes.
pub(crate) const MAX_UNCUT_FRAMES: usize = 64;

/// A packet of 1 to 18 frames of one [`Umem`], of up to 64 while it is to be cut. Must end in a transmit queue or in
/// [`FrameCache::free`](crate::FrameCache::free): dropping the value loses its frames.
#[derive(Debug)]
#[must_use = "a packet that is forgotten loses its frames"]
pub struct XskPacket {
    umem: &'static Umem,
    first: Frame,
    last: u32,
    len: u32,
    offset: u16,
    head_len: u16,
    layers: Layers,
    own_mtu: u16,
    n: u8,
}

/// One frame of a packet that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) index: u32,
    pub(crate) offset: u16,
    pub(crate) len: u16,
}

impl XskPacket {
    /// A packet of one frame with data at `offset`; gives the frame back when the data does not lie in
    /// it with the reserve for metadata before it.
    #[inline]
    pub(crate) fn new(
        umem: &'static Umem,
        frame: Frame,
        offset: u32,
        len: u32,
    ) -> Result<Self, Frame> {
        match checked(umem, offset, len) {
            Some((offset, head_len)) => {
                let last = frame.index();
                let layers = Layers::default();
                let first = frame;
                Ok(Self { umem, first, last, len, offset, head_len, layers, own_mtu: 0, n: 1 })
            }
            None => Err(frame),
        }
    }

    /// Adds a frame with data at `offset`; gives it back when the data does not lie in it, or the
    /// packet has all the frames it may have.
    #[inline]
    pub(crate) fn append(&mut self, frame: Frame, offset: u32, len: u32) -> Result<(), Frame> {
        let Some((offset, frame_len)) = checked(self.umem, offset, len) else { return Err(frame) };
        if usize::from(self.n) >= MAX_UNCUT_FRAMES {
            return Err(frame);
        }
        let links = self.umem.links();
        links.set(self.last, Link { next: frame.index(), ..links.get(self.last) });
        links.set(frame.index(), Link { next: 0, offset, len: frame_len });
        self.last = frame.into_index();
        self.len += len;
        self.n += 1;
        Ok(())
    }

    /// The packet memory its frames belong to.
    #[inline]
    #[must_use]
    pub fn umem(&self) -> &'static Umem {
        self.umem
    }

    /// The MTU of the port that it came from, if it is larger than packets on that link can be: a local
    /// stack left it to the device to cut.
    #[inline]
    pub(crate) fn own_mtu(&self) -> Option<u32> {
        (self.own_mtu != 0).then(|| u32::from(self.own_mtu))
    }

    /// Notes that it is larger than the MTU of the port that it came from.
    pub(crate) fn exceeds(&mut self, mtu: u32) {
        self.own_mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    }

    /// Where its frames are, in order.
    #[inline]
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let mut index = self.first.index();
        (0..self.n).map(move |at| {
            let link = self.umem.links().get(index);
            let (offset, len) =
                if at == 0 { (self.offset, self.head_len) } else { (link.offset, link.len) };
            let segment = Segment { index, offset, len };
            index = link.next;
            segment
        })
    }

    /// The frame of a packet that has only one, and where its data is.
    #[inline]
    pub(crate) fn into_only_frame(self) -> Result<(Frame, Segment), Self> {
        if self.n != 1 {
            return Err(self);
        }
        let segment = self.head_segment();
        Ok((self.first, segment))
    }

    /// Shortens it to its first `len` bytes, at least 1; `f` gets the frames that are left over. Does
    /// nothing to a packet that is not longer.
    pub(crate) fn truncate(&mut self, len: usize, mut f: impl FnMut(Frame)) {
        let (links, n_before) = (self.umem.links(), self.n);
        let Ok(len) = u32::try_from(len.max(1)) else { return };
        if len >= self.len {
            return;
        }
        let mut left = len;
        let end = (1..).zip(self.segments()).find_map(|(kept, Segment { index, len, .. })| {
            let part = u16::try_from(left).unwrap_or(u16::MAX).min(len);
            left -= u32::from(part);
            (left == 0).then_some((kept, index, part))
        });
        let Some((kept, last, part)) = end else { return };
        let mut next = links.get(last).next;
        if kept == 1 {
            self.head_len = part;
        } else {
            links.set(last, Link { len: part, ..links.get(last) });
        }
        (self.last, self.len, self.n) = (last, len, kept);
        for _ in kept..n_before {
            let index = next;
            next = links.get(index).next;
            f(Frame::claim(index));
        }
    }

    /// Takes the packet apart; `f` gets each frame in order.
    #[inline]
    pub(crate) fn into_frames(self, mut f: impl FnMut(Frame)) {
        let links = self.umem.links();
        let mut next = links.get(self.first.index()).next;
        f(self.first);
        for _ in 1..self.n {
            let index = next;
            next = links.get(index).next;
            f(Frame::claim(index));
        }
    }

    /// A packet of one frame with `len` bytes at `offset`, which `fill` writes; without room for them the
    /// frame is freed.
    pub(crate) fn filled(
        umem: &'static Umem,
        frame: Frame,
        offset: u16,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Option<Self> {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        match Self::new(umem, frame, u32::from(offset), len) {
            Ok(mut packet) => {
                fill(packet.head_mut());
                Some(packet)
            }
            Err(frame) => {
                umem.free(frame);
                None
            }
        }
    }

    /// Adds a frame with `len` bytes at `offset`, which `fill` writes; without room for them the frame is
    /// freed.
    pub(crate) fn append_filled(
        &mut self,
        frame: Frame,
        offset: u16,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        if let Err(frame) = self.append(frame, u32::from(offset), len) {
            self.umem.free(frame);
            return false;
        }
        let Link { offset, len, .. } = self.umem.links().get(self.last);
        let segment = Segment { index: self.last, offset, len };
        // SAFETY: the last segment of this packet, which is borrowed mutably.
        fill(unsafe { slice_mut(self.umem, segment) });
        true
    }

    /// The bytes of each frame in order.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: a segment of this packet, which is borrowed.
        self.segments().map(|segment| unsafe { slice(self.umem, segment) })
    }

    /// A copy in frames of `umem`, each with the same offset and length. `take` must give enough frames,
    /// and they must be as large as this packet's.
    pub(crate) fn copy_with(
        &self,
        umem: &'static Umem,
        mut take: impl FnMut() -> Option<Frame>,
    ) -> Option<Self> {
        let head = self.head();
        let mut copy = Self::filled(umem, take()?, self.offset, head.len(), |place| {
            place.copy_from_slice(head);
        })?;
        for (segment, bytes) in self.segments().zip(self.slices()).skip(1) {
            let complete = take().is_some_and(|frame| {
                copy.append_filled(frame, segment.offset, bytes.len(), |place| {
                    place.copy_from_slice(bytes);
                })
            });
            if !complete {
                copy.into_frames(|frame| umem.free(frame));
                return None;
            }
        }
        copy.layers = self.layers;
        copy.own_mtu = self.own_mtu;
        Some(copy)
    }

    /// The 24 bytes before the packet, where the kernel looks for metadata.
    #[inline]
    pub(crate) fn metadata_mut(&mut self) -> &mut [u8] {
        let offset = self.offset.saturating_sub(METADATA);
        let segment = Segment { index: self.first.index(), offset, len: self.offset - offset };
        // SAFETY: these bytes are in the first frame of this packet, which is borrowed mutably.
        unsafe { slice_mut(self.umem, segment) }
    }

    /// Starts to load the headers into the cache.
    #[inline]
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let start = self.head().as_ptr().cast();
            // SAFETY: a prefetch reads nothing as far as the program is concerned.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start) };
        }
    }

    #[inline]
    fn head_segment(&self) -> Segment {
        Segment { index: self.first.index(), offset: self.offset, len: self.head_len }
    }
}

/// Reserve before the data of each frame: the kernel checks it for every descriptor.
#[expect(clippy::cast_possible_truncation, reason = "24")]
const METADATA: u16 = TX_METADATA_LEN as u16;

/// Offset and length as a packet stores them, if the data (at least one byte) lies in a frame, with
/// the reserve for metadata before it.
#[inline]
fn checked(umem: &Umem, offset: u32, len: u32) -> Option<(u16, u16)> {
    let end = offset.checked_add(len)?;
    if offset < TX_METADATA_LEN || len == 0 || end > umem.frame_size() {
        return None;
    }
    Some((u16::try_from(offset).ok()?, u16::try_from(len).ok()?))
}

/// The first byte of a segment.
///
/// # Safety
/// The segment lies in the packet memory.
#[inline]
unsafe fn start(umem: &Umem, segment: Segment) -> *mut u8 {
    let at = ((segment.index as usize) << umem.shift()) + usize::from(segment.offset);
    // SAFETY: by the caller's word `at` is inside the mapping.
    unsafe { umem.base().as_ptr().add(at) }
}

/// The bytes of a segment.
///
/// # Safety
/// The segment belongs to a packet that stays borrowed for `'a`.
#[inline]
unsafe fn slice<'a>(umem: &'static Umem, segment: Segment) -> &'a [u8] {
    // SAFETY: segments of packets lie in their frames.
    let start = unsafe { start(umem, segment) };
    // SAFETY: as above for the end; nobody writes while the packet, the only owner, is borrowed; the
    // memory is never unmapped.
    unsafe { std::slice::from_raw_parts(start, usize::from(segment.len)) }
}

/// The bytes of a segment, to rewrite.
///
/// # Safety
/// The segment belongs to a packet that stays borrowed mutably for `'a`, and no other slice of it is
/// in use.
#[inline]
unsafe fn slice_mut<'a>(umem: &'static Umem, segment: Segment) -> &'a mut [u8] {
    // SAFETY: segments of packets lie in their frames.
    let start = unsafe { start(umem, segment) };
    // SAFETY: as above for the end; the packet is the only owner and borrowed mutably; the memory is
    // never unmapped.
    unsafe { std::slice::from_raw_parts_mut(start, usize::from(segment.len)) }
}

impl Packet for XskPacket {
    #[inline]
    fn head(&self) -> &[u8] {
        // SAFETY: the head of this packet, which is borrowed.
        unsafe { slice(self.umem, self.head_segment()) }
    }

    #[inline]
    fn head_mut(&mut self) -> &mut [u8] {
        // SAFETY: the head of this packet, which is borrowed mutably.
        unsafe { slice_mut(self.umem, self.head_segment()) }
    }

    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn n_frames(&self) -> usize {
        usize::from(self.n)
    }

    fn for_each_segment(&self, f: &mut dyn FnMut(&[u8])) {
        self.slices().for_each(f);
    }

    fn push(&mut self, n: usize) -> Result<(), NoHeadroom> {
        let n = u16::try_from(n).map_err(|_| NoHeadroom)?;
        if n > self.offset.saturating_sub(METADATA) {
            return Err(NoHeadroom);
        }
        self.head_len = self.head_len.checked_add(n).ok_or(NoHeadroom)?;
        self.offset -= n;
        self.len += u32::from(n);
        Ok(())
    }

    fn pull(&mut self, n: usize) -> bool {
        match u16::try_from(n) {
            Ok(n) if n < self.head_len => {
                self.offset += n;
                self.head_len -= n;
                self.len -= u32::from(n);
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn layers(&self) -> Layers {
        self.layers
    }

    #[inline]
    fn set_layers(&mut self, layers: Layers) {
        self.layers = layers;
    }
}

#[cfg(test)]
mod tests {
    use xvs_datapath::{CopyPacket, MAX_FRAMES};

    use super::*;
    use crate::{FrameCache, UmemConfig};

    fn cache(frames: u32, frame_size: u32) -> FrameCache {
        let config = UmemConfig { frames, frame_size, ..UmemConfig::default() };
        FrameCache::new(Umem::create(config).unwrap(), 128)
    }

    fn contents(packet: &XskPacket) -> Vec<u8> {
        let mut all = Vec::new();
        packet.for_each_segment(&mut |bytes| all.extend_from_slice(bytes));
        all
    }

    #[test]
    fn a_packet_is_small() {
        assert!(size_of::<XskPacket>() <= 32);
        assert_eq!(size_of::<Frame>(), 4);
    }

    #[test]
    fn push_and_pull_stay_in_the_frame() {
        let mut cache = cache(64, 2048);
        let mut packet = cache.packet(&[7; 60]).unwrap();
        let free = usize::from(cache.umem().rx_offset()) - 24;
        assert_eq!(packet.push(free + 1), Err(NoHeadroom));
        assert_eq!(packet.push(usize::MAX), Err(NoHeadroom));
        packet.push(free).unwrap();
        assert_eq!((packet.len(), packet.head().len()), (60 + free, 60 + free));
        assert_eq!(packet.push(1), Err(NoHeadroom));
        assert_eq!(packet.metadata_mut().len(), 24);
        assert!(packet.pull(free + 59));
        assert_eq!(packet.head(), [7]);
        assert!(!packet.pull(1));
        cache.free(packet);
    }

    #[test]
    fn long_packets_are_chained_copied_and_freed_whole() {
        let mut cache = cache(128, 2048);
        let bytes: Vec<u8> = (0..9000u32).map(|n| n.to_le_bytes()[0]).collect();
        let mut packet = cache.packet(&bytes).unwrap();
        assert_eq!(packet.n_frames(), 9000usize.div_ceil(1792));
        packet.set_layers(Layers { l3: 14, l4: 34 });
        let copy = cache.copy(&packet).unwrap();
        for segment in packet.segments() {
            // SAFETY: a segment of this packet, which nothing else borrows meanwhile.
            unsafe { slice_mut(packet.umem, segment) }.fill(0);
        }
        assert_eq!((contents(&copy), copy.layers()), (bytes, Layers { l3: 14, l4: 34 }));
        assert!(contents(&packet).iter().all(|&byte| byte == 0));
        cache.free(packet);
        cache.free(copy);
        assert_eq!(cache.umem().ledger().at_rest(), 128);
    }

    #[test]
    fn a_packet_of_18_frames_takes_a_pushed_header() {
        let mut cache = cache(64, 2048);
        let bytes: Vec<u8> = (0..1792 * 18u32).map(|n| n.to_le_bytes()[1]).collect();
        let mut packet = cache.packet(&bytes).unwrap();
        packet.push(4).unwrap();
        packet.head_mut()[..4].copy_from_slice(b"tags");
        assert_eq!((packet.n_frames(), packet.len()), (MAX_FRAMES, bytes.len() + 4));
        assert_eq!(contents(&packet), [b"tags", &bytes[..]].concat());
        assert!(packet.pull(4));
        assert_eq!(contents(&packet), bytes);
        cache.free(packet);
        assert_eq!(cache.umem().ledger().at_rest(), 64);
    }

    #[test]
    fn a_shortened_packet_gives_back_the_frames_it_does_not_need() {
        let mut cache = cache(128, 2048);
        let bytes: Vec<u8> = (0..9000u32).map(|n| n.to_le_bytes()[0]).collect();
        for (len, n) in [(9001, 6), (9000, 6), (8999, 6), (3584, 2), (1793, 2), (1792, 1), (0, 1)] {
            let mut packet = cache.packet(&bytes).unwrap();
            cache.truncate(&mut packet, len);
            let len = len.clamp(1, 9000);
            assert_eq!((packet.len(), packet.n_frames()), (len, n));
            assert_eq!(contents(&packet), bytes[..len]);
            let copy = cache.copy(&packet).unwrap();
            assert_eq!(contents(&copy), bytes[..len]);
            cache.free(copy);
            let frame = cache.take().unwrap();
            assert!(
                packet.append_filled(frame, 256, 4, |room| room.copy_from_slice(b"more")),
                "it can grow again"
            );
            assert!(contents(&packet).ends_with(b"more"));
            cache.free(packet);
            assert_eq!(cache.umem().ledger().at_rest(), 128);
        }
    }

    #[test]
    fn without_frames_there_is_no_packet_and_nothing_is_lost() {
        let mut cache = cache(64, 2048);
        let mut packets = Vec::new();
        while let Some(packet) = cache.packet(&[1; 4000]) {
            packets.push(packet);
        }
        assert_eq!(packets.len(), 64 / 3);
        assert!(cache.copy(&packets[0]).is_none());
        assert!(cache.packet(&[]).is_none());
        assert!(cache.packet(&[0; 1792 * 18 + 1]).is_none());
        cache.free_all(&mut packets);
        assert_eq!(cache.umem().ledger().at_rest(), 64);
    }

    #[test]
    fn data_outside_its_frame_makes_no_packet() {
        let mut cache = cache(64, 2048);
        for (offset, len) in [(23, 60), (256, 0), (256, 1793), (2048, 1), (0, 1), (300, u32::MAX)] {
            let frame = XskPacket::new(cache.umem(), cache.take().unwrap(), offset, len);
            cache.put(frame.unwrap_err());
        }
        let packet = XskPacket::new(cache.umem(), cache.take().unwrap(), 24, 2024).unwrap();
        cache.free(packet);
        assert_eq!(cache.umem().ledger().at_rest(), 64);
    }

    #[test]
    fn frames_of_another_memory_go_home() {
        let (mut here, mut there) = (cache(64, 2048), cache(64, 2048));
        let packet = there.packet(&[1; 60]).unwrap();
        let copy = here.copy(&packet).unwrap();
        assert!(std::ptr::eq(copy.umem(), here.umem()));
        here.free(packet);
        here.free(copy);
        assert_eq!(there.umem().ledger().at_rest(), 64);
        assert_eq!(here.umem().ledger().at_rest(), 64);
    }
}
