/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Two interfaces joined by nothing but redirection: what both programs know. */
#ifndef XVS_REDIRECT_H
#define XVS_REDIRECT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* Set by user space before the program is attached. */
struct pair {
	__u32 a;
	__u32 b;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pair);
} pairs SEC(".maps");

/* The interface on the other side, or 0. */
static __always_inline __u32 other(__u32 ifindex)
{
	__u32 zero = 0;
	struct pair *pair = bpf_map_lookup_elem(&pairs, &zero);

	if (!pair)
		return 0;
	return ifindex == pair->a ? pair->b : pair->a;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#endif
