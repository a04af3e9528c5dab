//! Opening interfaces where the kernel lacks something, which is played here. Needs root.

use xvs_tests::ns::Netns;
use xvs_tests::scratch::Scratch;

use super::*;
use crate::UmemConfig;

/// Opens an interface with an MTU on a kernel with or without packets of several frames.
fn open(mtu: u32, frame_size: u32, multi_buffer: bool) -> Result<XdpMode> {
    let scratch = Scratch::new().unwrap();
    let ns = Netns::new(&scratch, "mtu").unwrap();
    ns.ip(&format!("link add v1 mtu {mtu} type veth peer name v2 mtu {mtu}")).unwrap();
    let opened = ns.enter(move || {
        let umem =
            Umem::create(UmemConfig { frames: 256, frame_size, ..UmemConfig::default() }).unwrap();
        let mut groups = UmemGroups {
            copy: UmemGroup::new(umem, Mode::Copy, multi_buffer),
            zero_copy: UmemGroup::new(umem, Mode::ZeroCopy, false),
        };
        let options = NetdevOptions { rx_ring: 64, tx_ring: 64, ..NetdevOptions::new("v1") };
        let opened = Netdev::open(&mut groups, &options).map(|(netdev, _)| netdev.mode());
        assert_eq!(umem.ledger().halves, 0, "nothing is left behind");
        Ok(opened)
    });
    opened.unwrap()
}

#[test]
fn an_mtu_beyond_what_a_packet_can_have_is_refused() {
    for (frame_size, multi_buffer, max) in
        [(4096, false, 3822), (2048, false, 1774), (2048, true, 32238)]
    {
        assert!(matches!(open(max, frame_size, multi_buffer), Ok(XdpMode::Native)), "{max}");
        for mtu in [max + 1, 65535] {
            let error = open(mtu, frame_size, multi_buffer).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::MtuTooLarge { max: m, .. } if m == max), "{text}");
            assert!(text.contains("v1") && text.contains(&format!("to {max}")), "{text}");
        }
    }
    assert!(matches!(open(65535, 4096, true), Ok(XdpMode::Native)));
}

/// Queue, receives, sends: of the sockets that a port with `tx_queues` has.
fn sockets(n_rxq: u32, n_txq: u32, tx_queues: u32, further: bool) -> Vec<(u32, bool, bool)> {
    let options = NetdevOptions { n_rxq, n_txq, ..NetdevOptions::new("v1") };
    let open = |_, rx_ring, tx_ring| Ok((rx_ring != 0, tx_ring != 0));
    let sockets = open_all(&options, tx_queues, further, open).unwrap();
    sockets.into_iter().map(|(queue, (rx, tx))| (queue.0, rx, tx)).collect()
}

#[test]
fn further_queues_are_for_sending_only_and_not_taken_in_zero_copy_mode() {
    assert_eq!(sockets(1, 2, 8, true), [(0, true, true), (1, false, true)]);
    assert_eq!(sockets(1, 2, 8, false), [(0, true, true)]);
    assert_eq!(sockets(2, 1, 8, true), [(0, true, true), (1, true, false)]);
    assert_eq!(sockets(1, 64, 2, true), [(0, true, true), (1, false, true)]);
}
