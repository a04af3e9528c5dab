// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The packet source: run by the kernel's live-frame test run, once for every frame, as fast as it can.
 * Each run is one chance to send: it sends when its time has come and drops the frame otherwise, which
 * costs less than anything user space could do to keep a pace.
 */
#include "traffic.h"

/* Set by user space before the run, but for the last two. One CPU runs the program. */
struct pace {
	__u32 ifindex;
	__u32 n_flows;
	__u32 second;	/* second byte of the source address of the first flows */
	__u32 checksum; /* of the IPv4 header of the first flows */
	__u64 count;	/* how many to send; 0: no end */
	__u64 interval; /* between two packets, in 256ths of a nanosecond; 0: none */
	__u64 next;	/* when the next packet is due, in the same unit */
	__u64 sent;	/* packets handed to the interface */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pace);
} paces SEC(".maps");

/* A source that was held up does not make up for more than this. */
#define LATE_MAX (1000000ull << 8)

/* Whether a packet is due. */
static __always_inline int is_due(struct pace *pace)
{
	__u64 now;

	if (pace->count && pace->sent >= pace->count)
		return 0;
	if (!pace->interval)
		return 1;
	now = bpf_ktime_get_ns() << 8;
	if (now < pace->next)
		return 0;
	if (now - pace->next > LATE_MAX)
		pace->next = now;
	pace->next += pace->interval;
	return 1;
}

/* Makes the packet that of a flow: its source port and, as there are more flows than ports, the second
 * byte of its source address. The frame may have been that of any flow before. */
static __always_inline void be_flow(struct headers *headers, const struct pace *pace, __u32 flow)
{
	__u32 address = flow / TRAFFIC_PORTS;
	/* RFC 1624: the byte is the lower one of a word, which grows by as much. */
	__u32 sum = (~pace->checksum & 0xffff) + address;

	headers->udp.source = bpf_htons(TRAFFIC_FIRST_FLOW + flow % TRAFFIC_PORTS);
	((__u8 *)&headers->ip.saddr)[1] = pace->second + address;
	headers->ip.check = bpf_htons(~((sum & 0xffff) + (sum >> 16)));
}

SEC("xdp")
int source(struct xdp_md *ctx)
{
	struct headers *headers = headers_of(ctx);
	__u32 zero = 0;
	struct pace *pace = bpf_map_lookup_elem(&paces, &zero);

	if (!headers || !pace || !is_due(pace))
		return XDP_DROP;
	if (pace->n_flows > 1)
		be_flow(headers, pace, pace->sent % pace->n_flows);
	pace->sent++;
	return bpf_redirect(pace->ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
