//! The published figures, and what differs in our set-up; at the end of each page.

/// XDP_MAX_TX_BUDGET, netdev 2025-06.
pub(super) const BUDGET: &str = "\
## Published

A socket option for the budget, merged into Linux as `XDP_MAX_TX_SKB_BUDGET` (netdev, June 2025); `xdpsock -l -N -t -b 256` on one virtual
machine, and `strace -c` of a production load.

| budget | packets | failed calls | time in sendto |
|--------|---------|--------------|----------------|
| 32 | 48.5 kpps | 18367 | |
| 256 | 148 kpps | 572 (at 128) | -7.8 % (at 128) |
| 512 | 226 kpps | | |

The first column was not reproduced on a second machine; with 128, packets rose by about 4 %.

What differs: a veth pair instead of a virtual NIC. The sender is xvswitch's own transmit path, which does not call again in a loop when a call
returns EAGAIN: a failed call here is one that sent its budget and had more to send. Calls are counted from inside; time in calls is the
thread's time in the kernel.";

/// Sharing tx rings between CPUs, netdev 2021-09.
pub(super) const QUEUES: &str = "\
## Published

ixgbe with more CPUs than XDP transmit rings (netdev, September 2021); netperf, before and after rings could be shared under a lock.

| client | before | after |
|--------|--------|-------|
| TCP_STREAM 64 B | 734 | 714 Mbit/s |
| TCP_STREAM 128 B | 1402 | 1395 Mbit/s |
| TCP_STREAM 512 B | 5312 | 5293 Mbit/s |
| TCP_STREAM 1 KiB | 9277 | 9356 Mbit/s |
| TCP_RR 1 B | 22560 | 21844 1/s |
| TCP_RR 128 B | 23170 | 22725 1/s |
| TCP_RR 512 B | 21671 | 21413 1/s |

What differs: veth pairs, two PMD threads on two cores that the hosts use as well; owned: devices of four queues, so that each thread has a
transmit queue of its own; shared: devices of one queue, which both threads use under a lock. iperf3 and a client of our own instead of netperf.";

/// The stall, Open vSwitch, 2019-11.
pub(super) const STALL: &str = "\
## Published

iperf between two afxdp ports of Open vSwitch (November 2019): 143 Mbit/s, and 0.00 from the sixth second on, because batches of 32 against a
budget of 16 exhausted the send buffer; with the batch equal to the budget 1.87 to 2.51 Gbit/s, steadily.

What differs: the kernel's budget is 32 today, and here can be set; veth pairs, and a link of 100 Mbit/s that holds packets with their charge as
a slow NIC does. Neighbours are forgotten once beside the stream; a ping shows whether ARP is answered.";

/// Generic batch transmit, netdev 2025-08.
pub(super) const XMIT_BATCH: &str = "\
## Published

Batched transmit in copy mode (netdev, August 2025); `xdpsock -t -S -s 64`. One lock of the queue for a batch instead of for a packet.

| device | single | batched |
|--------|--------|---------|
| virtio_net | 767,743 pps | 1,021,486 pps (+33 %) |
| virtio_net, a second thread competing | 405,466 pps | 521,076 pps (+28 %) |
| ixgbe, copy, v3 | 1,861,347 pps | 2,344,052 pps; 2,711,077 with xmit_more; 13,333,593 zero-copy |

What differs: batched means here so many descriptors for each call. The kernel's own option is used when `xmit-batch` asks for it and the
kernel has it, which no released one does; `xvsctl port show` says so. The rival sends from a packet socket on the other core. A veth pair with an XDP program at its other end wants 256 bytes of
headroom and copies each packet that has less; AF_XDP's packets have less, and no user of the socket can change that: the copy is part of every
figure above. No NIC with zero-copy is in this machine.";
