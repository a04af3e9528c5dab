// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The packet sink: counts the benchmark's packets and drops them; all others go on to the host. */
#include "traffic.h"

struct count {
	__u64 packets;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct count);
} counts SEC(".maps");

static __always_inline int is_traffic(const struct headers *headers)
{
	return headers->eth.h_proto == bpf_htons(ETH_P_IP) && headers->ip.protocol == IPPROTO_UDP &&
	       headers->udp.dest == bpf_htons(TRAFFIC_PORT);
}

/* Large packets come in several pieces. */
SEC("xdp.frags")
int sink(struct xdp_md *ctx)
{
	struct headers *headers = headers_of(ctx);
	struct count *count;
	__u32 zero = 0;

	if (!headers || !is_traffic(headers))
		return XDP_PASS;
	count = bpf_map_lookup_elem(&counts, &zero);
	if (count) {
		count->packets++;
		count->bytes += bpf_xdp_get_buff_len(ctx);
	}
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
