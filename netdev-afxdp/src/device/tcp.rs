//! TCP connections of this network namespace, as `/proc/self/net/tcp` and `tcp6` list them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// State of an established connection in the list.
const ESTABLISHED: &str = "01";

/// Own and far end of each established connection; IPv4 over an IPv6 socket counts as IPv4.
pub(super) fn established() -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].into_iter().flat_map(|path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(connection).collect::<Vec<_>>()
    })
}

/// `sl local far state …`
fn connection(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, far, state) = (words.next()?, words.next()?, words.next()?);
    (state == ESTABLISHED).then_some((address(local)?, address(far)?))
}

/// Hexadecimal `ADDRESS:PORT`, the address in words of 32 bits in the machine's byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok();
    let ip = if address.len() == 8 {
        IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes()))
    } else {
        let mut bytes = [0; 16];
        for (at, place) in bytes.chunks_exact_mut(4).enumerate() {
            place.copy_from_slice(&word(at)?.to_ne_bytes());
        }
        IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_the_kernel_writes_them() {
        let line = "   0: 0100007F:0016 0200007F:A1B2 01 00000000:00000000 00:00000000";
        if cfg!(target_endian = "little") {
            let ends = ("127.0.0.1:22".parse().unwrap(), "127.0.0.2:41394".parse().unwrap());
            assert_eq!(connection(line), Some(ends));
            let v6 = "0000000000000000FFFF00000100007F:0016";
            assert_eq!(address(v6), Some("127.0.0.1:22".parse().unwrap()));
        }
        assert_eq!(connection(&line.replace(" 01 ", " 0A ")), None, "it listens");
        assert_eq!(connection("  sl  local_address rem_address   st"), None);
    }
}
