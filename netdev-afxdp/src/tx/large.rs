//! What to do with a packet that is larger than an MTU: cut it if its sender left it to be cut, else count it.

use xvs_datapath::{DropCounters, DropReason, MAX_FRAMES, Nanos, Packet, Segments, csum};

use super::Side;
use super::limit::Room;
use crate::cache::FrameCache;
use crate::link::frame_limit;
use crate::packet::XskPacket;
use crate::segment::{MAX_SEGMENT_FRAMES, segment};

impl Side {
    /// Takes a packet that is larger than the MTU of this port or of its own: in segments, if its sender
    /// left it to be cut.
    #[inline(never)]
    pub(super) fn accept_large(
        &mut self,
        packet: XskPacket,
        room: &mut Room,
        (cache, drops): (&mut FrameCache, &DropCounters),
        now: Nanos,
    ) -> Result<(), (XskPacket, DropReason)> {
        let mtu = packet.own_mtu().into_iter().chain([self.link.mtu()]).min().unwrap_or(0);
        let (head, len, layers) = (packet.head(), packet.len(), packet.layers());
        let Some(plan) = Segments::of(&packet, frame_limit(mtu, head)) else {
            return if packet.own_mtu().is_some() && csum::unfinished(head, len, layers).is_some() {
                Err((packet, DropReason::Unsegmented))
            } else if !self.link.fits(len, head) {
                Err((packet, DropReason::Mtu))
            } else if packet.n_frames() > MAX_FRAMES {
                Err((packet, DropReason::TooManyFrames))
            } else {
                self.accept_fitting(packet, room, (cache, drops), now)
            };
        };
        room.frames = self.free_frames(MAX_SEGMENT_FRAMES);
        let whole = segment(&packet, &plan, cache, |segment, cache| {
            let queued = self.accept_fitting(segment, room, (&mut *cache, drops), now);
            if let Err((segment, reason)) = queued {
                drops.add(reason, 1);
                cache.free(segment);
            }
        });
        if !whole {
            return Err((packet, DropReason::NoFrame));
        }
        self.stats.segments.add(plan.count() as u64 - 1);
        cache.free(packet);
        Ok(())
    }
}
