//! Rings over plain memory, against an oracle FIFO, in one thread and in two.
#![allow(clippy::cast_possible_truncation, reason = "tests")]

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// A ring of `size` entries whose indices start at `start`.
pub(crate) fn pair<T: Entry>(size: u32, start: u32) -> (Producer<T>, Consumer<T>) {
    memory::pair(size, start).unwrap()
}

fn desc(n: u64) -> Desc {
    Desc { addr: n << 32, len: n as u32, options: !(n as u32) }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push(u32),
    Submit,
    Take(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..20u32).prop_map(Step::Push),
        Just(Step::Submit),
        (1..20u32).prop_map(Step::Take),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// What comes out is what a FIFO of the same size gives, whatever the order of calls, also where
    /// the indices wrap.
    #[test]
    fn agrees_with_a_fifo(steps in steps(), shift in 0..5u32, start in prop_oneof![
        Just(0), Just(u32::MAX), Just(u32::MAX - 7), any::<u32>(),
    ]) {
        let size = 1 << shift;
        let (mut producer, mut consumer) = pair::<Desc>(size, start);
        let (mut written, mut visible) = (VecDeque::new(), VecDeque::new());
        let mut next = 0;
        for step in steps {
            match step {
                Step::Push(n) => for _ in 0..n {
                    let room = written.len() + visible.len() < size as usize;
                    prop_assert_eq!(producer.push(desc(next)), room);
                    if room {
                        written.push_back(next);
                        next += 1;
                    }
                },
                Step::Submit => {
                    producer.submit();
                    visible.append(&mut written);
                }
                Step::Take(n) => {
                    prop_assert_eq!(consumer.available(u32::MAX) as usize, visible.len());
                    let n = n.min(visible.len() as u32);
                    for ahead in 0..n {
                        prop_assert_eq!(Some(consumer.peek(ahead)), visible.pop_front().map(desc));
                    }
                    consumer.release(n);
                    prop_assert_eq!(producer.index().wrapping_sub(producer.consumed()) as usize,
                                    written.len() + visible.len());
                }
            }
            prop_assert!(producer.free(u32::MAX) as usize
                         == size as usize - written.len() - visible.len());
        }
    }
}

#[test]
fn two_threads_lose_and_reorder_nothing() {
    const N: u64 = 300_000;
    let (mut producer, mut consumer) = pair::<Desc>(64, u32::MAX - 1000);
    let writer = std::thread::spawn(move || {
        let mut n = 0;
        while n < N {
            for _ in 0..producer.free(1).min(7) {
                if n < N && producer.push(desc(n)) {
                    n += 1;
                }
            }
            producer.submit();
            std::thread::yield_now();
        }
    });
    let mut n = 0;
    while n < N {
        let available = consumer.available(1).min(5);
        for ahead in 0..available {
            assert_eq!(consumer.peek(ahead), desc(n));
            n += 1;
        }
        consumer.release(available);
        if available == 0 {
            std::thread::yield_now();
        }
    }
    writer.join().unwrap();
}

#[test]
fn a_wild_producer_index_is_bounded() {
    let (producer, mut consumer) = pair::<u64>(8, 0);
    producer.ring.producer().store(1_000_000, Ordering::Release);
    assert_eq!(consumer.available(1), 8);
    assert_eq!(consumer.available(100), 8);
    let (mut producer, consumer) = pair::<u64>(8, 0);
    consumer.ring.consumer().store(77, Ordering::Release);
    assert_eq!(producer.free(9), 0);
    assert_eq!(producer.consumed(), producer.index());
}

#[test]
fn layouts_are_checked() {
    let mapping = || Arc::new(Mapping::anonymous(4096).unwrap());
    let good = Layout { producer: 0, consumer: 64, flags: 128, desc: 192, size: 64 };
    assert!(Producer::<Desc>::new(mapping(), &good).is_ok());
    for bad in [
        Layout { size: 63, ..good },
        Layout { size: 0, ..good },
        Layout { size: 4096, ..good },
        Layout { producer: 4096, ..good },
        Layout { consumer: 2, ..good },
        Layout { flags: u64::MAX, ..good },
        Layout { desc: 196, ..good },
        Layout { desc: u64::MAX, ..good },
    ] {
        assert!(matches!(Producer::<Desc>::new(mapping(), &bad), Err(Error::RingLayout)));
        assert!(matches!(Consumer::<Desc>::new(mapping(), &bad), Err(Error::RingLayout)));
    }
}

#[test]
fn descriptors_have_the_kernels_layout() {
    let (mut producer, _consumer) = pair::<Desc>(8, 0);
    assert!(producer.push(Desc { addr: 0x1122_3344_5566_7788, len: 60, options: 3 }));
    let words = producer.ring.entry(0);
    let bytes: Vec<u8> =
        words.iter().flat_map(|w| w.load(Ordering::Relaxed).to_ne_bytes()).collect();
    assert_eq!(&bytes[..8], &0x1122_3344_5566_7788u64.to_ne_bytes());
    assert_eq!(&bytes[8..12], &60u32.to_ne_bytes());
    assert_eq!(&bytes[12..], &3u32.to_ne_bytes());
}
