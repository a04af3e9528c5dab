//! `trace`: what the daemon is asked, with packets read from capture files here.

use std::fs::File;
use std::path::{Path, PathBuf};

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

use super::ClientError;

/// What is to be traced.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["flow", "hex", "pcap"])))]
pub struct TraceArgs {
    /// The packet's fields, as 'in_port(1),eth(dst=02:00:00:00:00:02),eth_type(0x0806)'; with --bridge as in a
    /// rule: 'in_port=1,udp,nw_dst=10.0.0.2'.
    flow: Option<String>,
    /// The bridge by which to read the flow.
    #[arg(long, requires = "flow", value_name = "BRIDGE")]
    bridge: Option<String>,
    /// The port, by name or number, where the packet of --hex or --pcap comes in.
    #[arg(long, value_name = "PORT", conflicts_with = "flow")]
    in_port: Option<String>,
    /// The packet's bytes in hex.
    #[arg(long, value_name = "BYTES", requires = "in_port", conflicts_with = "pcap")]
    hex: Option<String>,
    /// A capture file, pcap or pcapng, that has the packet.
    #[arg(long, value_name = "FILE", requires = "in_port")]
    pcap: Option<PathBuf>,
    /// Which packet of the file; the first is 1.
    #[arg(long, value_name = "N", requires = "pcap", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    packet: u64,
}

impl TraceArgs {
    /// The arguments of `ofproto/trace`.
    pub(super) fn words(&self) -> Result<Vec<String>, ClientError> {
        let packet = match &self.pcap {
            Some(file) => Some(hex(&read(file, self.packet)?)),
            None => self.hex.clone(),
        };
        let in_port = self.in_port.as_ref().map(|port| format!("in_port({port})"));
        Ok(self
            .bridge
            .iter()
            .cloned()
            .chain(self.flow.clone())
            .chain(in_port)
            .chain(packet)
            .collect())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a packet in a capture file.
fn read(file: &Path, number: u64) -> Result<Vec<u8>, ClientError> {
    let bad = |what: String| ClientError::Capture { file: file.to_owned(), what };
    let opened = File::open(file).map_err(|error| bad(error.to_string()))?;
    let mut reader = create_reader(1 << 20, opened).map_err(|error| bad(reason(&error)))?;
    let (mut seen, mut link) = (0, Linktype::ETHERNET);
    loop {
        match reader.next() {
            Ok((length, block)) => {
                let data = match &block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        link = header.network;
                        None
                    }
                    PcapBlockOwned::Legacy(packet) => Some(packet.data),
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                        link = interface.linktype;
                        None
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => Some(packet.packet_data()),
                    PcapBlockOwned::NG(Block::SimplePacket(packet)) => Some(packet.packet_data()),
                    PcapBlockOwned::NG(_) => None,
                };
                seen += u64::from(data.is_some());
                if let Some(bytes) = data.filter(|_| seen == number) {
                    if link != Linktype::ETHERNET {
                        return Err(bad(format!(
                            "packet {number} has no Ethernet header (link type {})",
                            link.0
                        )));
                    }
                    return Ok(bytes.to_vec());
                }
                reader.consume(length);
            }
            Err(PcapError::Eof) => {
                return Err(bad(format!("it has {seen} packets, there is no packet {number}")));
            }
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(|error| bad(reason(&error)))?
            }
            Err(error) => return Err(bad(reason(&error))),
        }
    }
}

/// Why a file cannot be read, for people.
fn reason<I>(error: &PcapError<I>) -> String {
    match error {
        PcapError::Eof | PcapError::UnexpectedEof | PcapError::Incomplete(_) => {
            "it ends in the middle of a packet".to_owned()
        }
        PcapError::BufferTooSmall => "a packet of more than 1 MiB".to_owned(),
        PcapError::ReadError => "it cannot be read".to_owned(),
        PcapError::HeaderNotRecognized | PcapError::NomError(..) | PcapError::OwnedNomError(..) => {
            "it is neither pcap nor pcapng".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture of the old kind with these packets.
    fn capture(link: u32, packets: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link] {
            bytes.extend(u32::to_le_bytes(word));
        }
        for packet in packets {
            let length = u32::try_from(packet.len()).unwrap();
            for word in [1, 2, length, length] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(*packet);
        }
        bytes
    }

    /// The same of the new kind.
    fn capture_ng(packets: &[&[u8]]) -> Vec<u8> {
        let block = |kind: u32, body: &[u8]| {
            let length = u32::try_from(12 + body.len()).unwrap().to_le_bytes();
            [&kind.to_le_bytes(), &length[..], body, &length].concat()
        };
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        let mut bytes = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
        bytes.extend(block(1, &words(&[1, 0])));
        for packet in packets {
            let length = u32::try_from(packet.len()).unwrap();
            let padding = vec![0; packet.len().next_multiple_of(4) - packet.len()];
            let body = [&words(&[0, 0, 0, length, length])[..], packet, &padding].concat();
            bytes.extend(block(6, &body));
        }
        bytes
    }

    #[test]
    fn finds_a_packet_in_both_kinds_of_files() {
        let path = std::env::temp_dir().join(format!("xvsctl-trace-{}.pcap", std::process::id()));
        let packets: [&[u8]; 3] = [b"first packet..", b"second", b"the third one"];
        for bytes in [capture(1, &packets), capture_ng(&packets)] {
            std::fs::write(&path, &bytes).unwrap();
            for (n, packet) in packets.iter().enumerate() {
                assert_eq!(read(&path, n as u64 + 1).unwrap(), *packet);
            }
            let none = read(&path, 4).unwrap_err().to_string();
            assert!(none.contains("3 packets"), "{none}");
            std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
            assert!(read(&path, 3).is_err());
        }
        std::fs::write(&path, capture(101, &packets)).unwrap();
        let error = read(&path, 1).unwrap_err().to_string();
        assert!(error.contains("no Ethernet header"), "{error}");
        std::fs::write(&path, b"something else entirely, and long enough").unwrap();
        let error = read(&path, 1).unwrap_err().to_string();
        assert!(error.contains("neither pcap nor pcapng"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path, 1).unwrap_err().to_string().contains("No such file"));
    }
}
