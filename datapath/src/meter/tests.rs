//! Rates over virtual time.

use super::*;

const PACKETS: MeterUnit = MeterUnit::Packets;
const KILOBITS: MeterUnit = MeterUnit::Kilobits;

fn meters(unit: MeterUnit, rate: u32, burst: u32) -> Meters {
    let meters = Meters::default();
    meters.set(1, MeterConfig { unit, rate, burst }).unwrap();
    meters
}

fn near(value: u64, wanted: u64) -> bool {
    value.abs_diff(wanted) * 100 <= wanted
}

/// Units that pass in 60 s of twice the rate, given in batches every `every` nanoseconds.
fn passed(meters: &Meters, unit: MeterUnit, rate: u64, size: u64, every: u64) -> u64 {
    let (end, mut now, mut offered, mut passed) = (60_000_000_000_u64, 0, 0_u64, 0);
    while now < end {
        let due = u64::try_from(u128::from(now) * u128::from(rate) * 2 / 1_000_000_000).unwrap();
        while offered < due {
            let amount = if unit == PACKETS { 1 } else { size };
            offered += amount;
            passed += if meters.pass(1, size, Nanos(now)) { amount } else { 0 };
        }
        now += every;
    }
    passed
}

#[test]
fn rates_hold_within_one_percent_over_a_minute() {
    for (rate, burst, every) in
        [(7, 2, 1_000_000), (1000, 10, 50_000), (33_333, 100, 100_000), (300_000, 3000, 500_000)]
    {
        let packets = passed(&meters(PACKETS, rate, burst), PACKETS, rate.into(), 60, every);
        assert!(near(packets, u64::from(rate) * 60), "{rate} packets/s: {packets}");
    }
    for (kbps, burst, size) in
        [(64, 8, 60), (1000, 100, 1514), (100_000, 1000, 1514), (8000, 90, 9000)]
    {
        let rate = u64::from(kbps) * 125;
        let bytes = passed(&meters(KILOBITS, kbps, burst), KILOBITS, rate, size, 100_000);
        assert!(near(bytes, rate * 60), "{kbps} kbit/s of {size}: {bytes}");
    }
}

/// At rates where a packet costs a few nanoseconds, what is rounded stays below 1 %.
#[test]
fn high_rates_are_not_rounded_away() {
    for (unit, rate, size) in
        [(PACKETS, 200_000_000, 60), (PACKETS, 148_800_000, 60), (KILOBITS, 400_000_000, 60)]
    {
        let meters = meters(unit, rate, rate / 100);
        let (mut n, seconds) = (0_u64, 10_000_000);
        for now in (0..seconds).step_by(10_000) {
            while meters.pass(1, size, Nanos(now)) {
                n += 1;
            }
        }
        let amount = if unit == PACKETS { n } else { n * size * 8 / 1000 };
        // A hundredth of a second, and the burst of another.
        let wanted = u64::from(rate) / 50;
        assert!(near(amount, wanted), "{rate}: {amount} of {wanted}");
    }
}

#[test]
fn a_burst_passes_at_once_and_no_more() {
    let meters = meters(PACKETS, 1000, 64);
    let at = |ms| Nanos::from_millis(ms);
    let count = |ms| (0..1000).filter(|_| meters.pass(1, 60, at(ms))).count();
    assert_eq!(count(5), 64);
    assert_eq!(count(5), 0);
    assert_eq!(count(15), 10, "ten more in ten milliseconds");
    assert_eq!(count(60_000), 64, "never more than the burst");
    let MeterRow { stats, .. } = meters.rows().next().unwrap();
    let dropped = 4000 - 138;
    let wanted = (4000, 240_000, dropped, dropped * 60);
    assert_eq!((stats.packets, stats.bytes, stats.dropped_packets, stats.dropped_bytes), wanted);
}

#[test]
fn a_packet_beyond_the_burst_passes_when_the_bucket_is_full() {
    // 1000 bits at once; a packet of 1500 bytes is 12,000.
    let meters = meters(KILOBITS, 12, 1);
    assert!(meters.pass(1, 1500, Nanos(0)));
    assert!(!meters.pass(1, 1500, Nanos::from_millis(999)));
    assert!(meters.pass(1, 1500, Nanos::from_millis(1000)), "and pays for itself");
}

/// Threads that share a meter pass together what it allows.
#[test]
fn the_sum_over_threads_has_the_rate() {
    let meters = meters(PACKETS, 10_000, 100);
    let passed: usize = std::thread::scope(|scope| {
        let run = || {
            let steps = (0..2_000_000_000).step_by(20_000);
            steps.filter(|&now| meters.pass(1, 60, Nanos(now))).count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!((20_000..=20_100).contains(&passed), "{passed}");
}

#[test]
fn meters_come_and_go() {
    let meters = meters(KILOBITS, 8, 1);
    assert!(meters.has(1) && !meters.has(2) && !meters.has(0) && !meters.has(u32::MAX));
    assert!(meters.pass(2, 60, Nanos(0)), "one that does not exist lets everything pass");
    assert!(meters.pass(1, 60, Nanos(0)));
    let faster = MeterConfig { unit: PACKETS, rate: 5, burst: 2 };
    meters.set(1, faster).unwrap();
    let row = meters.rows().next().unwrap();
    assert_eq!((row.id, row.config, row.stats.packets), (1, faster, 1), "counts stay");
    assert_eq!(meters.del(1), Ok(()));
    assert_eq!((meters.rows().count(), meters.del(1)), (0, Err(MeterError::Missing(1))));
    meters.set(Meters::MAX, faster).unwrap();
    assert_eq!(meters.rows().next().unwrap().stats, MeterStats::default());
    let refused = |id, config| meters.set(id, config).unwrap_err().to_string();
    assert_eq!(refused(0, faster), "meter 0: numbers of meters are 1 to 1024");
    assert_eq!(refused(1025, faster), "meter 1025: numbers of meters are 1 to 1024");
    let none = MeterConfig { rate: 0, ..faster };
    assert_eq!(refused(1, none), "the rate of a meter is 1 to 200000000");
    let most = MeterConfig { unit: KILOBITS, rate: 400_000_001, burst: 1 };
    assert_eq!(refused(1, most), "the rate of a meter is 1 to 400000000");
    let none = MeterConfig { burst: 0, ..faster };
    assert_eq!(refused(1, none), "the burst_size of a meter is at least 1");
}
