//! Lists within lists, and actions that do more than send.

use super::*;

fn out(port: u32) -> Action {
    Action::Output(PortNo(port))
}

fn udp() -> Vec<u8> {
    eth().ipv4(A4, B4).udp(1, 2).payload_len(100).build()
}

fn drops(outcome: &Outcome, reason: DropReason) -> u64 {
    outcome.stats.drops.get(reason)
}

/// Where packets came out, in order, and how many copies were made.
fn ports(actions: &[Action]) -> (Vec<u32>, u64) {
    let mut outcome = run_on(&udp(), actions, usize::MAX);
    outcome.out.sort();
    (outcome.out.iter().map(|(port, _)| port.0).collect(), outcome.stats.copies.get())
}

#[test]
fn trunc_shortens_the_next_output_only() {
    let bytes = udp();
    let list = [out(1), Action::Trunc(60), out(2), out(3)];
    let outcome = run_on(&bytes, &list, usize::MAX);
    let wanted = [(1, bytes.clone()), (2, bytes[..60].to_vec()), (3, bytes.clone())];
    assert_eq!(outcome.out, wanted.map(|(port, bytes)| (PortNo(port), bytes)));
    let last = run_on(&bytes, &[Action::Trunc(14), out(2)], 1);
    assert_eq!(last.out, [(PortNo(2), bytes[..14].to_vec())]);
    let longer = run_on(&bytes, &[Action::Trunc(9000), out(2)], 1);
    assert_eq!(longer.out, [(PortNo(2), bytes.clone())]);
    let (a, b) = bytes.split_at(50);
    for (len, frames) in [(50, 1), (51, 2), (30, 1)] {
        let list = [Action::Trunc(len), out(2), out(3)];
        let outcome = run_on_frames(&[a, b], &list, frames + 2);
        assert_eq!(outcome.out[0].1, bytes[..len as usize]);
        assert_eq!(outcome.out[1].1, bytes);
    }
}

#[test]
fn clones_change_only_their_copy() {
    let bytes = udp();
    let rewrite = || set(&Field::TP_DST, 99);
    let other = eth().ipv4(A4, B4).udp(1, 99).payload_len(100).build();
    let list = [Action::Clone([rewrite(), out(1)].into()), out(2)];
    let outcome = run_on(&bytes, &list, usize::MAX);
    assert_eq!(outcome.out, [(PortNo(1), other.clone()), (PortNo(2), bytes.clone())]);
    assert_eq!(outcome.stats.copies.get(), 1);
    // The last clone needs no copy, nor does one without effect.
    let list = [Action::Clone([rewrite()].into()), Action::Clone([rewrite(), out(1)].into())];
    let outcome = run_on(&bytes, &list, 1);
    assert_eq!(
        (outcome.out.as_slice(), outcome.stats.copies.get()),
        (&[(PortNo(1), other)][..], 0)
    );
    let nested = |list| Action::Clone(Box::new([list]));
    assert_eq!(ports(&[nested(nested(nested(out(1)))), out(3)]), (vec![1, 3], 1));
}

#[test]
fn samples_have_their_share() {
    let sample = |probability, port| Action::Sample { probability, actions: [out(port)].into() };
    assert_eq!(ports(&[sample(u32::MAX, 1), out(2)]), (vec![1, 2], 1));
    assert_eq!(ports(&[sample(0, 1), out(2)]), (vec![2], 0));
    assert_eq!(ports(&[out(2), sample(0, 1)]), (vec![2], 0), "no copy is made in vain");
    assert_eq!(ports(&[out(2), sample(u32::MAX, 1)]), (vec![1, 2], 1));
    assert_eq!(drops(&run_on(&udp(), &[sample(0, 1)], 1), DropReason::Action), 1);
    let mut effects = Effects::new(5);
    for probability in [u32::MAX / 100, u32::MAX / 2, u32::MAX / 10 * 9] {
        let n = (0..100_000).filter(|_| effects.sample(probability)).count();
        let wanted = f64::from(probability) / f64::from(u32::MAX) * 100_000.0;
        #[allow(clippy::cast_precision_loss, reason = "small")]
        let off = (n as f64 - wanted).abs();
        assert!(off < 5.0 * wanted.sqrt(), "{n} of {wanted}");
    }
}

#[test]
fn length_chooses_the_branch() {
    let len = u16::try_from(udp().len()).unwrap();
    let check = |size, greater: &[Action], less_equal: &[Action]| Action::CheckPktLen {
        size,
        greater: greater.into(),
        less_equal: less_equal.into(),
    };
    assert_eq!(ports(&[check(len - 1, &[out(1)], &[out(2)])]), (vec![1], 0));
    assert_eq!(ports(&[check(len, &[out(1)], &[out(2)])]), (vec![2], 0));
    assert_eq!(ports(&[check(len, &[out(1)], &[]), out(3)]), (vec![3], 0));
    assert_eq!(ports(&[check(len, &[], &[out(2)]), out(3)]), (vec![2, 3], 1));
}

#[test]
fn recirc_takes_the_packet_as_it_is() {
    let bytes = udp();
    let hash = |over, basis| Action::Hash { over, basis };
    let list = [out(1), set(&Field::TP_DST, 9), hash(HashOver::L4, 0), Action::Recirc(7)];
    let outcome = run_on(&bytes, &list, usize::MAX);
    let changed = eth().ipv4(A4, B4).udp(1, 9).payload_len(100).build();
    assert_eq!((outcome.out.len(), outcome.stats.copies.get()), (1, 1));
    let (passage, again) = &outcome.again[0];
    assert_eq!((passage.recirc_id, again), (7, &changed));
    assert_ne!(passage.dp_hash, 0);
    let hash_of = |bytes: &[u8], over, basis| {
        let list = [hash(over, basis), Action::Recirc(1)];
        run_on(bytes, &list, 1).again[0].0.dp_hash
    };
    let there = eth().ipv4(A4, B4).udp(1, 2).build();
    let back = eth().ipv4(B4, A4).udp(2, 1).build();
    let other = eth().ipv4(A4, B4).udp(1, 3).build();
    let (l4, sym) = (HashOver::L4, HashOver::SymmetricL4);
    assert_eq!(hash_of(&there, sym, 3), hash_of(&back, sym, 3));
    assert_ne!(hash_of(&there, l4, 3), hash_of(&back, l4, 3));
    assert_ne!(hash_of(&there, sym, 3), hash_of(&other, sym, 3));
    assert_ne!(hash_of(&there, sym, 3), hash_of(&there, sym, 4));
    let first = eth().ipv4(A4, B4).fragment(0, true).udp(1, 2).build();
    let later = eth().ipv4(A4, B4).fragment(64, false).raw(&[9; 40], 0, 17).build();
    assert_eq!(hash_of(&first, l4, 0), hash_of(&later, l4, 0), "fragments stay together");
    let push = || Action::PushVlan { tpid: 0x8100, tci: 5 };
    let kept = [push(), push(), push(), hash(l4, 0), set(&Field::TP_DST, 9)];
    assert!(becomes(&there, &kept).is_ok(), "hashing does not lose the headers");
}

#[test]
fn a_meter_drops_what_follows() {
    let outcome = run_on(&udp(), &[Action::Meter(1), Action::Meter(1), out(1)], 1);
    assert_eq!((outcome.out.len(), drops(&outcome, DropReason::Meter)), (0, 1));
    let outcome = run_on(&udp(), &[Action::Meter(1), out(1), Action::Meter(1), out(2)], 1);
    assert_eq!((outcome.out.len(), drops(&outcome, DropReason::Meter)), (1, 1));
    assert_eq!(ports(&[Action::Meter(9), out(1)]).0, [1], "a meter that is gone lets pass");
}

#[test]
fn userspace_gets_a_copy_of_the_bytes() {
    let controller = Controller { max_len: 20, ..Controller::default() };
    let spec = Userspace { pid: 1, controller: Some(controller) };
    let punt = |spec| Action::Userspace(Box::new(spec));
    let bytes = udp();
    let list = [punt(spec), Action::Trunc(30), punt(Userspace::default()), out(2)];
    let outcome = run_on(&bytes, &list, 1);
    assert_eq!(outcome.out, [(PortNo(2), bytes.clone())]);
    let lens: Vec<_> = outcome.userspace.iter().map(|p| (p.bytes.len(), p.in_port)).collect();
    assert_eq!(lens, [(20, PortNo(1)), (30, PortNo(1))]);
    let outcome = run_on(&bytes, &vec![punt(Userspace::default()); 70], 1);
    assert_eq!((outcome.userspace.len(), outcome.stats.lost_upcalls.get()), (64, 6));
    assert_eq!(drops(&outcome, DropReason::Action), 1, "it was sent nowhere");
}

#[test]
fn copies_that_cannot_be_made_are_counted() {
    let list = [Action::Clone([out(1)].into()), out(2), out(3)];
    let outcome = run_on(&udp(), &list, 1);
    assert_eq!(outcome.out.len(), 1);
    assert_eq!((outcome.stats.copies.get(), drops(&outcome, DropReason::NoFrame)), (2, 2));
}

#[test]
fn every_action_has_a_name_of_its_own() {
    let names = Action::NAMES;
    assert!((1..names.len()).all(|i| !names[..i].contains(&names[i])));
    assert!(names.contains(&Action::PopVlan.name()));
}
