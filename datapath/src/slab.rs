//! Where flows live: numbered places that are reused, in chunks that never move.
//!
//! A place counts how often it was emptied. A [`FlowRef`] remembers the count, so that a reference to
//! a flow that is gone finds nothing, also when another flow has taken the place. Growing adds a chunk
//! and copies nothing; chunks are kept for later flows.

use crate::Flow;

/// Flows in a chunk.
const CHUNK: usize = 256;

/// Refers to a flow as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowRef {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl FlowRef {
    /// Refers to nothing.
    pub(crate) const NONE: Self = Self { index: u32::MAX, generation: 0 };
}

/// Its first cache line is all that a packet needs which the exact-match cache has sent here.
#[derive(Debug)]
#[repr(C, align(64))]
struct Place {
    generation: u32,
    flow: Option<Flow>,
}

/// All flows of one thread.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    chunks: Vec<Vec<Place>>,
    free: Vec<u32>,
    len: usize,
}

impl Slab {
    /// How many flows there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// How many places there are: one more than the highest index ever used.
    pub(crate) const fn places(&self) -> usize {
        self.len + self.free.len()
    }

    #[inline]
    fn place(&self, index: u32) -> Option<&Place> {
        let index = index as usize;
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    #[inline]
    fn place_mut(&mut self, index: u32) -> Option<&mut Place> {
        let index = index as usize;
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    /// The flow at `index`.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Flow> {
        self.place(index)?.flow.as_ref()
    }

    /// The flow at `index`.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Flow> {
        self.place_mut(index)?.flow.as_mut()
    }

    /// A reference to the flow at `index`.
    #[inline]
    pub(crate) fn reference(&self, index: u32) -> Option<FlowRef> {
        let place = self.place(index)?;
        place.flow.is_some().then_some(FlowRef { index, generation: place.generation })
    }

    /// True while the flow exists.
    #[inline]
    pub(crate) fn is_live(&self, flow: FlowRef) -> bool {
        self.place(flow.index).is_some_and(|place| place.generation == flow.generation)
    }

    /// Adds a flow and returns its index. The caller bounds how many there are.
    pub(crate) fn insert(&mut self, flow: Flow) -> u32 {
        self.len += 1;
        if let Some(index) = self.free.pop() {
            if let Some(place) = self.place_mut(index) {
                place.flow = Some(flow);
            }
            return index;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(Place { generation: 0, flow: Some(flow) });
        }
        u32::try_from(self.len - 1).unwrap_or(u32::MAX)
    }

    /// Takes the flow out; references to it find nothing from now on.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Flow> {
        let place = self.place_mut(index)?;
        let flow = place.flow.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index);
        self.len -= 1;
        Some(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Match, Nanos, Origin};

    fn flow() -> Flow {
        Flow::new(Match::default(), Box::default(), Origin::Bridge, Nanos(0))
    }

    #[test]
    fn a_reference_dies_with_its_flow() {
        let mut slab = Slab::default();
        let index = slab.insert(flow());
        let old = slab.reference(index).unwrap();
        assert!(slab.is_live(old));
        assert!(slab.remove(index).is_some());
        assert!(!slab.is_live(old));
        assert_eq!(slab.reference(index), None);
        assert_eq!(slab.insert(flow()), index, "the place is reused");
        assert!(!slab.is_live(old), "by another flow");
        assert!(slab.is_live(slab.reference(index).unwrap()));
        assert!(slab.remove(7).is_none());
    }

    #[test]
    fn actions_and_statistics_lie_beside_the_generation() {
        let of_flow = core::mem::offset_of!(Place, flow);
        assert_eq!(size_of::<Option<Flow>>(), size_of::<Flow>(), "nothing before the flow itself");
        let end = of_flow + core::mem::offset_of!(Flow, stats) + size_of::<crate::FlowStats>();
        assert!(end <= 64, "{end}");
        assert!(core::mem::offset_of!(Flow, actions) < core::mem::offset_of!(Flow, stats));
    }

    #[test]
    fn chunks_fill_one_after_the_other() {
        let mut slab = Slab::default();
        for i in 0..3 * CHUNK + 1 {
            assert_eq!(slab.insert(flow()) as usize, i);
        }
        assert_eq!((slab.len(), slab.places(), slab.chunks.len()), (769, 769, 4));
        slab.remove(3);
        assert_eq!((slab.len(), slab.places()), (768, 769));
        assert!(slab.get(3).is_none() && slab.get(768).is_some());
    }
}
