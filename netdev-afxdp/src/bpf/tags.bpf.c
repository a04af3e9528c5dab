// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The XDP program of an AF_XDP port whose device tells of VLAN tags that are not in the frame: a sender left
 * them to its hardware, or the device has taken them off. They are put back, as nothing behind the socket
 * could know of them. Needs a kernel with the function below (6.8) and is bound to one device when it is loaded.
 */
#include "redirect.h"
#include <bpf/bpf_endian.h>

extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *proto,
					__u16 *tci) __ksym;

#define ADDRESSES 12
#define TAG 4

/* Frames whose tag could not be put back: there was no room before them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} untagged SEC(".maps");

struct tag {
	__be16 proto;
	__be16 tci;
};

static __always_inline void put_back(struct xdp_md *ctx, __be16 proto, __u16 tci)
{
	struct tag *tag;
	char *data, *end;

	if (bpf_xdp_adjust_head(ctx, -TAG)) {
		__u32 zero = 0;
		__u64 *frames = bpf_map_lookup_elem(&untagged, &zero);

		if (frames)
			++*frames;
		return;
	}
	data = (char *)(long)ctx->data;
	end = (char *)(long)ctx->data_end;
	if (data + ADDRESSES + TAG > end)
		return;
	__builtin_memmove(data, data + TAG, ADDRESSES);
	tag = (struct tag *)(data + ADDRESSES);
	tag->proto = proto;
	tag->tci = bpf_htons(tci);
}

SEC("xdp.frags")
int redirect_tags(struct xdp_md *ctx)
{
	int action = to_socket(ctx);
	/* Without CAP_PERFMON the verifier wants what is filled to be initialized. */
	__be16 proto = 0;
	__u16 tci = 0;

	/* The stack knows of the tag, the socket does not. */
	if (action == XDP_REDIRECT && !bpf_xdp_metadata_rx_vlan_tag(ctx, &proto, &tci))
		put_back(ctx, proto, tci);
	return action;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
