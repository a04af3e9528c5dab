//! Rings in ordinary memory, both ends in the hands of this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Consumer, Entry, Layout, Producer, Ring};
use crate::error::{Error, Result};
use crate::mapping::Mapping;

/// A ring of `size` entries whose indices start at `start`.
pub(crate) fn pair<T: Entry>(size: u32, start: u32) -> Result<(Producer<T>, Consumer<T>)> {
    let layout = Layout { producer: 0, consumer: 64, flags: 128, desc: 192, size };
    let system = |source| Error::System { what: "map a ring".to_owned(), source };
    let mapping = Arc::new(Mapping::anonymous(layout.bytes::<T>()?).map_err(system)?);
    let ring = Ring::<T>::new(Arc::clone(&mapping), &layout)?;
    ring.producer().store(start, Ordering::Relaxed);
    ring.consumer().store(start, Ordering::Relaxed);
    let producer = Producer::new(Arc::clone(&mapping), &layout)?;
    Ok((producer, Consumer::new(mapping, &layout)?))
}
