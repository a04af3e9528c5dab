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

SEC("xdp")
int source(struct xdp_md *ctx)
{
	struct headers *headers = headers_of(ctx);
	__u32 zero = 0;
	struct pace *pace = bpf_map_lookup_elem(&paces, &zero);

	if (!headers || !pace || !is_due(pace))
		return XDP_DROP;
	if (pace->n_flows > 1)
		headers->udp.source = bpf_htons(TRAFFIC_FIRST_FLOW + pace->sent % pace->n_flows);
	pace->sent++;
	return bpf_redirect(pace->ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
