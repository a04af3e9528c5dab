//! Ethernet frames made by hand, with right checksums to begin with.

use std::net::Ipv4Addr;

/// The largest number that a checksum's end-around carry leaves.
const FOLD: u32 = 0xffff;

/// An Ethernet frame: addresses, type, payload. Not padded.
#[must_use]
pub fn ethernet(to: [u8; 6], from: [u8; 6], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &from[..], &ether_type.to_be_bytes(), payload].concat()
}

/// An IPv4 packet without options.
#[must_use]
pub fn ipv4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = length16(20 + payload.len());
    let mut header = vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, protocol, 0, 0];
    header.extend(from.octets());
    header.extend(to.octets());
    let checksum = !sum(&header, 0);
    put(&mut header, 10, checksum);
    header.extend(payload);
    header
}

/// A UDP datagram over IPv4 with its checksum.
#[must_use]
pub fn udp(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let length = length16(8 + payload.len());
    let mut segment = [&from.1.to_be_bytes()[..], &to.1.to_be_bytes(), &length, &[0, 0]].concat();
    segment.extend(payload);
    let checksum = !sum(&segment, pseudo(from.0, to.0, 17, segment.len()));
    put(&mut segment, 6, if checksum == 0 { 0xffff } else { checksum });
    segment
}

/// A TCP segment (ACK, no options) over IPv4 with its checksum.
#[must_use]
pub fn tcp(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let mut segment = [&from.1.to_be_bytes()[..], &to.1.to_be_bytes()].concat();
    segment.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    let checksum = !sum(&segment, pseudo(from.0, to.0, 6, segment.len()));
    put(&mut segment, 16, checksum);
    segment
}

/// An SCTP packet with one DATA chunk and its CRC32c (RFC 9260, section 6.8).
#[must_use]
pub fn sctp(from_port: u16, to_port: u16, payload: &[u8]) -> Vec<u8> {
    let length = length16(16 + payload.len());
    let mut packet = [&from_port.to_be_bytes()[..], &to_port.to_be_bytes()].concat();
    packet.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    packet.extend([0, 3, length[0], length[1], 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend(payload);
    let crc = crc32c(&packet).to_le_bytes();
    packet.splice(8..12, crc);
    packet
}

/// A length as two bytes; longer ones are cut.
fn length16(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

/// Writes a big-endian number; nothing when it does not fit.
pub fn put(bytes: &mut [u8], at: usize, value: u16) {
    for (place, byte) in bytes.iter_mut().skip(at).zip(value.to_be_bytes()) {
        *place = byte;
    }
}

/// The sum over the pseudo header of RFC 768 and RFC 9293.
fn pseudo(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, length: usize) -> u32 {
    let addresses = [from.octets(), to.octets()].concat();
    let length = u16::from_be_bytes(length16(length));
    u32::from(sum(&addresses, u32::from(protocol) + u32::from(length)))
}

/// The one's complement sum of RFC 1071.
#[must_use]
pub fn sum(bytes: &[u8], start: u32) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        u32::from(pair.first().copied().unwrap_or(0)) << 8
            | u32::from(pair.get(1).copied().unwrap_or(0))
    });
    let mut total = words.fold(start, |total, word| total + word);
    while total > FOLD {
        total = (total >> 16) + (total & FOLD);
    }
    u16::try_from(total).unwrap_or(u16::MAX)
}

/// The checksum of SCTP, bit by bit.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let crc = bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)))
    });
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 2);

    #[test]
    fn checksums_verify() {
        let datagram = udp((A, 1), (B, 2), b"odd");
        assert_eq!(sum(&datagram, pseudo(A, B, 17, datagram.len())), 0xffff);
        let segment = tcp((A, 1), (B, 2), b"even");
        assert_eq!(sum(&segment, pseudo(A, B, 6, segment.len())), 0xffff);
        assert_eq!(sum(&ipv4(A, B, 17, &datagram)[..20], 0), 0xffff);
    }

    #[test]
    fn crc_of_the_check_string() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
