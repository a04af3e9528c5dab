//! Opening interfaces where the kernel lacks something, which is played here. Needs root.

use xvs_tests::ns::Netns;
use xvs_tests::scratch::Scratch;

use super::*;
use crate::UmemConfig;

/// Opens an interface with an MTU on a kernel with or without packets of several frames.
fn open(mtu: u32, multi_buffer: bool) -> Result<XdpMode> {
    let scratch = Scratch::new().unwrap();
    let ns = Netns::new(&scratch, "mtu").unwrap();
    ns.ip(&format!("link add v1 mtu {mtu} type veth peer name v2 mtu {mtu}")).unwrap();
    let opened = ns.enter(move || {
        let umem = Umem::create(UmemConfig { frames: 256, ..UmemConfig::default() }).unwrap();
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
fn an_mtu_beyond_a_frame_is_refused_where_packets_have_one_frame() {
    assert!(matches!(open(9000, true), Ok(XdpMode::Native)));
    assert!(matches!(open(3822, false), Ok(XdpMode::Native)));
    for mtu in [3823, 9000] {
        let error = open(mtu, false).unwrap_err();
        assert!(matches!(error, Error::MtuTooLarge { max: 3822, .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("v1") && text.contains("3822"), "{text}");
    }
}
