/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the XDP programs of an AF_XDP port share: they hand each packet to the socket bound to its receive
 * queue.
 *
 * Invariant: a packet of a queue without socket goes to the stack, and is counted, so that a queue
 * that nobody serves never swallows traffic.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* The sockets by receive queue; user space sets the size to the number of queues before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

/* Packets of queues without socket. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} unbound SEC(".maps");

static __always_inline int to_socket(struct xdp_md *ctx)
{
	int action = bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_PASS);

	if (action == XDP_PASS) {
		__u32 zero = 0;
		__u64 *packets = bpf_map_lookup_elem(&unbound, &zero);

		if (packets)
			++*packets;
	}
	return action;
}
