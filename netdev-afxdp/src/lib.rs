//! AF_XDP for xvswitch: packet memory, sockets and their rings, the kick protocol, XDP programs.
//!
//! | module | what |
//! |---|---|
//! | `umem`, `pool`, `cache`, `frame`, `lent`, `ledger` | the packet memory and who has each frame |
//! | `packet` | a packet of 1 to 18 frames |
//! | `kick` | when to call the kernel to transmit, and what its answer means |
//! | `program` | the XDP program that hands packets to the sockets |
//! | `device`, `netlink` | network devices: queues, addresses, events |
//! | `xsk`, `bind`, `socket` | making sockets, all over one packet memory |
//! | `netdev` | a device as a port: program, sockets and mode together |
//! | `rx`, `tx`, `segment`, `link`, `stats` | their two halves, which move packets |
//! | `ring`, `mapping`, `abi`, `sys` | the kernel's rings and calls |
//!
//! This is the only crate with `unsafe`, and only in the files that say so at their head.

mod abi;
mod bind;
mod cache;
mod device;
mod error;
mod frame;
mod kick;
mod ledger;
mod lent;
mod link;
mod mapping;
mod netdev;
mod netlink;
mod packet;
mod pool;
mod program;
mod ring;
mod rx;
mod segment;
mod socket;
mod stats;
mod sys;
#[cfg(feature = "testing")]
pub mod testing;
mod tx;
mod umem;
mod xsk;

pub use cache::FrameCache;
pub use device::{Device, Promiscuous, Queues};
pub use error::{Error, Result};
pub use kick::Verdict;
pub use ledger::Ledger;
pub use link::LinkState;
pub use netdev::{Drain, Netdev, NetdevOptions, UmemGroups, XdpMode};
pub use netlink::{LinkEvent, LinkEvents, LinkMonitor};
pub use packet::XskPacket;
pub use program::{Attach, AttachMode, RedirectProgram};
pub use rx::XskRx;
pub use socket::{KernelStats, Quarantine, SocketStats};
pub use stats::{RxStats, TxStats};
pub use tx::XskTx;
pub use umem::{Hugepages, Umem, UmemConfig};
pub use xsk::{BusyPoll, InForce, Mode, Tunable, UmemGroup, Xsk, XskConfig};
