//! Segments in frames.

use xvs_datapath::testing::{Csum, PacketBuilder};
use xvs_datapath::{CopyPacket, Layers};

use super::*;
use crate::{Umem, UmemConfig};

fn contents(packet: &XskPacket) -> Vec<u8> {
    packet.slices().flatten().copied().collect()
}

#[test]
fn each_segment_has_its_headers_and_its_part_of_the_payload() {
    let config = UmemConfig { frames: 256, frame_size: 2048, ..UmemConfig::default() };
    let mut cache = FrameCache::new(Umem::create(config).unwrap(), 0);
    let ip = PacketBuilder::new().ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let payload: Vec<u8> = (0..30_000u32).map(|n| (n * n / 7).to_le_bytes()[0]).collect();
    let bytes = ip.tcp(1, 2).payload(&payload).csum(Csum::Partial).build();
    let mut packet = cache.packet(&bytes).unwrap();
    packet.set_layers(Layers { l3: 14, l4: 34 });
    // As after headers were pushed and pulled: frames of different lengths.
    packet.push(4).unwrap();
    assert!(packet.pull(4));
    for max_len in [300, 1514, 1792, 1793, 9014, 30_000] {
        let plan = Segments::of(&packet, max_len).unwrap();
        let mut made = Vec::new();
        assert!(segment(&packet, &plan, &mut cache, |segment, _| made.push(segment)));
        assert_eq!(made.len(), plan.count());
        for (n, segment) in made.iter().enumerate() {
            let mut expected = [&bytes[..54], &bytes[plan.payload(n)]].concat();
            plan.write(&mut expected[..54], n);
            assert_eq!(contents(segment), expected, "{n} of at most {max_len}");
            assert_eq!(segment.layers(), packet.layers());
        }
        let copy = cache.copy(made.last().unwrap()).unwrap();
        assert_eq!(copy.own_mtu(), None);
        made.push(copy);
        cache.free_all(&mut made);
    }
    cache.free(packet);
    assert_eq!(cache.umem().ledger().at_rest(), 256);
}
